package chainbudgettest

import (
	"context"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// arrivalCases are about what a service makes of what a request brings.
var arrivalCases = []Case{
	{Name: "grants_arrive", check: grantsArrive,
		Checks: "a handler holds what the header grants, passes entry, limit and the hop on, and what it did not use goes back"},
	{Name: "relayed_members_are_worth_one", check: relayedMembersAreWorthOne,
		Checks: "a member alone, and so relayed, grants one token at most, and no return is sent"},
	{Name: "unreadable_is_worth_nothing", check: unreadableIsWorthNothing,
		Checks: "what cannot be read, and a version that is not known, is worth 0 tokens, fails nothing, and is counted"},
	{Name: "grants_are_clamped", check: grantsAreClamped,
		Checks: "a grant is clamped to its own limit and to the catalog's max_budget (I4)"},
	{Name: "orphans_mint_one", check: orphansMintOne,
		Checks: "a request that brings nothing mints the orphan's budget, is counted, and is sent no return"},
	{Name: "probes_carry_nothing", check: probesCarryNothing, Needs: []Capability{Probes},
		Checks: "a probe is answered, has no budget, and teaches nothing"},
}

func grantsArrive(s *stage) {
	c := s.callee(says(ownership.ClaimNone, answers("done")))
	store := s.sdk("store", rules{})
	client := s.dial(store, c.address)
	var held int
	got := s.send(s.outsider(s.hop(store, func(ctx context.Context, r Received, w Reply) error {
		held = s.balance(ctx).Held
		return asks(client)(ctx, r, w)
	})), otelprop.Request{Grant: 2, Limit: 5, Hop: 4, Caller: "gateway", Attempt: 1})
	s.succeeded(got.Answer, "done")
	expect(s, "tokens held", held, 2)
	s.returned(got, otelprop.Return{Returned: 2, Claim: ownership.ClaimNone})
	all := c.all()
	expect(s, "calls", len(all), 1)
	for _, a := range all {
		expect(s, "entry", a.wire.Entry, "gateway")
		expect(s, "limit", a.wire.Limit, 5)
		expect(s, "hop", a.wire.Hop, 5)
		expect(s, "grant", a.wire.Grant, 2) // what was granted, not minted, is lent whole
		expect(s, "caller", a.wire.Caller, "store")
	}
}

func relayedMembersAreWorthOne(s *stage) {
	var held int
	store := s.sdk("store", rules{})
	member := (&otelprop.Request{Grant: 3, Limit: 3, Hop: 1, Nonce: nextNonce(), Entry: "gateway"}).Member()
	a := s.outsider(s.hop(store, s.holds(&held)))(s.context(), Request{Header: s.header(otelprop.BaggageHeader, member)})
	s.succeeded(a, "done")
	expect(s, "tokens held", held, 1)
	expect(s, "returns", len(lines(a.Header, otelprop.ReturnHeader)), 0)
	expect(s, "counted", store.SDK.Totals().Relayed, 1)
}

func unreadableIsWorthNothing(s *stage) {
	for _, value := range []string{"v9.3.3.1.00000001.gateway", "v1.3", "nonsense", "v1.3.3.1.00000001.gateway,v1.3.3.1.00000001.gateway"} {
		held := -1
		store := s.sdk("store", rules{})
		a := s.outsider(s.hop(store, s.holds(&held)))(s.context(), Request{Header: s.header(otelprop.RequestHeader, value)})
		s.succeeded(a, "done")
		expect(s, value+": tokens held", held, 0)
		expect(s, value+": returns", len(lines(a.Header, otelprop.ReturnHeader)), 0)
		expect(s, value+": counted", store.SDK.Totals().Unreadable, 1)
	}
}

func grantsAreClamped(s *stage) {
	var held int
	store := s.sdk("store", rules{chain: "budget: 3, max_budget: 4"})
	client := s.outsider(s.hop(store, s.holds(&held)))
	got := s.send(client, otelprop.Request{Grant: 50, Limit: 50})
	expect(s, "tokens held of 50", held, 4)
	expect(s, "returned", got.ret.Returned, 4)
	got = s.send(client, otelprop.Request{Grant: 3, Limit: 2})
	expect(s, "tokens held of 3 with a limit of 2", held, 2)
	expect(s, "returned", got.ret.Returned, 2)
}

func orphansMintOne(s *stage) {
	var held int
	store := s.sdk("store", rules{})
	a := s.outsider(s.hop(store, s.holds(&held)))(s.context(), Request{Header: s.header(otelprop.BaggageHeader, "user=u1")})
	s.succeeded(a, "done")
	expect(s, "tokens held", held, 1)
	expect(s, "returns", len(lines(a.Header, otelprop.ReturnHeader)), 0)
	expect(s, "counted", store.SDK.Totals().Orphans, 1)
}

func probesCarryNothing(s *stage) {
	store := s.sdk("store", rules{})
	address := s.a.Serve(s.TB, Server{SDK: store.SDK, Handle: answers("done")})
	a := s.outsider(address)(s.context(), Request{Probe: true})
	expect(s, "status", a.Status, 200)
	expect(s, "returns", len(lines(a.Header, otelprop.ReturnHeader)), 0)
	totals := store.SDK.Totals()
	expect(s, "requests that were counted", totals.Orphans+totals.Callees+totals.Entries+totals.Minted, 0)
}
