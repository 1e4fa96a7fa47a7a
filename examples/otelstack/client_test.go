package otelstack

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

type layer = func(http.RoundTripper) http.RoundTripper

// clientStackings are the orders in which a client's layers can stand; the outermost is written first.
var clientStackings = []struct {
	name  string
	build func(ours, otel layer, base http.RoundTripper) http.RoundTripper
}{
	{"ours", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return ours(base) }},
	{"ours_otel", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return ours(otel(base)) }},
	{"otel_ours", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return otel(ours(base)) }},
	{"otel_ours_otel", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return otel(ours(otel(base))) }},
	{"ours_otel_otel", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return ours(otel(otel(base))) }},
	{"ours_otel_ours", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return ours(otel(ours(base))) }},
	{"otel_ours_ours", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return otel(ours(ours(base))) }},
	{"ours_otel_annotate", func(ours, otel layer, base http.RoundTripper) http.RoundTripper {
		return ours(otel(budgethttp.AnnotateSpan(base)))
	}},
}

var usual = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// instrumentations are the ways in which otelhttp can be set up.
var instrumentations = []struct {
	name    string
	options []otelhttp.Option
}{
	{"usual_propagator", []otelhttp.Option{otelhttp.WithPropagators(usual)}},
	{"no_propagator", nil}, // the global one is unset here, as in an application that never set it
	{"our_propagator_too", []otelhttp.Option{
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator(usual, otelprop.Propagator{})),
	}},
	{"filter_rejects", []otelhttp.Option{
		otelhttp.WithPropagators(usual), otelhttp.WithFilter(func(*http.Request) bool { return false }),
	}},
}

// usersBaggage are the ways in which the user's own baggage comes into a request.
var usersBaggage = []struct {
	name            string
	context, header string
}{
	{"none", "", ""},
	{"in_context", "tenant=acme,region=eu", ""},
	{"in_header", "", "tenant=acme,region=eu;ttl=1"},
	{"in_both", "tenant=acme", "region=eu"},
	{"with_a_member_of_ours", "tenant=acme,chainbudget=v1.9.9.1.00000001.forged", "chainbudget=v1.9.9.1.00000002.forged,region=eu"},
}

