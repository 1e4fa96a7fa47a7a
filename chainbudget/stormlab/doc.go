// Package stormlab runs a fleet of services in virtual time, with the SDK's own code, and shows what its retries do when
// something fails: before production does.
//
//	s := &stormlab.Scenario{
//		Name: "ledger down", Seed: 1, Duration: time.Minute,
//		Services: []stormlab.Service{
//			{Name: "shop", Calls: []stormlab.Call{{To: "ledger"}}},
//			{Name: "ledger", Work: stormlab.Latency{Mean: 10 * time.Millisecond}, Workers: 10, Queue: 50},
//		},
//		Traffic:  []stormlab.Traffic{{To: "shop", Rate: 500}},
//		Faults:   []stormlab.Fault{{Kind: stormlab.FaultError, Service: "ledger", From: 20 * time.Second, Until: 40 * time.Second}},
//		Variants: []stormlab.Variant{{Name: "before", Policy: stormlab.Policy{Kind: stormlab.PolicyNaive, Attempts: 4}}, {Name: "after"}},
//	}
//	result, err := s.Run(ctx, nil)
//
// What runs for the SDK is budgethttp's transport and handler, one SDK for each service, over a wire in memory: purses,
// headers, decisions, gates, breakers and the catalog are the ones that production has. What runs for other policies is built
// here for comparison.
//
// 1. Times are virtual: a minute takes as long as its events take to compute.
//
// 2. A scenario and its seed decide the result to the last digit, whatever the number of processors.
//
// 3. Without a setting, a service answers at once, any number of requests at a time, and never fails; an attempt is 0.2 to
// 0.4 ms on the wire; a call's failure fails its caller.
//
// It does not hedge, has no bodies and no streams, and a crash loses no request that is already inside. What is counted is
// bounded by services and intervals, not by requests.
package stormlab
