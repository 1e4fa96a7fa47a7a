package stormlab_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

// Each fault does what its name says, to the SDK as to a policy for comparison.
func TestFaults(t *testing.T) {
	const ms = time.Millisecond
	type seen struct{ shop, ledger, good, failed int64 } // arrivals, and requests from outside
	for name, tt := range map[string]struct {
		fault stormlab.Fault
		want  seen
		p50   float64 // of what succeeded, about; 0 = nothing did, or it is of no interest
	}{
		"none":           {stormlab.Fault{Kind: stormlab.FaultSlow, Service: "ledger", Factor: 1}, seen{100, 100, 100, 0}, 10},
		"slow":           {stormlab.Fault{Kind: stormlab.FaultSlow, Service: "ledger", Factor: 4}, seen{100, 100, 100, 0}, 40},
		"error":          {stormlab.Fault{Kind: stormlab.FaultError, Service: "ledger", From: 500 * ms}, seen{100, 100, 50, 50}, 10},
		"throttled":      {stormlab.Fault{Kind: stormlab.FaultError, Service: "ledger", Status: 429, Until: 200 * ms}, seen{100, 100, 80, 20}, 10},
		"own_error":      {stormlab.Fault{Kind: stormlab.FaultError, Service: "shop", Until: 200 * ms}, seen{100, 80, 80, 20}, 10},
		"hang":           {stormlab.Fault{Kind: stormlab.FaultHang, Service: "ledger", From: 700 * ms}, seen{100, 100, 70, 30}, 10},
		"crash":          {stormlab.Fault{Kind: stormlab.FaultCrash, Service: "ledger", From: 900 * ms}, seen{100, 90, 90, 10}, 10},
		"crash_at_entry": {stormlab.Fault{Kind: stormlab.FaultCrash, Service: "shop", From: 900 * ms}, seen{90, 90, 90, 10}, 10},
		"cut":            {stormlab.Fault{Kind: stormlab.FaultCut, Service: "ledger", Caller: "shop", From: 600 * ms}, seen{100, 60, 60, 40}, 10},
		"cut_elsewhere":  {stormlab.Fault{Kind: stormlab.FaultCut, Service: "shop", Caller: "ledger"}, seen{100, 100, 100, 0}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, &stormlab.Scenario{
				Duration: time.Second, Network: stormlab.Latency{Min: 1, Max: 1},
				Services: []stormlab.Service{{Name: "shop", Calls: []stormlab.Call{{To: "ledger", Write: true}}}, {Name: "ledger", Work: stormlab.Latency{Min: 10 * ms, Max: 10 * ms}}},
				Traffic:  []stormlab.Traffic{{To: "shop", Rate: 100, Even: true}},
				Faults:   []stormlab.Fault{tt.fault},
				Variants: []stormlab.Variant{
					{Name: "sdk", Catalog: catalog(t, 3, 1, 1), Policy: stormlab.Policy{Profile: "hasty"}},
					{Name: "none", Policy: stormlab.Policy{Kind: stormlab.PolicyNone, Timeout: 200 * ms}},
				},
			})
			for _, v := range r.Variants {
				assert.Equal(t, tt.want, seen{v.Services[0].Arrivals, v.Services[1].Arrivals, v.Good, v.Failed}, v.Name)
				assert.InEpsilon(t, tt.p50, v.P50, .05, v.Name)
			}
		})
	}
}

// A service that holds as many requests as it may rejects one more, also while what holds them is a hang.
func TestService_max_in_flight(t *testing.T) {
	r := run(t, &stormlab.Scenario{
		Duration: time.Second,
		Services: []stormlab.Service{{Name: "shop", MaxInFlight: 7}},
		Traffic:  []stormlab.Traffic{{To: "shop", Rate: 100, Even: true}},
		Faults:   []stormlab.Fault{{Kind: stormlab.FaultHang, Service: "shop"}},
		Variants: []stormlab.Variant{{Name: "sdk"}},
	})
	assert.EqualValues(t, 93, r.Variants[0].Services[0].Rejected)
}

// A hop without the SDK hands one token on to what it calls; one that drops the baggage leaves an orphan below it, which has
// none here.
func TestFaults_hop_without_the_SDK(t *testing.T) {
	for kind, want := range map[stormlab.FaultKind]float64{stormlab.FaultNoSDK: 2, stormlab.FaultNoBaggage: 1} {
		r := run(t, &stormlab.Scenario{
			Duration: time.Second,
			Services: []stormlab.Service{
				{Name: "entry", Calls: []stormlab.Call{{To: "old", Write: true}}}, {Name: "old", Calls: []stormlab.Call{{To: "middle"}}},
				{Name: "middle", Calls: []stormlab.Call{{To: "leaf"}}}, {Name: "leaf", Failure: 1},
			},
			Traffic:  []stormlab.Traffic{{To: "entry", Rate: 100, Even: true}},
			Faults:   []stormlab.Fault{{Kind: kind, Service: "old"}},
			Variants: []stormlab.Variant{{Name: "sdk", Catalog: catalog(t, 3, 0, 4), Policy: stormlab.Policy{Profile: "lab"}}},
		})
		assert.InDelta(t, want, loads(t, r, "sdk")["leaf"], .01, kind)
	}
}
