package otelprop

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
)

// Propagator is a propagation.TextMapPropagator for applications that compose their own. It goes last, after the baggage
// propagator, because it corrects what that one does with our member:
//
//	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(
//		propagation.TraceContext{}, propagation.Baggage{}, otelprop.Propagator{}))
//
// Extract makes what arrived available to [RequestFromContext] and takes the member out of the context's baggage. Inject
// writes what an adapter put there with [ContextWithRequest]; what was extracted is never injected again, because a
// grant leaves the process only through an adapter (I6). The zero value is ready to use, from any number of goroutines.
type Propagator struct{}

var _ propagation.TextMapPropagator = Propagator{}

type (
	inboundKey  struct{} // of *Request: what Extract read
	outboundKey struct{} // of *Request: what an adapter sends
)

// ContextWithRequest returns a context whose next Inject, by a [Propagator], writes r: an adapter makes one for each attempt.
// r must not change afterwards. A nil r writes nothing, also where ctx already held a Request.
func ContextWithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, outboundKey{}, r)
}

// RequestFromContext returns the request that a [Propagator] extracted, never one from [ContextWithRequest]. ok is false
// when no Propagator ran; when one ran and found nothing, ok is true and the State is [Absent]. Its grant has been
// clamped to 99 only: use [Request.Clamp].
func RequestFromContext(ctx context.Context) (r Request, ok bool) {
	in, _ := ctx.Value(inboundKey{}).(*Request)
	if in == nil {
		return Request{}, false
	}
	return *in, true
}

// Extract reads the member and the header from carrier, from all values where it is a propagation.ValuesGetter, else
// from the first. The context that it returns holds them for [RequestFromContext] and has no member of ours in its
// baggage. A nil carrier is an empty one.
func (Propagator) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	r, _ := ReadRequest(values(carrier, BaggageHeader), values(carrier, RequestHeader), MaxTokens)
	ctx = context.WithValue(ctx, inboundKey{}, &r)
	if b := baggage.FromContext(ctx); b.Member(MemberKey).Key() != "" {
		ctx = baggage.ContextWithBaggage(ctx, b.DeleteMember(MemberKey)) // I6
	}
	return ctx
}

// Inject writes the Request that [ContextWithRequest] put into ctx: the header, and the member into the baggage that
// carrier already has. Without one it writes nothing and removes our member from carrier's baggage, unless carrier has a
// request header with the same nonce, which only an adapter above can have written for this attempt.
func (Propagator) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	if carrier == nil {
		return
	}
	lines := values(carrier, BaggageHeader)
	if r, _ := ctx.Value(outboundKey{}).(*Request); r != nil {
		wire, memberLen := r.AppendWire(nil)
		both := string(wire)
		line, _ := MergeBaggage(lines, both[:memberLen])
		carrier.Set(BaggageHeader, line)
		carrier.Set(RequestHeader, both[len(MemberKey)+len("="):])
		return
	}
	if !HasMember(lines) || writtenByAdapter(lines, values(carrier, RequestHeader)) {
		return
	}
	kept, _ := StripBaggage(lines)
	if len(kept) > 0 {
		carrier.Set(BaggageHeader, strings.Join(kept, ","))
		return
	}
	switch c := carrier.(type) { // the interface has no way to delete
	case propagation.HeaderCarrier:
		http.Header(c).Del(BaggageHeader)
	case propagation.MapCarrier:
		delete(c, BaggageHeader)
	default:
		carrier.Set(BaggageHeader, "")
	}
}

// writtenByAdapter reports whether the member and the header belong to the same attempt.
func writtenByAdapter(lines, header []string) bool {
	member, _ := ReadRequest(lines, nil, MaxTokens)
	direct, _ := ReadRequest(nil, header, MaxTokens)
	return member.State == Valid && direct.State == Valid && member.Nonce == direct.Nonce
}

// Fields returns the names that Inject sets.
func (Propagator) Fields() []string { return slices.Clone(fields) }

var fields = []string{BaggageHeader, RequestHeader}

// values returns all values of a carrier. A carrier that has only Get cannot tell an empty value from none.
func values(carrier propagation.TextMapCarrier, key string) []string {
	if carrier == nil {
		return nil
	}
	if all, ok := carrier.(propagation.ValuesGetter); ok {
		return all.Values(key)
	}
	if v := carrier.Get(key); v != "" {
		return []string{v}
	}
	return nil
}
