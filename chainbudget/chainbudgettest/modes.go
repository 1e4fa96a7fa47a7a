package chainbudgettest

import (
	"context"
	"net/http"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// modeCases are about how much of the SDK is in force.
var modeCases = []Case{
	{Name: "bypass_of_a_client", check: bypassOfAClient,
		Checks: "in mode bypass a client makes one attempt and writes nothing"},
	{Name: "bypass_of_a_server", check: bypassOfAServer,
		Checks: "in mode bypass a server strips the grant, counts nothing and returns nothing"},
	{Name: "observe_refuses_nothing_of_the_chain", check: observeRefusesNothingOfTheChain,
		Checks: "in mode observe ownership's refusals and an empty purse let retries through, which spend nothing and are counted; the wire is written"},
	{Name: "budget_leaves_ownership_out", check: budgetLeavesOwnershipOut,
		Checks: "in mode budget an unclaimed failure is retried and costs a token"},
}

func bypassOfAClient(s *stage) {
	rec := s.sdk("caller", rules{}, Mode(profiles.ModeBypass))
	c := s.callee(fails(503), answers("done"))
	a := s.dial(rec, c.address)(s.chain(rec), Request{Header: s.header("x-own", "1")})
	expect(s, "status", a.Status, 503)
	expect(s, "attempts", len(c.all()), 1)
	for _, arrived := range c.all() {
		if arrived.wire.State != otelprop.Absent {
			s.Errorf("the request brings %+v", arrived.wire)
		}
	}
	expect(s, "counted", rec.SDK.Totals().Dependencies["callee"].Attempts, 0)
}

func bypassOfAServer(s *stage) {
	store := s.sdk("store", rules{}, Mode(profiles.ModeBypass))
	var seen http.Header
	got := s.lend(s.outsider(s.hop(store, func(_ context.Context, r Received, w Reply) error {
		seen = r.Header.Clone()
		return w.Send("done")
	})), 2)
	s.succeeded(got.Answer, "done")
	expect(s, "returns", len(got.lines), 0)
	if wire := readArrival(Received{Header: seen}).wire; wire.State != otelprop.Absent {
		s.Errorf("the handler sees %+v", wire)
	}
	expect(s, "counted", store.SDK.Totals().Callees+store.SDK.Totals().Minted, 0)
}

func observeRefusesNothingOfTheChain(s *stage) {
	rec := s.sdk("caller", rules{chain: "budget: 0"}, Mode(profiles.ModeObserve))
	c := s.callee(says(ownership.ClaimUnclaimed, fails(503)), says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimNone, answers("done")))
	ctx := s.chain(rec)
	s.succeeded(s.dial(rec, c.address)(ctx, Request{}), "done")
	expect(s, "attempts", len(c.all()), 3)
	for _, a := range c.all() {
		s.oneWire(a)
	}
	expect(s, "tokens spent", s.balance(ctx).Spent, 0)
	d := rec.SDK.Totals().Dependencies["callee"]
	expect(s, "would deny as unclaimed", d.WouldDeny[ownership.ReasonUnclaimed.String()], 1)
	expect(s, "would deny as exhausted", d.WouldDeny[ownership.ReasonChainExhausted.String()], 1)
	expect(s, "retries", d.Retries, 0)
}

func budgetLeavesOwnershipOut(s *stage) {
	rec := s.sdk("caller", rules{}, Mode(profiles.ModeBudget))
	c := s.callee(says(ownership.ClaimUnclaimed, fails(503)), says(ownership.ClaimNone, answers("done")))
	ctx := s.chain(rec)
	s.succeeded(s.dial(rec, c.address)(ctx, Request{}), "done")
	expect(s, "attempts", len(c.all()), 2)
	expect(s, "tokens spent", s.balance(ctx).Spent, 1)
}
