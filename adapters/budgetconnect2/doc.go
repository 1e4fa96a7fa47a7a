// Package budgetconnect2 carries the chain budget over version 2 of connect: an interceptor for clients, one for servers. It
// works the same over the Connect, gRPC and gRPC-Web protocols. For version 1 there is budgetconnect.
//
//	client := connect.NewClient(connecthttp.NewTransport(http.DefaultClient, url), budgetconnect2.NewClientInterceptor(catalog))
//	server := connect.NewServer(budgetconnect2.NewServerInterceptor(sdk))
//
// What the client does with a call:
//
//  1. It opens each attempt with a context and call info of its own; the caller's request headers and context stay as they
//     are, and its call info shows the last attempt.
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
//  6. The error of a failed call is the last attempt's *connect.Error for errors.As, connect.CodeOf and Error.IsRemote, and a
//     *chainbudget.DeniedError too.
//  7. RetryInfo, grpc-retry-pushback-ms and Retry-After are lower bounds of the wait, the longest counts; a pushback that
//     asks for no retry wins. Nothing of the budget goes to a host outside.
//
// Interceptors that stand inside this package's run for each attempt. A retry interceptor does not belong on either side. All
// attempts of a unary call are made when its caller receives, as Client.CallUnary does at once; what has only been sent has
// not gone out.
//
// What the server does: it takes the budget off the request (headers and baggage in the context), bounds the request's
// context by the time its caller has left, and sends the return: over the Connect protocol a unary procedure's as a response
// header, all else as a trailer; on errors also as an error detail. Code, message and the handler's own details stay. A
// handler's error that wraps the error of a call makes that call the exact cause of the failure. Where nobody should retry,
// gRPC's pushback tells callers without the SDK, too. A RetryInfo that came with a callee's error goes no further.
// grpc.health.v1.Health carries no budget and teaches nothing.
//
// Connect answers a callee's error that a handler returns as it is with internal, and no message. To say more, a hop makes an
// error of its own, and names the cause:
//
//	return connect.NewError(connect.CodeUnavailable, "the catalog does not answer").WithCause(err)
//
// A handler of a stream that lives long begins a chain for each message with chainbudget.Start: the tokens of the request
// itself go home as the stream ends. Do not put budgethttp's handler around a connect handler that has this interceptor: the
// outermost decides, and over gRPC it cannot see what failed.
//
// Calls of a profile that hedges are not hedged here, and lend as any other. Interceptors may be used by many goroutines at once.
// No goroutine outlives a call.
package budgetconnect2
