// Package otelprop is the wire of chain retry budgets: it reads and writes the baggage member and the headers in which
// tokens, claims and returns travel between hops. WIRE.md in this folder is the normative text; every adapter uses this
// package, and none spells a header itself.
//
// A request carries one packed baggage member, which crosses hops that know nothing of the SDK, and one header, which
// shows that the sender is our direct caller:
//
//	baggage: chainbudget=v1.2.3.1.9f86d081.checkout
//	chainbudget: v1.2.3.1.9f86d081.checkout;caller=cart;attempt=1;profile=write-path@1a2b3c4d;timeout=250
//
// and a response carries one header or trailer:
//
//	chainbudget-return: v1.1.1.c.9f86d081.-.ledger
//
// The smallest use, on the callee's side and on the caller's:
//
//	in, rejects := otelprop.ReadRequest(h["Baggage"], h["Chainbudget"], maxBudget)
//	ret, ok, rejects := otelprop.ReadReturn(h["Chainbudget-Return"], sent.Nonce, leased)
//
// What it does by default:
//
//  1. Reading never fails: an input is absent, valid or unreadable, and what was refused is counted by reason in a
//     [Rejects]. An unreadable input is worth 0 tokens.
//  2. No input is worth more than the local maximum, and duplicates and relays only lower it.
//  3. Work and memory are bounded on any input: 8192 bytes of baggage, 8 header lines, 256 bytes a line.
//  4. Writing never makes a line that reading refuses: values out of range are brought into range, parameters that
//     cannot be are left out.
//  5. Foreign baggage members are kept byte for byte, within 64 members and 8192 bytes; ours comes first.
//
// It does not decide who is trusted, mint tokens or remember nonces: the chainbudget package does. It makes no
// instruments and starts no goroutine.
//
// [Propagator] is for applications that compose their own OpenTelemetry propagators; adapters do not need it.
//
// All functions may be called concurrently. They keep no state, write to no argument except the destination of an
// Append method, and results share memory with short inputs only.
package otelprop
