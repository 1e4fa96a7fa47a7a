package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// A service that is called "other" shares the series of all that nobody has declared: its own chains once counted under
// whichever declared name was used first, and nowhere before one was.
func TestRegression_a_service_called_other_counts_under_its_own_name(t *testing.T) {
	s := new(SDK)
	s.Init(Config{Service: "Other", Catalog: profiles.Builtin()})
	d, _, err := s.Dependency("ledger", profiles.ReadHeavy)
	require.NoError(t, err)
	policy := d.Policy()
	policy.entryCounters(s.entrySlug).retries.Add(1)
	assert.Equal(t, "ledger", s.label("ledger").name)
	under := make(map[string]int64)
	for _, l := range s.labels.all() {
		if e := policy.counters.entries.look(l); e != nil {
			under[l.name] += e.retries.Load()
		}
	}
	assert.EqualValues(t, 1, under["other"], under)
	assert.Zero(t, under["ledger"])
}
