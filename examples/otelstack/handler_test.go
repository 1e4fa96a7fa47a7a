package otelstack

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

type middleware = func(http.Handler) http.Handler

// handlerStackings are the orders in which a server's layers can stand; the outermost is written first.
var handlerStackings = []struct {
	name  string
	build func(ours, otel middleware, h http.Handler) http.Handler
}{
	{"ours", func(ours, otel middleware, h http.Handler) http.Handler { return ours(h) }},
	{"ours_otel", func(ours, otel middleware, h http.Handler) http.Handler { return ours(otel(h)) }},
	{"otel_ours", func(ours, otel middleware, h http.Handler) http.Handler { return otel(ours(h)) }},
	{"otel_ours_otel", func(ours, otel middleware, h http.Handler) http.Handler { return otel(ours(otel(h))) }},
	{"ours_otel_ours", func(ours, otel middleware, h http.Handler) http.Handler { return ours(otel(ours(h))) }},
}

const grantOfTwo = "v1.2.3.1.0a0b0c0d.shop"

// arrivals are what a request can bring, and what it is worth there.
var arrivals = []struct {
	name            string
	member, header  bool
	entry           bool
	lent            int  // to the first attempt of the handler's own call
	hop             int  // of that attempt
	returns         bool // a return is owed
	public          bool // otelhttp treats the endpoint as public
	callees, relays int64
	orphans         int64
	entries         int64
}{
	{name: "from_a_caller", member: true, header: true, lent: 2, hop: 2, returns: true, callees: 1},
	{name: "from_a_caller_public_endpoint", member: true, header: true, public: true, lent: 2, hop: 2, returns: true, callees: 1},
	{name: "relayed", member: true, lent: 1, hop: 2, relays: 1},
	{name: "header_alone", header: true, lent: 2, hop: 2, returns: true, callees: 1},
	{name: "nothing", lent: 1, hop: 1, orphans: 1},
	{name: "forged_at_an_entry", member: true, header: true, entry: true, lent: 2, hop: 1, entries: 1},
	{name: "forged_at_a_public_entry", member: true, header: true, entry: true, public: true, lent: 2, hop: 1, entries: 1},
}

