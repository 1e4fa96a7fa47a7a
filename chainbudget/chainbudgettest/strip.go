package chainbudgettest

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/baggage"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// stripCases are about what user code could forward (I6).
var stripCases = []Case{
	{Name: "grants_are_stripped", check: grantsAreStripped,
		Checks: "on the way in the grant leaves the headers and the context's baggage; the user's own baggage stays in both"},
	{Name: "copied_returns_do_not_go_out", check: copiedReturnsDoNotGoOut,
		Checks: "a return that the handler's code sets does not go out: the only one is the adapter's"},
	{Name: "inbound_returns_are_stripped", check: inboundReturnsAreStripped,
		Checks: "a return among a request's headers does not reach the handler"},
}

// instrumented puts the baggage that a request brings into its context, as OpenTelemetry's instrumentation does.
func instrumented(ctx context.Context, header http.Header) context.Context {
	bag, err := baggage.Parse(strings.Join(lines(header, otelprop.BaggageHeader), ","))
	if err != nil {
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, bag)
}

func grantsAreStripped(s *stage) {
	store := s.sdk("store", rules{})
	var seen http.Header
	var bag baggage.Baggage
	address := s.a.Serve(s.TB, Server{SDK: store.SDK, Outside: instrumented, Handle: func(ctx context.Context, r Received, w Reply) error {
		seen, bag = r.Header.Clone(), baggage.FromContext(ctx)
		return w.Send("done")
	}})
	wire := otelprop.Request{Grant: 2, Limit: 3, Hop: 1, Nonce: nextNonce(), Entry: "gateway"}
	header := s.header(otelprop.RequestHeader, wire.Header(), otelprop.BaggageHeader, "user=u1,"+wire.Member()+",region=eu")
	s.succeeded(s.outsider(address)(s.context(), Request{Header: header}), "done")
	if got := lines(seen, otelprop.RequestHeader); len(got) > 0 {
		s.Errorf("the handler sees %q", got)
	}
	expect(s, "baggage in the headers", strings.Join(lines(seen, otelprop.BaggageHeader), ","), "user=u1,region=eu")
	expect(s, "the member in the context", bag.Member(otelprop.MemberKey).Value(), "")
	expect(s, "the user's member in the context", bag.Member("user").Value(), "u1")
}

func copiedReturnsDoNotGoOut(s *stage) {
	copied := otelprop.Return{Returned: 9, Claim: ownership.ClaimStop, Owner: "elsewhere"}
	for name, end := range map[string]Handler{"a success": answers("done"), "a failure": fails(503)} {
		handle := func(ctx context.Context, r Received, w Reply) error {
			w.Return(string(copied.Append(nil)))
			return end(ctx, r, w)
		}
		got := s.lend(s.outsider(s.hop(s.sdk("store", rules{}), handle)), 2)
		if len(got.lines) != 1 || got.ret.Returned != 2 || got.ret.Claim == ownership.ClaimStop {
			s.Errorf("%s: the returns are %q", name, got.lines)
		}
		// An entry owes nobody a return, and who sent no header is owed none.
		entry := s.a.Serve(s.TB, Server{SDK: s.sdk("edge", rules{}).SDK, Entry: true, Handle: handle})
		if got := s.lend(s.outsider(entry), 2); len(got.lines) > 0 {
			s.Errorf("%s: out of an entry goes %q", name, got.lines)
		}
		client := s.outsider(s.hop(s.sdk("store", rules{}), handle))
		member := (&otelprop.Request{Grant: 3, Limit: 3, Hop: 1, Nonce: nextNonce(), Entry: "gateway"}).Member()
		for sender, header := range map[string]http.Header{"an orphan": nil, "a relayed request": s.header(otelprop.BaggageHeader, member)} {
			a := client(s.context(), Request{Header: header})
			if got := lines(a.Header, otelprop.ReturnHeader); len(got) > 0 {
				s.Errorf("%s: to %s goes %q", name, sender, got)
			}
		}
	}
}

func inboundReturnsAreStripped(s *stage) {
	var seen []string
	address := s.hop(s.sdk("store", rules{}), func(_ context.Context, r Received, w Reply) error {
		seen = lines(r.Header, otelprop.ReturnHeader)
		return w.Send("done")
	})
	s.succeeded(s.lend(s.outsider(address), 2, otelprop.ReturnHeader, "v1.2.0.s.00000001.-").Answer, "done")
	expect(s, "returns that the handler sees", len(seen), 0)
}
