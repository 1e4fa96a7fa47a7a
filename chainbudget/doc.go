// Package chainbudget gives one request one retry budget for its whole call tree, and makes every retry one that is next
// to the cause of its failure.
//
//	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile("retry-catalog.yaml"))
//	...
//	payments, err := sdk.Dependency("payments", profiles.WritePath)
//	...
//	client := &http.Client{Transport: budgethttp.NewTransport(nil, payments)}
//	server := &http.Server{Handler: budgethttp.NewHandler(mux, sdk, budgethttp.Entry())}
//
// By default:
//
//  1. An entry mints three tokens for each request; a retry anywhere below takes one. Tokens are lent with each call and
//     come back with its answer, so they are never in two places.
//  2. A request that arrives without a budget gets one token of its own and is counted as an orphan.
//  3. A failed attempt is followed by another only if every gate allows it; [DeniedError] names the one that refused.
//  4. A failure that was retried next to its cause, or must not be, is not retried by any hop above.
//  5. Backoff is full jitter, always. A wait that cannot end before the deadline is not begun.
//  6. Each dependency has one profile, one circuit breaker and one bucket of retries (10 % of its successes).
//  7. A profile may hedge idempotent calls: another attempt starts beside a slow one. It is a retry like any other.
//
// The package does not queue or limit rates, and it never fails a request because of its own trouble: bad input
// on the wire is counted and worth nothing, and CHAINBUDGET_MODE=bypass turns everything off without a build.
//
// An [SDK] and its dependencies may be used by many goroutines at once. What a context carries is a pointer that
// adapters make at the request's arrival; do not keep it beyond the request: use [Start] for work that outlives it.
package chainbudget
