//go:build !race

package stormlab

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// T24: how many hops retry because of one failure, in fleets that are drawn. Where hops make one call after the other it is the one
// next to the cause. Where they make all of them at once, two at most do for a service that few need; for one that many need,
// several calls of one request fail, and count as one storm. One retry at each hop for comparison reaches the entry.
func TestT24_storm_radius_of_drawn_fleets_NoRace(t *testing.T) {
	c, err := profiles.Load([]byte(`
version: 1
chain: {budget: 3, orphan_budget: 1}
profiles:
  lab: {extends: read-heavy, budget: disabled, breaker: disabled, availability_floor: 0%, backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}}
`), "lab")
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		parallel, needed bool
		most             int64
		mean             float64
	}{
		"one_after_the_other":                   {false, true, 2, 1.3},
		"all_at_once_and_few_need_what_is_down": {true, false, 2, 1.65},
		"all_at_once_and_many_need_it":          {true, true, 3, 1.75},
	} {
		t.Run(name, func(t *testing.T) {
			var storms, hops float64
			for seed := range uint64(5) {
				s := drafted(t, 60, seed)
				if !tt.needed {
					s.Faults[0].Service = leastNeeded(s)
				}
				for i := range s.Services {
					s.Services[i].Parallel, s.Services[i].Workers, s.Services[i].Queue = tt.parallel, 0, 0
				}
				s.Faults[0].Kind, s.Faults[0].Factor = FaultError, 0
				s.Faults[0].From, s.Faults[0].Until, s.Expect, s.Duration = 500*time.Millisecond, 0, nil, 3*time.Second
				s.Variants = []Variant{{Name: "naive", Policy: Policy{Kind: PolicyNaive, Attempts: 2}}, {Name: "sdk", Catalog: c, Policy: Policy{Profile: "lab"}}}
				r, err := s.Run(context.Background(), nil)
				require.NoError(t, err)
				naive, sdk := &r.Variants[0], &r.Variants[1]
				t.Logf("seed %d: naive %.2f, at most %d, of %d; SDK %.2f, at most %d, up to %d from the cause, of %d", seed,
					naive.MeanRadius, naive.Radius, naive.Storms, sdk.MeanRadius, sdk.Radius, sdk.Farthest, sdk.Storms)
				assert.LessOrEqual(t, sdk.Radius, tt.most, "seed %d", seed)
				assert.LessOrEqual(t, sdk.MeanRadius, naive.MeanRadius, "seed %d", seed)
				storms, hops = storms+float64(sdk.Storms), hops+sdk.MeanRadius*float64(sdk.Storms)
			}
			assert.LessOrEqual(t, hops/storms, tt.mean)
			t.Logf("%.2f hops on average, of %.0f failures", hops/storms, storms)
		})
	}
}

// leastNeeded is the service that the fewest others call of those that call nobody and are not called at an entry.
func leastNeeded(s *Scenario) (name string) {
	callers := make(map[string]int)
	for i := range s.Services {
		for _, c := range s.Services[i].Calls {
			callers[c.To]++
		}
	}
	for i := len(s.Services) - 1; i >= 0; i-- {
		if of := s.Services[i].Name; len(s.Services[i].Calls) == 0 && (name == "" || callers[of] < callers[name]) {
			name = of
		}
	}
	return name
}
