// Package budgetgrpc carries the chain budget over gRPC: dial options for a client, server options for a server.
//
//	conn, err := grpc.NewClient(addr, append(budgetgrpc.DialOptions(payments), grpc.WithTransportCredentials(creds))...)
//	gs := grpc.NewServer(budgetgrpc.ServerOptions(sdk)...)
//
// What the client does with a call:
//
//  1. It gives each attempt metadata of its own; the caller's context and metadata stay as they are.
//  2. It retries failures that the dependency's profile lists, while every gate allows, with full jitter. Codes count as the
//     HTTP statuses that google.rpc.Code gives them: UNAVAILABLE is 503, DEADLINE_EXCEEDED 504, UNKNOWN and INTERNAL 500,
//     ABORTED 409. RESOURCE_EXHAUSTED (429) is retried only if the callee says when; no other code is ever retried.
//  3. A call that may have run is repeated only if its method is idempotent: by its idempotency_level, or by
//     [Option].Idempotent. One that provably never ran may be repeated whatever it is.
//  4. A stream is repeated until its first message, and only if the client sends one request. What a client streams is never
//     kept. The profile's attempt timeout ends as the answer begins; streams on which the client sends have none.
//  5. gRPC's own retries by policy are off, and a service config that asks for them is warned of once. What gRPC repeats
//     by itself because the callee has not processed it, and what a layer below repeats, is counted, and stopped where it
//     would deliver tokens twice.
//  6. The error of a failed call has the last attempt's status as it came, for package status, and is a
//     *chainbudget.DeniedError for errors.As. A handler may return it as it is.
//  7. grpc-retry-pushback-ms and RetryInfo are lower bounds of the wait, the longer one counts; a pushback that asks for no
//     retry wins. Nothing of the budget goes to a target outside.
//
// Interceptors that stand inside this package's run for each attempt. A retry interceptor does not belong on either side.
//
// What the server does: it takes the budget off the request (metadata and baggage in the context), bounds the request's
// context by the time its caller has left, and sends the return as a trailer, on errors also as a status detail. Code,
// message and the handler's own details stay. A handler's error that wraps the error of a call makes that call the exact
// cause of the failure. Where nobody should retry, grpc-retry-pushback-ms -1 tells callers without the SDK, too. A RetryInfo
// that came with a callee's error goes no further. grpc.health.v1.Health carries no budget and teaches nothing.
//
// A handler of a stream that lives long begins a chain for each message with chainbudget.Start: the tokens of the request
// itself go home as the stream ends.
//
// Interceptors may be used by many goroutines at once. No goroutine outlives a call.
package budgetgrpc
