// Package ownership says who caused an error, so that retries happen next to the cause and nowhere above it.
//
// Adapters do the work; a handler only speaks up when it knows more than they do:
//
//	if err := charge(ctx); err != nil {
//		ownership.Blame(ctx, err) // the failed call inside err caused our failure
//		http.Error(w, "payment failed", http.StatusBadGateway)
//		return
//	}
//
// What a handler's failure says to its caller, in the order in which causes are looked for:
//
//  1. Exact: the error returned or given to [Blame] wraps the [DeniedError] of a call. [Own] says that no call caused it.
//  2. Declared: a dependency whose catalog entry says on_failure: open never causes a failure, one that says closed does.
//  3. Learned, where the catalog says learn: enforce: how often the two have failed together.
//  4. Otherwise every failed call of the request is a cause: the safe side, unless the catalog says unknown: claim.
//
// Without a cause the failure is this service's own: claimed. With several, the most restrictive claim goes up.
// Once the request has sent something that must not run twice, nothing is claimed any more.
//
// The package depends on nothing outside the standard library. A [Tracker] may be used by many goroutines at once; it
// allocates only when a call has failed.
package ownership