func newRequest(t *testing.T, ctx context.Context, url, inContext, inHeader string) *http.Request {
	t.Helper()
	if inContext != "" {
		bag, err := baggage.Parse(inContext)
		if err != nil {
			t.Fatal(err)
		}
		ctx = baggage.ContextWithBaggage(ctx, bag)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if inHeader != "" {
		req.Header.Set(otelprop.BaggageHeader, inHeader)
	}
	return req
}

// TestClientStackings sends one call that fails at every attempt through every order of layers. The callee is a leaf
// that sends its whole lease back, and an entry's purse keeps one token while it holds two or more: of three tokens the
// attempts carry 2, then 1 of 2, then the last one, then none.
func TestClientStackings(t *testing.T) {
	provider := sdktrace.NewTracerProvider()
	for _, stacking := range clientStackings {
		for _, instrumentation := range instrumentations {
			for _, user := range usersBaggage {
				t.Run(stacking.name+"/"+instrumentation.name+"/"+user.name, func(t *testing.T) {
					base := newBase(t)
					otel := func(next http.RoundTripper) http.RoundTripper {
						return otelhttp.NewTransport(next, append(slices.Clone(instrumentation.options), otelhttp.WithTracerProvider(provider))...)
					}
					rec := newSDK(t, "shop")
					dep := rec.Dependency("ledger", steady)
					ours := func(next http.RoundTripper) http.RoundTripper { return budgethttp.NewTransport(next, dep) }
					url, callee, _ := newCallee(t, "ledger", 100)

					ctx, end := chainbudget.Start(t.Context(), rec.SDK)
					defer end()
					req := newRequest(t, ctx, url, user.context, user.header)
					before := req.Header.Clone()
					resp := send(t, stacking.build(ours, otel, base), req)

					if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get(otelprop.ReturnHeader) != "" {
						t.Errorf("the caller gets status %d and return %q", resp.StatusCode, resp.Header.Get(otelprop.ReturnHeader))
					}
					if !equalHeader(req.Header, before) {
						t.Errorf("the caller's request was written: %v", req.Header)
					}
					seen := callee.all()
					if got, want := grants(seen), []int{2, 1, 1, 0}; !slices.Equal(got, want) {
						t.Errorf("grants on the wire %v, want %v", got, want)
					}
					nonces := map[otelprop.Nonce]bool{}
					for i, s := range seen {
						checkWire(t, i+1, s)
						nonces[s.header.Nonce] = true
					}
					if len(nonces) != len(seen) {
						t.Errorf("%d attempts have %d nonces", len(seen), len(nonces))
					}
					if got := rec.SDK.Totals().Dependencies["ledger"]; got.Calls != 1 || got.Attempts != 4 || got.Retries != 3 {
						t.Errorf("counted %d calls, %d attempts, %d retries; want 1, 4, 3", got.Calls, got.Attempts, got.Retries)
					}

					// The same stack without our layer says what the user's baggage should look like.
					without := func(next http.RoundTripper) http.RoundTripper { return next }
					plainURL, plain := newPlain(t)
					send(t, stacking.build(without, otel, base), newRequest(t, t.Context(), plainURL, user.context, user.header))
					want := plain.only(t).foreign
					for i, s := range seen {
						if !slices.Equal(s.foreign, want) {
							t.Errorf("attempt %d: user's baggage %q, want %q as without the SDK", i+1, s.foreign, want)
						}
					}
				})
			}
		}
	}
}

// checkWire checks the budget of one attempt: one member, one header line, and the two say the same.
func checkWire(t *testing.T, attempt int, s sighting) {
	t.Helper()
	if len(s.members) != 1 || s.lines != 1 {
		t.Errorf("attempt %d: %d members %q and %d header lines, want one of each", attempt, len(s.members), s.members, s.lines)
		return
	}
	h, line := s.header, s.raw.Get(otelprop.RequestHeader)
	if core, _, _ := strings.Cut(line, ";"); s.members[0] != otelprop.MemberKey+"="+core {
		t.Errorf("attempt %d: member %q and header %q differ", attempt, s.members[0], line)
	}
	if h.Limit != 3 || h.Hop != 1 || h.Entry != "shop" || h.Caller != "shop" || int(h.Attempt) != attempt || h.Profile != steady {
		t.Errorf("attempt %d: header %q", attempt, line)
	}
}

func equalHeader(a, b http.Header) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if !slices.Equal(v, b[k]) {
			return false
		}
	}
	return true
}

// A context with as many members as an instrumented transport may write leaves no room for ours in it. The request
// header still carries the grant.
func TestClientWithFullBaggage(t *testing.T) {
	members := make([]baggage.Member, otelprop.MaxBaggageMembers)
	for i := range members {
		m, err := baggage.NewMemberRaw("k"+string(rune('A'+i/26))+string(rune('a'+i%26)), "v")
		if err != nil {
			t.Fatal(err)
		}
		members[i] = m
	}
	bag, err := baggage.New(members...)
	if err != nil {
		t.Fatal(err)
	}
	rec := newSDK(t, "shop")
	url, callee, _ := newCallee(t, "ledger", 100)
	ctx, end := chainbudget.Start(t.Context(), rec.SDK)
	defer end()
	client := budgethttp.NewTransport(otelhttp.NewTransport(newBase(t), otelhttp.WithPropagators(usual)), rec.Dependency("ledger", steady))
	send(t, client, newRequest(t, baggage.ContextWithBaggage(ctx, bag), url, "", ""))

	seen := callee.all()
	if got, want := grants(seen), []int{2, 1, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("grants on the wire %v, want %v", got, want)
	}
	for i, s := range seen {
		if len(s.foreign) != otelprop.MaxBaggageMembers {
			t.Errorf("attempt %d: %d of the user's members arrived, want all %d", i+1, len(s.foreign), otelprop.MaxBaggageMembers)
		}
	}
}
