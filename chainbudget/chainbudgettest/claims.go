package chainbudgettest

import (
	"context"
	"fmt"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// claimCases are about who retries which failure.
var claimCases = []Case{
	{Name: "claims_are_read", check: claimsAreRead,
		Checks: "a failure that is claimed, or about which nothing is said, is retried; one that is unclaimed or asks to stop is not"},
	{Name: "own_failures_are_claimed", check: ownFailuresAreClaimed,
		Checks: "a service that fails by itself claims the failure, and a success claims nothing"},
	{Name: "retried_failures_are_unclaimed", check: retriedFailuresAreUnclaimed,
		Checks: "a failure that this hop has retried next to its cause is sent up as unclaimed, with its owner and how deep it is"},
	{Name: "claims_pass_up", check: claimsPassUp,
		Checks: "a failure that this hop could not retry is sent up as it was claimed"},
	{Name: "unclaimed_stays_unclaimed", check: unclaimedStaysUnclaimed,
		Checks: "what was received as unclaimed, or as stop, is sent up as that"},
	{Name: "overload_is_stop", check: overloadIsStop,
		Checks: "a service that says that it is overloaded asks everybody to stop"},
	{Name: "effects_are_told", check: effectsAreTold,
		Checks: "a request that has sent a write tells so, and its own failure is not claimed"},
}

func claimsAreRead(s *stage) {
	for _, tt := range []struct {
		claim    ownership.Claim
		attempts int
		reason   ownership.Reason
	}{
		{ownership.ClaimClaimed, 2, ownership.ReasonAllowed},
		{ownership.ClaimNone, 2, ownership.ReasonAllowed}, // of a failure, it says nothing
		{ownership.ClaimUnclaimed, 1, ownership.ReasonUnclaimed},
		{ownership.ClaimStop, 1, ownership.ReasonStop},
	} {
		rec := s.sdk("caller", rules{})
		c := s.callee(says(tt.claim, fails(503)), says(ownership.ClaimNone, answers("done")))
		ctx := s.chain(rec)
		a := s.dial(rec, c.address)(ctx, Request{})
		if tt.reason == ownership.ReasonAllowed {
			s.succeeded(a, "done")
		} else {
			s.denied(a, tt.reason)
			if a.Denied != nil {
				expect(s, "owner", a.Denied.Owner, "store")
			}
		}
		expect(s, fmt.Sprint("attempts after a failure that is ", tt.claim), len(c.all()), tt.attempts)
		expect(s, "tokens lost", s.balance(ctx).Lost, 0)
	}
}

func ownFailuresAreClaimed(s *stage) {
	failing := s.lend(s.outsider(s.hop(s.sdk("store", rules{}), fails(503))), 2)
	expect(s, "status", failing.Status, 503)
	s.returned(failing, otelprop.Return{Returned: 2, Claim: ownership.ClaimClaimed, Owner: "store", Leaf: true})
	working := s.lend(s.outsider(s.hop(s.sdk("store", rules{}), answers("done"))), 2)
	s.succeeded(working.Answer, "done")
	s.returned(working, otelprop.Return{Returned: 2, Claim: ownership.ClaimNone, Leaf: true})
}

// between is a service between a caller and a callee that always fails and says claim.
func (s *stage) between(r rules, claim ownership.Claim) served {
	s.Helper()
	c := s.callee(says(claim, fails(503)))
	middle := s.sdk("middle", r)
	return s.lend(s.outsider(s.hop(middle, asks(s.dial(middle, c.address)))), 3)
}

func retriedFailuresAreUnclaimed(s *stage) {
	got := s.between(rules{profile: "retry: {max_attempts: 2}"}, ownership.ClaimClaimed)
	s.returned(got, otelprop.Return{Returned: 2, Retries: 1, Claim: ownership.ClaimUnclaimed, Owner: "store", Depth: 1})
}

func claimsPassUp(s *stage) {
	got := s.between(rules{profile: "retry: {max_attempts: 1}"}, ownership.ClaimClaimed)
	s.returned(got, otelprop.Return{Returned: 3, Claim: ownership.ClaimClaimed, Owner: "store", Depth: 1})
}

func unclaimedStaysUnclaimed(s *stage) {
	for _, claim := range []ownership.Claim{ownership.ClaimUnclaimed, ownership.ClaimStop} {
		s.returned(s.between(rules{}, claim), otelprop.Return{Returned: 3, Claim: claim, Owner: "store", Depth: 1})
	}
}

func overloadIsStop(s *stage) {
	got := s.lend(s.outsider(s.hop(s.sdk("store", rules{}), func(ctx context.Context, r Received, w Reply) error {
		ownership.Overloaded(ctx)
		return fails(503)(ctx, r, w)
	})), 2)
	s.returned(got, otelprop.Return{Returned: 2, Claim: ownership.ClaimStop, Owner: "store", Leaf: true})
}

func effectsAreTold(s *stage) {
	c := s.callee(says(ownership.ClaimNone, answers("done")))
	store := s.sdk("store", rules{})
	client := s.dial(store, c.address)
	got := s.lend(s.outsider(s.hop(store, func(ctx context.Context, r Received, w Reply) error {
		a := client(ctx, Request{Body: "b", Write: true})
		if err := a.cause(); err != nil {
			return err
		}
		return fails(503)(ctx, r, w)
	})), 2)
	s.returned(got, otelprop.Return{Returned: 2, Claim: ownership.ClaimUnclaimed, Owner: "store", Effects: true})
}
