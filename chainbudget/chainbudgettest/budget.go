package chainbudgettest

import (
	"context"
	"slices"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// budgetCases are about tokens that are lent, spent and settled by the client side.
var budgetCases = []Case{
	{Name: "lend_and_settle", check: lendAndSettle,
		Checks: "an attempt lends what the purse holds but one, and what the return sends back comes home"},
	{Name: "returns_are_clamped", check: returnsAreClamped,
		Checks: "no more tokens come home than were lent (I1)"},
	{Name: "no_return_loses_the_lease", check: noReturnLosesTheLease,
		Checks: "an answer without a return, with that of another attempt, with two, or with one that cannot be read, costs the lease and is no claim"},
	{Name: "return_is_taken_out", check: returnIsTakenOut,
		Checks: "the caller does not see the callee's return"},
	{Name: "retries_cost_tokens", check: retriesCostTokens,
		Checks: "retries end with the tokens, whatever the profile allows"},
	{Name: "no_purse_lends_one", check: noPurseLendsOne,
		Checks: "a call whose context belongs to no request has the token of an orphan, writes a member, and is counted"},
}

func lendAndSettle(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(
		returns(func(wire otelprop.Request) otelprop.Return {
			return otelprop.Return{Returned: 1, Retries: 1, Claim: ownership.ClaimClaimed, Nonce: wire.Nonce}
		}, fails(503)),
		says(ownership.ClaimNone, answers("done")))
	ctx := s.chain(rec)
	s.succeeded(s.dial(rec, c.address)(ctx, Request{}), "done")
	var grants []uint8
	for _, a := range c.all() {
		grants = append(grants, a.wire.Grant)
		expect(s, "limit", a.wire.Limit, 3)
		expect(s, "hop", a.wire.Hop, 1)
		expect(s, "entry", a.wire.Entry, "caller")
	}
	// Three, of which two are lent; one comes home and one is spent there; of the two left one pays the retry.
	if !slices.Equal(grants, []uint8{2, 1}) {
		s.Errorf("the attempts lend %v, want [2 1]", grants)
	}
	b := s.balance(ctx)
	expect(s, "tokens held", b.Held, 1)
	expect(s, "tokens spent", b.Spent, 2)
	expect(s, "tokens lent", b.Lent, 0)
}

func returnsAreClamped(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(returns(func(wire otelprop.Request) otelprop.Return {
		return otelprop.Return{Returned: otelprop.MaxTokens, Claim: ownership.ClaimNone, Nonce: wire.Nonce}
	}, answers("done")))
	ctx := s.chain(rec)
	s.succeeded(s.dial(rec, c.address)(ctx, Request{}), "done")
	expect(s, "tokens held", s.balance(ctx).Held, 3)
}

func noReturnLosesTheLease(s *stage) {
	unclaimed := func(nonce otelprop.Nonce) string {
		ret := otelprop.Return{Returned: 2, Claim: ownership.ClaimUnclaimed, Nonce: nonce}
		return string(ret.Append(nil))
	}
	for name, send := range map[string]func(w Reply, wire otelprop.Request){
		"no return":                    func(Reply, otelprop.Request) {},
		"the return of another":        func(w Reply, wire otelprop.Request) { w.Return(unclaimed(wire.Nonce + 1)) },
		"two returns":                  func(w Reply, wire otelprop.Request) { w.Return(unclaimed(wire.Nonce)); w.Return(unclaimed(wire.Nonce)) },
		"a return that is not to read": func(w Reply, _ otelprop.Request) { w.Return("v1.2.0.u") },
	} {
		rec := s.sdk("caller", rules{})
		fail := fails(503)
		c := s.callee(func(ctx context.Context, r Received, w Reply) error {
			send(w, readArrival(r).wire)
			return fail(ctx, r, w)
		}, says(ownership.ClaimNone, answers("done")))
		ctx := s.chain(rec)
		a := s.dial(rec, c.address)(ctx, Request{}) // a claim that is missing leaves the retry to the caller
		if a.Status != 200 || a.cause() != nil {
			s.Errorf("%s: the call came to %v", name, &a)
		}
		b := s.balance(ctx)
		if b.Lost != 2 || b.Spent != 1 {
			s.Errorf("%s: the account is %+v, want 2 lost and 1 spent", name, b)
		}
	}
}

func returnIsTakenOut(s *stage) {
	rec := s.sdk("caller", rules{profile: "retry: {max_attempts: 1}"})
	c := s.callee(says(ownership.ClaimNone, answers("done")), says(ownership.ClaimClaimed, fails(503)))
	client := s.dial(rec, c.address)
	for range 2 {
		a := client(s.chain(rec), Request{})
		if got := lines(a.Header, otelprop.ReturnHeader); len(got) > 0 {
			s.Errorf("the answer (%v) has a return: %q", &a, got)
		}
	}
}

func retriesCostTokens(s *stage) {
	for budget, want := range map[string]int{"budget: 0": 1, "budget: 1": 2, "budget: 2": 3} {
		rec := s.sdk("caller", rules{chain: budget})
		c := s.callee(says(ownership.ClaimClaimed, fails(503)))
		ctx := s.chain(rec)
		s.denied(s.dial(rec, c.address)(ctx, Request{}), ownership.ReasonChainExhausted)
		expect(s, budget+": attempts", len(c.all()), want)
		expect(s, budget+": tokens held", s.balance(ctx).Held, 0)
	}
}

func noPurseLendsOne(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(says(ownership.ClaimClaimed, fails(503)))
	s.denied(s.dial(rec, c.address)(s.context(), Request{}), ownership.ReasonChainExhausted)
	all := c.all()
	expect(s, "attempts", len(all), 2)
	for i, a := range all {
		s.oneWire(a)
		expect(s, "limit", a.wire.Limit, 1)
		expect(s, "grant", int(a.wire.Grant), 1-i)
	}
	expect(s, "calls without a purse", rec.SDK.Totals().NoPurse, 1)
}
