package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// Code that leaves the profile to the catalog has one to lose as well: a catalog without its pin would quietly make one
// attempt of each call.
func TestRegression_a_pinned_dependency_keeps_its_profile(t *testing.T) {
	pinned := catalogOf(t, "dependencies: {ledger: {profile: write-path, hosts: [ledger.internal]}}")
	bare := catalogOf(t, "chain: {budget: 2}")
	for _, first := range []*profiles.Catalog{pinned, bare} { // where it is bare, code got an error and no-retry
		s := new(SDK)
		s.Init(Config{Service: "checkout", Catalog: first})
		d, _, err := s.Dependency("ledger", "")
		assert.Equal(t, first == bare, err != nil)
		require.NoError(t, s.Swap(pinned))
		err = s.Swap(bare)
		require.ErrorContains(t, err, `dependency "ledger" has no profile`)
		assert.Equal(t, profiles.WritePath, d.Policy().Profile().Name)
	}

	// A router has nobody who named it: where the catalog forgets the host, calls to it are of no dependency.
	s := new(SDK)
	s.Init(Config{Service: "checkout", Catalog: pinned})
	require.NotNil(t, s.ForHost(context.Background(), "ledger.internal"))
	require.NoError(t, s.Swap(bare))
	assert.Nil(t, s.ForHost(context.Background(), "ledger.internal"))
}

// A request of an older catalog that is the first of its catalog to call a dependency gets what it needs beside what counts
// by the newest, which goes on counting.
func TestRegression_a_late_request_puts_no_state_aside(t *testing.T) {
	const text = "profiles: {p: {extends: no-retry, adaptive_throttle: {k: 2, window: %s}, budget: {kind: reserve, ratio: 10%%, ttl: %[1]s}}}\ndependencies: {d: {profile: p}}"
	s := new(SDK)
	s.Init(Config{Service: "checkout", Catalog: catalogOf(t, fmt.Sprintf(text, "10s"))})
	old := s.Generation()
	require.NoError(t, s.Swap(catalogOf(t, fmt.Sprintf(text, "20s"))))
	d, _, err := s.Dependency("d", "")
	require.NoError(t, err)
	before := d.Policy()
	before.throttle.asked(time.Now())
	late := old.policy(d)
	assert.NotSame(t, before.throttle, late.throttle)
	assert.Same(t, late, old.policy(d), "all requests of one catalog share")
	require.NoError(t, s.Swap(catalogOf(t, "chain: {budget: 2}\n"+fmt.Sprintf(text, "20s"))))
	assert.Same(t, before.throttle, d.Policy().throttle)
	assert.Same(t, before.bucket, d.Policy().bucket)
}
