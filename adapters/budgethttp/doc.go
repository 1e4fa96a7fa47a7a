// Package budgethttp carries the chain budget over net/http: a client transport and a server handler.
//
//	client := &http.Client{Transport: budgethttp.NewTransport(nil, payments)}
//	server := &http.Server{Handler: budgethttp.NewHandler(mux, sdk, budgethttp.Entry())}
//
// What the transport does with a request:
//
//  1. It copies the request and its header map; the caller's request, headers and context stay as they are.
//  2. It retries failures that the dependency's profile lists, while every gate allows, with full jitter. A request that
//     may have run is repeated only if its method is idempotent or it has an Idempotency-Key (or X-Idempotency-Key).
//  3. A body is replayed through GetBody only, and never buffered: without GetBody there is one attempt.
//  4. When retries end, the last response is returned readable with a nil error, as net/http users expect; [Denied]
//     tells why they ended. A failure without a response is a *chainbudget.DeniedError around the transport's error.
//  5. net/http's own silent replays are watched: one that would carry a lease a second time is stopped and decided anew.
//  6. Nothing of the budget goes to a host outside; each redirect is judged by its own host, unless the catalog declares
//     on which side the dependency is.
//  7. If the profile hedges, an idempotent request is sent again beside itself while its answer's headers do not come. The
//     attempts run on goroutines of their own; the others are canceled when one has answered without failing. A request
//     with trailers is not hedged: each sending of its body would write the caller's map.
//
// The profile's attempt timeout ends when the response's headers arrive; a long body may take its time. An http.Client's
// own Timeout spans all attempts and their backoff.
//
// What the handler does: it takes the budget off the request (headers and context), bounds the request's context by the
// time its caller has left, sends the return as the response's headers go out, and never changes status or body. Nested
// handlers and nested transports for one dependency act once: the outermost decides. A handler inside otelhttp and one
// outside it both work; so do transports. Requests to /healthz, /readyz, /livez and /metrics carry no budget and teach
// nothing, at an entry too.
//
// A transport and a handler may be used by many goroutines at once. No goroutine outlives a call, but for a hedge that has
// lost: it ends when the base honors its cancellation.
package budgethttp
