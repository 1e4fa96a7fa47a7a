// Package otelstack shows, in its tests, package budgethttp beside otelhttp of OpenTelemetry: in every order of the two,
// over real connections.
//
// What the tests hold:
//
//  1. A client stack puts exactly one budget on the wire for each attempt, whatever instrumented transports stand above
//     or below, with or without a propagator, and the user's own baggage arrives as it would without the SDK.
//  2. A handler stack takes the budget in and keeps it from everything further in: an instrumented client without the
//     SDK forwards the user's baggage and never the grant.
//  3. Every repeated attempt has http.request.resend_count on its client span.
//  4. A hop with otelhttp and without the SDK relays at most one token to each of its callees.
//  5. The same over gRPC, beside otelgrpc's stats handlers, in package budgetgrpc: one budget and one span for each attempt.
//
// The stacking to prefer gives one span for each attempt:
//
//	client: budgethttp.NewTransport(otelhttp.NewTransport(budgethttp.AnnotateSpan(nil)), payments)
//	server: otelhttp.NewHandler(budgethttp.NewHandler(mux, sdk), "server")
package otelstack
