package chainbudgettest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// orderCases are about what is looked at before anything is slept or spent.
var orderCases = []Case{
	{Name: "writes_run_once", check: writesRunOnce,
		Checks: "what must not run twice is not repeated once it may have run, and costs no token"},
	{Name: "unsent_leases_come_home", check: unsentLeasesComeHome,
		Checks: "what provably never left is repeated, even if it must not run twice, and its lease comes home"},
	{Name: "checked_before_sleeping", check: checkedBeforeSleeping,
		Checks: "a retry that cannot be made is refused before the backoff: a write, too little time"},
	{Name: "hints_are_lower_bounds", check: hintsAreLowerBounds, Needs: []Capability{Hints},
		Checks: "a retry waits at least as long as the callee asks; beyond the deadline it is not made"},
	{Name: "dead_context_makes_no_attempt", check: deadContextMakesNoAttempt,
		Checks: "a call whose context has ended is not sent"},
	{Name: "caller_gone", check: callerGone,
		Checks: "a caller that goes away ends its attempt at the callee; nothing is retried"},
}

func writesRunOnce(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimNone, answers("done")))
	ctx := s.chain(rec)
	s.denied(s.dial(rec, c.address)(ctx, Request{Body: "b", Write: true}), ownership.ReasonNotIdempotent)
	expect(s, "attempts", len(c.all()), 1)
	expect(s, "tokens held", s.balance(ctx).Held, 3)
}

func unsentLeasesComeHome(s *stage) {
	rec := s.sdk("caller", rules{profile: "retry: {max_attempts: 10}"})
	ctx := s.chain(rec)
	a := s.dial(rec, nobodysAddress)(ctx, Request{Body: "b", Write: true})
	s.denied(a, ownership.ReasonChainExhausted)
	if a.Denied != nil {
		expect(s, "attempts", a.Denied.Attempts, 4)
	}
	b := s.balance(ctx)
	expect(s, "tokens spent", b.Spent, 3)
	expect(s, "tokens lost", b.Lost, 0)
}

func checkedBeforeSleeping(s *stage) {
	slow := rules{profile: "backoff: {base: 20s, throttled_base: 20s, cap: 20s}"}
	rec := s.sdk("caller", slow, sleeping())
	c := s.callee(says(ownership.ClaimClaimed, fails(503)))
	client := s.dial(rec, c.address)
	begun := time.Now()
	s.denied(client(s.chain(rec), Request{Body: "b", Write: true}), ownership.ReasonNotIdempotent)
	ctx := s.chain(rec) // ends before the backoff would
	s.denied(client(ctx, Request{Body: "b"}), ownership.ReasonDeadline)
	if took := time.Since(begun); took > patience/2 {
		s.Errorf("two calls that cannot be retried took %v", took)
	}
	expect(s, "tokens held", s.balance(ctx).Held, 3)
}

func hintsAreLowerBounds(s *stage) {
	asks := func(seconds int) Handler {
		return says(ownership.ClaimClaimed, func(context.Context, Received, Reply) error {
			return &Failure{Status: http.StatusServiceUnavailable, Text: "not now", After: seconds}
		})
	}
	rec := s.sdk("caller", rules{profile: "backoff: {base: 1ms, throttled_base: 1ms, cap: 20s}"})
	c := s.callee(asks(2), says(ownership.ClaimNone, answers("done")), asks(15))
	client := s.dial(rec, c.address)
	s.succeeded(client(s.chain(rec), Request{}), "done")
	events := rec.Events()
	if len(events) != 1 || events[0].Delay < 2*time.Second {
		s.Errorf("the decisions are %+v; want one, to wait two seconds or more", events)
	}
	// The chain's context has less than 15 seconds left.
	s.denied(client(s.chain(rec), Request{}), ownership.ReasonDeadline)
	expect(s, "attempts", len(c.all()), 3)
}

func deadContextMakesNoAttempt(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(answers("done"))
	chain := s.chain(rec)
	ctx, cancel := context.WithCancel(chain)
	cancel()
	if a := s.dial(rec, c.address)(ctx, Request{}); a.Err == nil {
		s.Errorf("the call came to %v", &a)
	}
	expect(s, "attempts", len(c.all()), 0)
	expect(s, "tokens held", s.balance(chain).Held, 3)
}

func callerGone(s *stage) {
	rec := s.sdk("caller", rules{})
	arrived, gone := make(chan struct{}), make(chan struct{})
	c := s.callee(func(ctx context.Context, _ Received, _ Reply) error {
		close(arrived)
		defer close(gone)
		<-ctx.Done()
		return &Failure{Status: http.StatusServiceUnavailable, Text: "nobody reads this"}
	}, answers("done"))
	ctx, cancel := context.WithCancel(s.chain(rec))
	defer cancel()
	go func() { <-arrived; cancel() }()
	a := s.dial(rec, c.address)(ctx, Request{})
	if !errors.Is(a.cause(), context.Canceled) {
		s.Errorf("the call came to %v; want an error that is context.Canceled", &a)
	}
	select {
	case <-gone:
	case <-time.After(patience / 2):
		s.Error("the callee was not told that the caller has gone")
	}
	expect(s, "attempts", len(c.all()), 1)
	expect(s, "retries", rec.SDK.Totals().Dependencies["callee"].Retries, 0)
}
