package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const servedCatalog = `
chain: {grace: 1h}
profiles:
  old: {extends: write-path, retry: {max_attempts: %d}}
dependencies:
  ledger: {profile: old}
services:
  ledger-api: {serves: [ledger]}
`

func arrives(s *SDK, caller string, p *profiles.Profile) {
	in := new(Inbound)
	s.Arrive(in, Arrival{Wire: otelprop.Request{State: otelprop.Valid, Direct: true, Limit: 3, Hop: 1, Entry: "edge", Caller: caller,
		Profile: string(p.Name), Digest: p.Digest()}})
	in.End()
}

func TestMismatch_is_found_within_one_request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warnings []string
		s := new(SDK)
		first := catalogOf(t, fmt.Sprintf(servedCatalog, 2))
		s.Init(Config{Service: "ledger-api", Catalog: first, Warn: func(m string, _ ...any) { warnings = append(warnings, m) }})

		arrives(s, "grab", first.Profiles["old"])
		assert.Empty(t, s.Mismatches())
		arrives(s, "go", profiles.Builtin().Profiles[profiles.ReadHeavy])
		require.Len(t, s.Mismatches(), 1)
		m := s.Mismatches()[0]
		assert.Equal(t, "go", m.Caller)
		assert.Equal(t, profiles.ReadHeavy, m.Profile)
		assert.Equal(t, []string{"ledger"}, m.Dependencies)
		assert.Contains(t, m.Differences, "retry.max_attempts: 4, pinned 2")
		assert.False(t, m.Older)
		arrives(s, "go", profiles.Builtin().Profiles[profiles.ReadHeavy])
		require.Len(t, warnings, 1, "warned once")
		assert.Contains(t, warnings[0], `"go"`)
		assert.EqualValues(t, 2, s.Mismatches()[0].Requests)

		// The service gets the new catalog before its callers do: for an hour they are late, and not divergent.
		require.NoError(t, s.Swap(catalogOf(t, fmt.Sprintf(servedCatalog, 3))))
		arrives(s, "grab", first.Profiles["old"])
		find := func(caller string) profiles.Mismatch {
			for _, m := range s.Mismatches() {
				if m.Caller == caller {
					return m
				}
			}
			return profiles.Mismatch{}
		}
		assert.True(t, find("grab").Older)
		assert.Equal(t, []string{"retry.max_attempts: 2, pinned 3"}, find("grab").Differences)
		assert.EqualValues(t, 1, s.Totals().Older)
		assert.EqualValues(t, 2, s.Totals().Mismatched)
		assert.Len(t, warnings, 1)
		// One more change within the hour: both older catalogs are late.
		require.NoError(t, s.Swap(catalogOf(t, fmt.Sprintf(servedCatalog, 4))))
		arrives(s, "grab", first.Profiles["old"])
		assert.EqualValues(t, 2, s.Totals().Older)

		time.Sleep(time.Hour + time.Second)
		arrives(s, "grab", first.Profiles["old"])
		assert.False(t, find("grab").Older)
		assert.EqualValues(t, 3, s.Totals().Mismatched)

		// A caller that was first is found to agree once the service has the catalog too.
		ahead := catalogOf(t, fmt.Sprintf(servedCatalog, 5))
		arrives(s, "grab", ahead.Profiles["old"])
		require.NoError(t, s.Swap(ahead))
		agreed := 0
		for _, m := range s.Mismatches() {
			if m.AgreedSince {
				agreed++
				assert.Equal(t, ahead.Profiles["old"].Digest(), m.Digest)
			}
		}
		assert.Equal(t, 1, agreed)
	})
}

// TestMismatch_needs_a_pin_for_all_that_is_served: a caller may be calling the dependency whose profile is free.
func TestMismatch_needs_a_pin_for_all_that_is_served(t *testing.T) {
	s := new(SDK)
	s.Init(Config{Service: "api", Catalog: catalogOf(t, "dependencies: {a: {profile: write-path}, b: {}}\nservices: {api: {serves: [a, b]}}")})
	arrives(s, "go", profiles.Builtin().Profiles[profiles.ReadHeavy])
	assert.Empty(t, s.Mismatches())

	both := new(SDK)
	both.Init(Config{Service: "api", Catalog: catalogOf(t, "dependencies: {a: {profile: write-path}, b: {profile: read-heavy}}\nservices: {api: {serves: [a, b]}}")})
	arrives(both, "go", profiles.Builtin().Profiles[profiles.ReadHeavy])
	assert.Empty(t, both.Mismatches())
	arrives(both, "go", profiles.Builtin().Profiles[profiles.Background])
	assert.Len(t, both.Mismatches(), 1)
}

// TestMismatches_are_bounded: who calls, and with what, is somebody else's to say.
func TestMismatches_are_bounded(t *testing.T) {
	s := new(SDK)
	s.Init(Config{Service: "ledger-api", Catalog: catalogOf(t, fmt.Sprintf(servedCatalog, 2))})
	p := *profiles.Builtin().Profiles[profiles.ReadHeavy]
	for i := range 3000 {
		arrives(s, fmt.Sprint("caller", i), &p)
	}
	list := s.Mismatches()
	assert.Len(t, list, maxMismatches+1)
	var total, other int64
	for _, m := range list {
		total += m.Requests
		if m.Caller == otherCallers {
			other = m.Requests
		}
	}
	assert.EqualValues(t, 3000, total)
	assert.EqualValues(t, 3000-maxMismatches, other)
}
