package chainbudgettest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// attemptCases are about the time of an attempt.
var attemptCases = []Case{
	{Name: "attempt_timeout_ends_the_attempt", check: attemptTimeoutEndsTheAttempt,
		Checks: "an attempt that hangs is ended by the profile's attempt timeout, its lease is lost, and the next one goes out"},
	{Name: "attempt_timeout_is_told", check: attemptTimeoutIsTold,
		Checks: "each attempt tells its callee how much time it has"},
	{Name: "attempt_timeout_yields", check: attemptTimeoutYields,
		Checks: "where the caller's own deadline is sooner it ends the call, and nothing is retried"},
	{Name: "attempt_timeout_spares_the_answer", check: attemptTimeoutSparesTheAnswer, Needs: []Capability{Streams},
		Checks: "an answer that has begun may take longer than the attempt timeout"},
}

var hasty = rules{profile: "retry: {attempt_timeout: 250ms}"}

// hangs is a step that answers when nobody waits any more: of a [callee], when the case is over. Its own context ends
// sooner where the protocol tells the callee of the caller's time, and then the answer would be a race.
func hangs(ctx context.Context, _ Received, _ Reply) error {
	over := ctx.Done()
	if released, ok := ctx.Value(releasedKey{}).(chan struct{}); ok {
		over = released
	}
	<-over
	return &Failure{Status: http.StatusInternalServerError, Text: "nobody reads this"}
}

func attemptTimeoutEndsTheAttempt(s *stage) {
	rec := s.sdk("caller", hasty)
	c := s.callee(hangs, says(ownership.ClaimNone, answers("done")))
	ctx := s.chain(rec)
	s.succeeded(s.dial(rec, c.address)(ctx, Request{}), "done")
	expect(s, "attempts", len(c.all()), 2)
	b := s.balance(ctx)
	expect(s, "tokens lost", b.Lost, 2)
	expect(s, "tokens spent", b.Spent, 1)
}

func attemptTimeoutIsTold(s *stage) {
	rec := s.sdk("caller", rules{profile: "retry: {attempt_timeout: 2s}"})
	c := s.callee(failsTwice()...)
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{}), "done")
	for i, a := range c.all() {
		limit := 2 * time.Second
		if _, lacks := s.a.Lacks[Streams]; !lacks {
			limit = patience // an answer that goes on has the caller's whole time
		}
		if a.wire.Timeout <= 0 || a.wire.Timeout > limit {
			s.Errorf("attempt %d tells %v; want at most %v", i+1, a.wire.Timeout, limit)
		}
	}
}

func attemptTimeoutYields(s *stage) {
	rec := s.sdk("caller", rules{profile: "retry: {attempt_timeout: 20s}"})
	c := s.callee(hangs)
	ctx, cancel := context.WithTimeout(s.chain(rec), attemptTime)
	defer cancel()
	a := s.dial(rec, c.address)(ctx, Request{})
	// A callee that sees the time run out first may say so in its protocol's words.
	if cause := a.cause(); !errors.Is(cause, context.DeadlineExceeded) && a.Status != http.StatusGatewayTimeout {
		s.Errorf("the call came to %v; want an error that is context.DeadlineExceeded", &a)
	}
	expect(s, "retries", rec.SDK.Totals().Dependencies["callee"].Retries, 0)
}

func attemptTimeoutSparesTheAnswer(s *stage) {
	rec := s.sdk("caller", hasty)
	c := s.callee(says(ownership.ClaimNone, func(ctx context.Context, _ Received, w Reply) error {
		if err := w.Send("begun "); err != nil {
			return err
		}
		select {
		case <-time.After(2 * attemptTime):
		case <-ctx.Done():
			return ctx.Err()
		}
		return w.Send("ended")
	}))
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{}), "begun ended")
	expect(s, "attempts", len(c.all()), 1)
}
