package stormlab_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

// A repeated attempt needs what the first one needed, whoever repeats it and however: half of the requests need a service that is
// down, and no retry makes one of them succeed.
func TestShare_is_drawn_for_the_request(t *testing.T) {
	naive := stormlab.Policy{Kind: stormlab.PolicyNaive, Attempts: 2}
	for name, tt := range map[string]struct {
		variant  stormlab.Variant
		parallel bool
		mesh     int
		want     float64 // the load of what is down
	}{
		"naive":           {stormlab.Variant{Policy: naive}, false, 0, 8},
		"naive_parallel":  {stormlab.Variant{Policy: naive}, true, 0, 8},
		"mesh":            {stormlab.Variant{Policy: stormlab.Policy{Kind: stormlab.PolicyNone}}, false, 2, 3},
		"sdk":             {stormlab.Variant{Catalog: catalog(t, 3, 1, 2), Policy: stormlab.Policy{Profile: "lab"}}, false, 0, 2},
		"naive_above_sdk": {stormlab.Variant{Catalog: catalog(t, 3, 1, 2), Policy: stormlab.Policy{Profile: "lab"}, Except: map[string]stormlab.Policy{"front": naive}}, false, 0, 4},
		"sdk_above_naive": {stormlab.Variant{Catalog: catalog(t, 3, 1, 2), Policy: naive, Except: map[string]stormlab.Policy{"front": {Profile: "lab"}}}, true, 0, 8},
	} {
		t.Run(name, func(t *testing.T) {
			tt.variant.Name = name
			r := run(t, &stormlab.Scenario{
				Seed: 3, Duration: 2 * time.Second,
				Services: []stormlab.Service{
					{Name: "front", Calls: []stormlab.Call{{To: "middle"}}, Parallel: tt.parallel},
					{Name: "middle", Calls: []stormlab.Call{{To: "back"}}, MeshRetries: tt.mesh},
					{Name: "back", Calls: []stormlab.Call{{To: "down", Share: .5}, {To: "other", Times: 3, Share: .5}}},
					{Name: "down", Failure: 1},
					{Name: "other"},
				},
				Traffic:  []stormlab.Traffic{{To: "front", Rate: 1000, Even: true}},
				Variants: []stormlab.Variant{tt.variant},
			})
			assert.InDelta(t, .5, r.Variants[0].Success, .05)
			assert.InDelta(t, tt.want, loads(t, r, name)["down"], .1*tt.want)
			assert.InDelta(t, tt.want*(1-r.Variants[0].Success), float64(r.Variants[0].Services[3].Arrivals)/float64(r.Variants[0].Sent), 1e-9, "each of the same requests, and no other")
		})
	}
}

// What two calls of one request need is drawn for each: by the path to it, the place of the call and the repetition.
func TestShare_is_drawn_for_each_path(t *testing.T) {
	r := run(t, &stormlab.Scenario{
		Duration: time.Second, Services: []stormlab.Service{
			{Name: "front", Calls: []stormlab.Call{{To: "left"}, {To: "right", Times: 2}}},
			{Name: "left", Calls: []stormlab.Call{{To: "leaf", Share: .5}}},
			{Name: "right", Calls: []stormlab.Call{{To: "leaf", Share: .5}}},
			{Name: "leaf", Failure: 1},
		},
		Traffic:  []stormlab.Traffic{{To: "front", Rate: 4000, Even: true}},
		Variants: []stormlab.Variant{{Name: "none", Policy: stormlab.Policy{Kind: stormlab.PolicyNone}}},
	})
	assert.InDelta(t, .125, r.Variants[0].Success, .02, "three draws, each of which must say no")
}

// A client asks again for what has failed: sooner or later each of them wants what is down, and nothing else until it is there.
func TestShare_is_drawn_for_what_a_client_wants(t *testing.T) {
	r := run(t, &stormlab.Scenario{
		Duration: 20 * time.Second,
		Services: []stormlab.Service{{Name: "shop", Calls: []stormlab.Call{{To: "ledger", Share: .5}}}, {Name: "ledger"}},
		Traffic:  []stormlab.Traffic{{To: "shop", Clients: 200, Every: time.Second}},
		Faults:   []stormlab.Fault{{Kind: stormlab.FaultError, Service: "ledger", Until: 18 * time.Second}},
		Variants: []stormlab.Variant{{Name: "none", Policy: stormlab.Policy{Kind: stormlab.PolicyNone}}},
	})
	good := func(second int) float64 {
		at := r.Variants[0].Timeline[second]
		return float64(at.Good) / float64(at.Sent)
	}
	assert.InDelta(t, .5, good(0), .15)
	assert.Zero(t, good(17))
	assert.EqualValues(t, 1, good(19))
}
