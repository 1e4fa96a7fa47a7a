// Package budgetconnect carries the chain budget over connect: an interceptor for clients, one for handlers. It works the
// same over the Connect, gRPC and gRPC-Web protocols.
//
//	client := shopconnect.NewCatalogClient(http.DefaultClient, url, connect.WithInterceptors(budgetconnect.NewClientInterceptor(catalog)))
//	path, handler := shopconnect.NewCatalogHandler(server, connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(sdk)))
//
// What the client does with a call:
//
//  1. It gives each attempt a header map of its own, with the attempt's own timeout; the caller's request and context stay
//     as they are.
//  2. It retries failures that the dependency's profile lists, while every gate allows, with full jitter. Codes count as the
//     HTTP statuses that google.rpc.Code gives them: unavailable is 503, deadline_exceeded 504, unknown and internal 500,
//     aborted 409. resource_exhausted (429) is retried only if the callee says when; no other code is ever retried. What
//     something between answered that does not speak the protocol counts by its HTTP status.
//  3. A call that may have run is repeated only if its procedure is idempotent: by its idempotency level, by
//     [Option].Idempotent, or by an Idempotency-Key header. One that provably never ran may be repeated whatever it is.
//  4. A stream is repeated until its first message, and only if the client sends one request. What a client streams is never
//     kept. The profile's attempt timeout ends as the answer begins; streams on which the client sends have none.
//  5. net/http's own silent replays below are watched: one that would carry a lease a second time is stopped and decided
//     anew.
//  6. The error of a failed call is the last attempt's *connect.Error for errors.As, connect.CodeOf and connect.IsWireError,
//     and a *chainbudget.DeniedError too. A handler may return it as it is.
//  7. RetryInfo, grpc-retry-pushback-ms and Retry-After are lower bounds of the wait, the longest counts; a pushback that
//     asks for no retry wins. Nothing of the budget goes to a host outside.
//
// Interceptors that stand inside this package's run for each attempt. A retry interceptor does not belong on either side.
//
// What the handler does: it takes the budget off the request (headers and baggage in the context), bounds the request's
// context by the time its caller has left, and sends the return: over the Connect protocol a unary procedure's as a response
// header, all else as a trailer; on errors also as an error detail. Code, message, metadata and the handler's own details
// stay. A handler's error that wraps the error of a call makes that call the exact cause of the failure. Where nobody
// should retry, gRPC's pushback tells callers without the SDK, too. A RetryInfo that came with a callee's error goes no
// further. grpc.health.v1.Health carries no budget and teaches nothing.
//
// A handler of a stream that lives long begins a chain for each message with chainbudget.Start: the tokens of the request
// itself go home as the stream ends. Do not put budgethttp's handler around a connect handler that has this interceptor: the
// outermost decides, and over gRPC it cannot see what failed.
//
// Calls of a profile that hedges are not hedged here, and lend as any other. Interceptors may be used by many goroutines at once.
// No goroutine outlives a call.
package budgetconnect
