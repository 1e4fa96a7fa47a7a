package otelprop

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
)

// FuzzPropagator extracts what a request brought and injects into another: nothing of ours goes on by itself (I6), whatever is
// injected is read as it was meant, and foreign members stay.
func FuzzPropagator(f *testing.F) {
	seedVectors(f, func(b, h string, _ int) { f.Add(b, h, "a=1") })
	f.Add("", "", "a=1,chainbudget=v1.9.9.1.9f86d081.a")
	f.Fuzz(func(t *testing.T, b, h, there string) {
		p := Propagator{}
		in := http.Header{HTTPBaggageHeader: split(b), HTTPRequestHeader: split(h)}
		ctx := context.Background()
		if parsed, err := baggage.Parse(b); err == nil {
			ctx = baggage.ContextWithBaggage(ctx, parsed) // as the propagator of baggage before ours does
		}
		ctx = p.Extract(ctx, propagation.HeaderCarrier(in))
		got, ok := RequestFromContext(ctx)
		want, _ := ReadRequest(split(b), split(h), MaxTokens)
		if !ok || got != want {
			t.Fatalf("extracted %+v %v, want %+v", got, ok, want)
		}
		if m := baggage.FromContext(ctx).Member(MemberKey); m.Key() != "" {
			t.Fatalf("I6: %s stays in the context", m)
		}

		foreign, _, _ := refForeign(split(there))
		out := http.Header{}
		if there != "" {
			out[HTTPBaggageHeader] = split(there)
		}
		p.Inject(ctx, propagation.HeaderCarrier(out))
		if _, ours, _ := refForeign(out[HTTPBaggageHeader]); ours != 0 || len(out[HTTPRequestHeader]) != 0 {
			t.Fatalf("I6: what arrived goes on: %q", out)
		}
		left, _, _ := refForeign(out[HTTPBaggageHeader])
		if !slices.Equal(left, foreign) {
			t.Fatalf("members %q, want %q", left, foreign)
		}

		r := Request{Grant: 1, Limit: 3, Hop: 2, Nonce: 7, Entry: "checkout", Caller: "cart", Attempt: 2}
		p.Inject(ContextWithRequest(ctx, &r), propagation.HeaderCarrier(out))
		sent, rejects := ReadRequest(out[HTTPBaggageHeader], out[HTTPRequestHeader], MaxTokens)
		r.State, r.Direct = Valid, true
		if sent != r || rejects != (Rejects{}) {
			t.Fatalf("injected %+v with rejects %v, want %+v: %q", sent, rejects, r, out)
		}
	})
}
