package chainbudgettest

import (
	"context"
	"net/http"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// hiddenCases are about what repeats requests without asking the SDK.
var hiddenCases = []Case{
	{Name: "no_lease_travels_twice", check: noLeaseTravelsTwice,
		Checks: "when a connection dies that was used before, no lease arrives twice: each arrival with tokens is an attempt of its own"},
	{Name: "foreign_counters_take_the_grant", check: foreignCountersTakeTheGrant,
		Checks: "a request that something between the hops has sent before has a grant of 0, and is counted"},
	{Name: "repeated_grants_are_worth_nothing", check: repeatedGrantsAreWorthNothing,
		Checks: "the same wire arriving a second time has a grant of 0, and is counted"},
	{Name: "mesh_is_told_not_to_retry", check: meshIsToldNotToRetry,
		Checks: "`mesh: envoy` asks the sidecar for no retries"},
}

func noLeaseTravelsTwice(s *stage) {
	rec := s.sdk("caller", rules{})
	var l *line
	dies := func(ctx context.Context, _ Received, _ Reply) error {
		l.breakAll()
		return &Failure{Status: http.StatusServiceUnavailable, Text: "nobody reads this"}
	}
	done := says(ownership.ClaimNone, answers("done"))
	c := s.callee(done, dies, done)
	l = s.line(c.address)
	client := s.dial(rec, l.address)
	s.succeeded(client(s.chain(rec), Request{}), "done")
	ctx := s.chain(rec)
	s.succeeded(client(ctx, Request{}), "done")
	seen := map[otelprop.Nonce]bool{}
	for i, a := range c.all() {
		if a.wire.Grant > 0 && seen[a.wire.Nonce] {
			s.Errorf("arrival %d brings the lease of one before: %+v", i+1, a.wire)
		}
		seen[a.wire.Nonce] = true
	}
	if b := s.balance(ctx); b.Spent+b.Lost != 3-b.Held {
		s.Errorf("the account is %+v", b)
	}
}

// holds is a handler that answers, and tells what its request holds.
func (s *stage) holds(held *int) Handler {
	return func(ctx context.Context, _ Received, w Reply) error {
		*held = s.balance(ctx).Held
		return w.Send("done")
	}
}

func foreignCountersTakeTheGrant(s *stage) {
	for _, tt := range []struct {
		name, value string
		held        int
	}{
		{"x-envoy-attempt-count", "1", 2},
		{"x-envoy-attempt-count", "2", 0},
		{"grpc-previous-rpc-attempts", "1", 0},
	} {
		var held int
		store := s.sdk("store", rules{})
		got := s.lend(s.outsider(s.hop(store, s.holds(&held))), 2, tt.name, tt.value)
		s.succeeded(got.Answer, "done")
		expect(s, tt.name+": "+tt.value+": tokens held", held, tt.held)
		expect(s, "returned", int(got.ret.Returned), tt.held)
		expect(s, "counted", store.SDK.Totals().Foreign == 1, tt.held == 0)
	}
}

func repeatedGrantsAreWorthNothing(s *stage) {
	var held int
	store := s.sdk("store", rules{})
	client := s.outsider(s.hop(store, s.holds(&held)))
	wire := otelprop.Request{Grant: 2, Limit: 3, Hop: 1, Nonce: nextNonce(), Entry: "gateway"}
	s.succeeded(s.sendWire(client, wire).Answer, "done")
	expect(s, "tokens held", held, 2)
	s.succeeded(s.sendWire(client, wire).Answer, "done")
	expect(s, "tokens held at the second arrival", held, 0)
	expect(s, "counted", store.SDK.Totals().RepeatedGrants, 1)
}

func meshIsToldNotToRetry(s *stage) {
	rec := s.sdk("caller", rules{rest: "dependencies: {callee: {profile: suite, mesh: envoy}}\n"})
	c := s.callee(says(ownership.ClaimNone, answers("done")))
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{}), "done")
	for _, a := range c.all() {
		if got := lines(a.Header, "x-envoy-max-retries"); len(got) != 1 || got[0] != "0" {
			s.Errorf("x-envoy-max-retries is %q, want 0", got)
		}
	}
}
