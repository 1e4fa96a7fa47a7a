package stormlab_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

// everything is a scenario with something of each kind: parallel and sequential calls, queues, timeouts, every fault and every policy.
func everything(t testing.TB) *stormlab.Scenario {
	ms := time.Millisecond
	s := &stormlab.Scenario{
		Name: "everything", Seed: 7, Duration: 4 * time.Second, Interval: 500 * ms, Cells: 2,
		Services: []stormlab.Service{
			{Name: "edge", Parallel: true, Calls: []stormlab.Call{{To: "shop", Times: 2}, {To: "search"}, {To: "ads", Optional: true, Share: .5}}},
			{Name: "shop", Work: stormlab.Latency{Mean: ms}, Calls: []stormlab.Call{{To: "ledger", Write: true}, {To: "stock"}}},
			{Name: "search", Work: stormlab.Latency{P50: 3 * ms, P99: 80 * ms}, Parallel: true, Calls: []stormlab.Call{{To: "stock", Times: 3}}, MaxInFlight: 40},
			{Name: "ads", Failure: .2, PlainErrors: true, Calls: []stormlab.Call{{To: "stock"}}},
			{Name: "ledger", Work: stormlab.Latency{Min: 5 * ms, Max: 9 * ms}, Workers: 1, Queue: 3, Failure: .02, FailsLate: true},
			{Name: "stock", Work: stormlab.Latency{Mean: 2 * ms}, Workers: 20, Queue: 50, Failure: .05},
		},
		Traffic: []stormlab.Traffic{{To: "edge", Rate: 60}, {To: "search", Rate: 20, Even: true, From: time.Second}, {To: "shop", Clients: 10, Every: 700 * ms, RetryEvery: 100 * ms}},
		Faults: []stormlab.Fault{
			{Kind: stormlab.FaultError, Service: "stock", From: 500 * ms, Until: time.Second, Share: .6, Status: 502},
			{Kind: stormlab.FaultSlow, Service: "ledger", From: time.Second, Until: 1500 * ms, Factor: 5},
			{Kind: stormlab.FaultHang, Service: "stock", From: 1500 * ms, Until: 2 * time.Second, Share: .2},
			{Kind: stormlab.FaultCrash, Service: "ledger", From: 2 * time.Second, Until: 2200 * ms},
			{Kind: stormlab.FaultCut, Service: "stock", Caller: "ads", From: 2200 * ms, Until: 2500 * ms},
			{Kind: stormlab.FaultDropContext, Service: "shop", From: 2500 * ms, Until: 3 * time.Second, Share: .5},
			{Kind: stormlab.FaultNoSDK, Service: "search", From: 2500 * ms, Until: 3 * time.Second},
			{Kind: stormlab.FaultNoBaggage, Service: "shop", From: 3 * time.Second, Until: 3200 * ms},
			{Kind: stormlab.FaultError, Service: "stock", From: 2500 * ms, Until: 3200 * ms, Share: .5},
		},
		Variants: []stormlab.Variant{
			{Name: "sdk"},
			{Name: "latency-critical", Policy: stormlab.Policy{Profile: "latency-critical"}},
			{Name: "mixed", Policy: stormlab.Policy{Kind: stormlab.PolicyNaive, Timeout: 50 * ms}, Except: map[string]stormlab.Policy{"shop": {}, "edge": {}}},
		},
	}
	for _, kind := range []stormlab.PolicyKind{
		stormlab.PolicyNone, stormlab.PolicyNaive, stormlab.PolicyRatio, stormlab.PolicyDownOnly, stormlab.PolicyChainStop, stormlab.PolicyFinagle, stormlab.PolicyGRPC, stormlab.PolicyAWS,
	} {
		p := stormlab.Policy{Kind: kind, Base: 10 * ms, Cap: 100 * ms}
		switch kind {
		case stormlab.PolicyRatio:
			p.Ratio = .1
		case stormlab.PolicyDownOnly:
			p.Budget = 3
		}
		s.Variants = append(s.Variants, stormlab.Variant{Name: string(kind), Policy: p})
	}
	return s
}

// waiting is a fan-out whose calls wait for the tokens that their siblings hold: several are woken at one instant.
func waiting(t testing.TB) *stormlab.Scenario {
	return &stormlab.Scenario{
		Name: "waiting", Seed: 7, Duration: 2 * time.Second,
		Services: []stormlab.Service{
			{Name: "edge", Parallel: true, Calls: []stormlab.Call{{To: "middle", Times: 8}}},
			{Name: "middle", Parallel: true, Calls: []stormlab.Call{{To: "leaf", Times: 2}}},
			{Name: "leaf", Work: stormlab.Latency{Mean: 10 * time.Millisecond}, Failure: .2},
		},
		Traffic:  []stormlab.Traffic{{To: "edge", Rate: 100}},
		Variants: []stormlab.Variant{{Name: "sdk", Catalog: catalog(t, 6, 1, 4), Policy: stormlab.Policy{Profile: "lab"}}},
	}
}

// A seed decides the result to the byte, on any number of processors; another seed gives another one.
func TestSame_seed_same_bytes(t *testing.T) {
	t.Run("everything", func(t *testing.T) { sameBytes(t, everything) })
	t.Run("waiting", func(t *testing.T) { sameBytes(t, waiting) })
}

func sameBytes(t *testing.T, scenario func(testing.TB) *stormlab.Scenario) {
	result := func(s *stormlab.Scenario) []byte {
		b, err := json.MarshalIndent(run(t, s), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want := result(scenario(t))
	for _, procs := range []int{1, 2, 16} {
		t.Run(fmt.Sprintf("gomaxprocs_%d", procs), func(t *testing.T) {
			runtime.GOMAXPROCS(procs)
			if got := result(scenario(t)); !bytes.Equal(got, want) {
				t.Errorf("differs: %s", firstDifference(got, want))
			}
		})
	}
	other := scenario(t)
	other.Seed++
	if bytes.Equal(result(other), want) {
		t.Error("another seed gives the same result")
	}
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(got, want []byte) string {
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			return fmt.Sprintf("line %d is %s, want %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}
