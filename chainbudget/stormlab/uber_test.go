package stormlab_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// catalog returns one whose profile "lab" is about ownership and the chain's budget alone; "tenth" has a budget of 10 %, and
// "hasty" a limit of 200 ms for an attempt.
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
  tenth:
    extends: lab
    budget: {ratio: 10%%, fund: requests, burst: 10}
  hasty:
    extends: lab
    retry: {attempt_timeout: 200ms}
`, budget, orphan, attempts), "lab")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// uber is the published chain of seven nodes in which the fourth fails after what it calls has answered.
func uber(t testing.TB, requests int) *stormlab.Scenario {
	s := &stormlab.Scenario{
		Name: "uber-chain", Seed: 1, Duration: time.Duration(requests) * time.Millisecond,
		Traffic: []stormlab.Traffic{{To: "a", Rate: 1000, Even: true}},
		Variants: []stormlab.Variant{
			{Name: "none", Policy: stormlab.Policy{Kind: stormlab.PolicyNaive, Attempts: 2}},
			{Name: "ratio", Policy: stormlab.Policy{Kind: stormlab.PolicyRatio, Attempts: 2, Ratio: .1}},
			{Name: "ownership", Catalog: catalog(t, 3, 1, 2), Policy: stormlab.Policy{Profile: "lab"}},
			{Name: "ownership and ratio", Catalog: catalog(t, 3, 1, 2), Policy: stormlab.Policy{Profile: "tenth"}},
		},
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		service := stormlab.Service{Name: name}
		if name != "g" {
			service.Calls = []stormlab.Call{{To: string(name[0] + 1)}}
		}
		if name == "d" {
			service.Failure, service.FailsLate = 1, true
		}
		s.Services = append(s.Services, service)
	}
	return s
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

// T1b: the calls of each node of the published chain.
func TestT1b_Uber_chain(t *testing.T) {
	const requests = 2_000
	r := run(t, uber(t, requests))
	for _, row := range []struct {
		variant string
		want    []float64 // a to g
	}{
		{"none", []float64{1, 2, 4, 8, 8, 8, 8}},
		{"ratio", []float64{1, 1.1, 1.21, 1.331, 1.331, 1.331, 1.331}},
		{"ownership", []float64{1, 1, 1, 2, 2, 2, 2}},
		{"ownership and ratio", []float64{1, 1, 1, 1.1, 1.1, 1.1, 1.1}},
	} {
		got := loads(t, r, row.variant)
		for i, want := range row.want {
			name := string(rune('a' + i))
			if math.Abs(got[name]-want) > 30./requests { // what a bucket holds at first and in the end, up to three of them
				t.Errorf("%s: the load of %s is %v, want %v", row.variant, name, got[name], want)
			}
		}
	}
}
