package stormlab_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// catalog returns one whose profile "lab" is about ownership and the chain's budget alone; "hasty" has a limit of 200 ms for an
// attempt.
func catalog(t testing.TB, budget, orphan, attempts int) *profiles.Catalog {
	t.Helper()
	c, err := profiles.Load(fmt.Appendf(nil, `
version: 1
chain: {budget: %d, max_budget: 99, orphan_budget: %d, deadlines: ignore}
profiles:
  lab:
    extends: read-heavy
    retry: {max_attempts: %d, attempt_timeout: 0s}
    backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}
    breaker: disabled
    availability_floor: 0%%
    budget: disabled
  hasty:
    extends: lab
    retry: {attempt_timeout: 200ms}
`, budget, orphan, attempts), "lab")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs s, and fails the test on an error.
func run(t testing.TB, s *stormlab.Scenario) *stormlab.Result {
	t.Helper()
	r, err := s.Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// loads returns the load of each service in one variant.
func loads(t testing.TB, r *stormlab.Result, variant string) map[string]float64 {
	t.Helper()
	for _, v := range r.Variants {
		if v.Name == variant {
			list := make(map[string]float64)
			for _, s := range v.Services {
				list[s.Name] = s.Load
			}
			return list
		}
	}
	t.Fatalf("there is no variant %s", variant)
	return nil
}
