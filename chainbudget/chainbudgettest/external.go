package chainbudgettest

import (
	"context"
	"strings"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// externalCases are about dependencies outside of the fleet.
var externalCases = []Case{
	{Name: "nothing_goes_outside", check: nothingGoesOutside,
		Checks: "a request to an external dependency carries nothing of the budget, not even what the caller put there"},
	{Name: "nothing_comes_from_outside", check: nothingComesFromOutside,
		Checks: "what an external dependency says about claims and tokens is not believed, and not handed on"},
}

var outside = rules{rest: "dependencies: {callee: {profile: suite, external: true}}\n"}

func nothingGoesOutside(s *stage) {
	rec := s.sdk("caller", outside)
	c := s.callee(fails(503), answers("done"))
	old := otelprop.Request{Grant: 9, Limit: 9, Hop: 9, Nonce: nextNonce(), Entry: "elsewhere"}
	header := s.header(otelprop.RequestHeader, old.Header(), otelprop.BaggageHeader, old.Member()+",user=u1")
	ctx := s.chain(rec)
	s.succeeded(s.dial(rec, c.address)(ctx, Request{Header: header}), "done")
	expect(s, "attempts", len(c.all()), 2)
	for i, a := range c.all() {
		if got := lines(a.Header, otelprop.RequestHeader); len(got) > 0 {
			s.Errorf("attempt %d carries %q", i+1, got)
		}
		if got := strings.Join(lines(a.Header, otelprop.BaggageHeader), ","); got != "user=u1" {
			s.Errorf("attempt %d carries the baggage %q, want the user's own alone", i+1, got)
		}
	}
	expect(s, "tokens lost", s.balance(ctx).Lost, 0)
}

func nothingComesFromOutside(s *stage) {
	rec := s.sdk("caller", outside)
	ret := otelprop.Return{Returned: 9, Claim: ownership.ClaimStop}
	stops := func(ctx context.Context, r Received, w Reply) error {
		w.Return(string(ret.Append(nil)))
		return fails(503)(ctx, r, w)
	}
	last := func(ctx context.Context, r Received, w Reply) error {
		w.Return(string(ret.Append(nil)))
		return w.Send("done")
	}
	c := s.callee(stops, last)
	ctx := s.chain(rec)
	a := s.dial(rec, c.address)(ctx, Request{})
	s.succeeded(a, "done")
	if got := lines(a.Header, otelprop.ReturnHeader); len(got) > 0 {
		s.Errorf("the answer has a return: %q", got)
	}
	b := s.balance(ctx)
	expect(s, "tokens held", b.Held, 2)
}