// TestHandlerStackings sends one request to every order of layers. The handler makes three calls: one through the SDK, which
// carries what the purse holds, and two past it, which carry nothing of ours (I6).
func TestHandlerStackings(t *testing.T) {
	provider := sdktrace.NewTracerProvider()
	for _, stacking := range handlerStackings {
		for _, instrumentation := range instrumentations {
			for _, foreign := range []string{"", "tenant=acme,region=eu"} {
				for _, arrival := range arrivals {
					name := stacking.name + "/" + instrumentation.name + "/" + arrival.name
					if foreign != "" {
						name += "/with_users_baggage"
					}
					t.Run(name, func(t *testing.T) {
						options := append(slices.Clone(instrumentation.options), otelhttp.WithTracerProvider(provider))
						public := otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return arrival.public })
						otel := func(h http.Handler) http.Handler { return otelhttp.NewHandler(h, "hop", append(options, public)...) }
						base := newBase(t)
						rec := newSDK(t, "cart")
						var roles []budgethttp.HandlerOption
						if arrival.entry {
							roles = append(roles, budgethttp.Entry())
						}
						ours := func(h http.Handler) http.Handler { return budgethttp.NewHandler(h, rec.SDK, roles...) }

						leafURL, leaf, _ := newCallee(t, "ledger", 0)
						plainURL, plain := newPlain(t)
						budgeted := budgethttp.NewTransport(otelhttp.NewTransport(base, options...), rec.Dependency("ledger", steady))
						traced := otelhttp.NewTransport(base, options...)
						var inside sighting
						var inContext string
						h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							inside = see(r)
							inContext = sortedMembers(baggage.FromContext(r.Context()))
							w.Header().Set(otelprop.ReturnHeader, "copied from a callee")
							send(t, budgeted, newRequest(t, r.Context(), leafURL, "", ""))
							send(t, traced, newRequest(t, r.Context(), plainURL, "", ""))
							copied := newRequest(t, r.Context(), plainURL, "", "")
							copied.Header = r.Header.Clone() // as a reverse proxy does
							send(t, traced, copied)
						})
						url := serve(t, stacking.build(ours, otel, h))

						req := newRequest(t, t.Context(), url, "", foreign)
						if arrival.member {
							line, _ := otelprop.MergeBaggage(req.Header[otelprop.HTTPBaggageHeader], otelprop.MemberKey+"="+grantOfTwo)
							req.Header.Set(otelprop.BaggageHeader, line)
						}
						if arrival.header {
							req.Header.Set(otelprop.RequestHeader, grantOfTwo+";caller=shop;attempt=1")
						}
						resp := send(t, base, req)

						if !inside.clean() || strings.Contains(inContext, otelprop.MemberKey) {
							t.Errorf("the handler sees members %q, %d header lines, and baggage %q in its context; want nothing of ours",
								inside.members, inside.lines, inContext)
						}
						call := leaf.only(t)
						if int(call.header.Grant) != arrival.lent || int(call.header.Hop) != arrival.hop || len(call.members) != 1 {
							t.Errorf("the call through the SDK carries %q and members %q, want grant %d and hop %d",
								call.raw.Get(otelprop.RequestHeader), call.members, arrival.lent, arrival.hop)
						}
						for i, past := range plain.all() {
							if !past.clean() || past.raw.Get(otelprop.ReturnHeader) != "" {
								t.Errorf("call %d past the SDK carries members %q and %d header lines (I6)", i+1, past.members, past.lines)
							}
						}
						returned := resp.Header.Values(otelprop.ReturnHeader)
						ret, ok, _ := otelprop.ReadReturn(returned, 0x0a0b0c0d, 2)
						if ok != arrival.returns || !arrival.returns && len(returned) > 0 || ok && ret.Returned != 2 {
							t.Errorf("return %q, want one with both tokens: %t", returned, arrival.returns)
						}
						got := rec.SDK.Totals()
						if got.Callees != arrival.callees || got.Relayed != arrival.relays || got.Orphans != arrival.orphans ||
							got.Entries != arrival.entries || got.NoPurse != 0 {
							t.Errorf("counted %d callees, %d relayed, %d orphans, %d entries, %d calls without a purse",
								got.Callees, got.Relayed, got.Orphans, got.Entries, got.NoPurse)
						}

						// The same stack without our layer says what the user's baggage should look like.
						var without sighting
						var contextWithout string
						control := serve(t, stacking.build(func(h http.Handler) http.Handler { return h }, otel,
							http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
								without = see(r)
								contextWithout = sortedMembers(baggage.FromContext(r.Context()))
							})))
						send(t, base, newRequest(t, t.Context(), control, "", foreign))
						if !slices.Equal(inside.foreign, without.foreign) || inContext != contextWithout {
							t.Errorf("the user's baggage is %q and %q in the context, want %q and %q as without the SDK",
								inside.foreign, inContext, without.foreign, contextWithout)
						}
					})
				}
			}
		}
	}
}

func sortedMembers(b baggage.Baggage) string {
	var list []string
	for _, m := range b.Members() {
		list = append(list, m.String())
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// A public endpoint begins a trace of its own and does not begin a chain: only Entry does.
func TestPublicEndpointKeepsItsSpanLink(t *testing.T) {
	for _, entry := range []bool{false, true} {
		spans := newSpans()
		rec := newSDK(t, "cart")
		var roles []budgethttp.HandlerOption
		if entry {
			roles = append(roles, budgethttp.Entry())
		}
		h := budgethttp.NewHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), rec.SDK, roles...)
		url := serve(t, otelhttp.NewHandler(h, "hop", spans.option(), otelhttp.WithPropagators(usual),
			otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true })))
		req := newRequest(t, t.Context(), url, "", "")
		propagation.TraceContext{}.Inject(remoteSpan(t), propagation.HeaderCarrier(req.Header))
		send(t, newBase(t), req)

		ended := spans.Ended()
		if len(ended) != 1 || len(ended[0].Links()) != 1 || ended[0].Parent().IsValid() {
			t.Fatalf("entry %t: %d spans; want one without a parent and with a link", entry, len(ended))
		}
		if got := rec.SDK.Totals(); got.Entries+got.Orphans != 1 || (got.Entries == 1) != entry {
			t.Errorf("entry %t: counted %d entries and %d orphans", entry, got.Entries, got.Orphans)
		}
	}
}
