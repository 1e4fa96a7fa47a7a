// Package chainbudgettest is for tests: an SDK that does not sleep and records every retry decision, the suite that
// every adapter has to pass, and call chains on which everything goes wrong as planned.
//
//	rec := chainbudgettest.New(t)
//	payments := rec.Dependency("payments", profiles.WritePath)
//	client := &http.Client{Transport: budgethttp.NewTransport(nil, payments)}
//	...
//	if got := rec.Reasons(); !slices.Contains(got, ownership.ReasonNotIdempotent) { ... }
//
// By default every backoff lasts no time, the mode is the catalog's (enforce in the embedded one) whatever the environment
// says, and a name or a profile that does not exist fails the test. A Recorder may be used by many goroutines at once.
//
// A call whose context belongs to no request has the one token of an orphan, and so one retry. Begin a chain for it where a
// test needs more:
//
//	ctx, end := chainbudget.Start(t.Context(), rec.SDK)
//	defer end()
//
// What a service makes of a chain's budget shows on a [Chain] around it: made-up hops over real HTTP, a plan of what goes
// wrong, and the requests of every hop drawn as a tree when something does not add up.
//
//	outcome, err := chainbudgettest.Chain{Handler: handler, Transport: budgethttp.NewTransport, Depth: 3,
//		Services: map[int]func(chainbudgettest.Place) http.Handler{1: shop},
//		Faults:   []chainbudgettest.Fault{{Hop: 3, Kind: chainbudgettest.Fails, Times: 1}},
//	}.Run(t.Context())
//
// An adapter, of this repository or of anybody else, proves itself with [Conform]: an [Adapter] says how to serve and how
// to call, the suite does the rest over real connections.
//
//	func TestConformance(t *testing.T) {
//		chainbudgettest.Conform(t, chainbudgettest.Adapter{Name: "budgetxyz", Serve: serve, Dial: dial, Lacks: ...})
//	}
package chainbudgettest
