package chainbudgettest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// discardCases are about answers that nobody gets, and the one that the caller gets.
var discardCases = []Case{
	{Name: "discarded_answers_leave_the_connection", check: discardedAnswersLeaveTheConnection,
		Checks: "the answers of failed attempts are read and closed, so that one connection serves all attempts"},
	{Name: "discarding_is_bounded", check: discardingIsBounded, Needs: []Capability{Bodies, NetHTTP},
		Checks: "a failed attempt's endless body does not hold up the next attempt"},
	{Name: "last_answer_stays", check: lastAnswerStays,
		Checks: "when retries end, the caller gets the last answer as the callee gave it, and why they ended"},
}

func discardedAnswersLeaveTheConnection(s *stage) {
	rec := s.sdk("caller", rules{})
	long := func(context.Context, Received, Reply) error {
		return &Failure{Status: http.StatusServiceUnavailable, Text: strings.Repeat("long ", 400)}
	}
	c := s.callee(says(ownership.ClaimClaimed, long), says(ownership.ClaimClaimed, long), says(ownership.ClaimNone, answers("done")))
	line := s.line(c.address)
	s.succeeded(s.dial(rec, line.address)(s.chain(rec), Request{}), "done")
	expect(s, "attempts", len(c.all()), 3)
	expect(s, "connections", line.connections(), 1)
}

func discardingIsBounded(s *stage) {
	rec := s.sdk("caller", rules{})
	endless := func(ctx context.Context, _ Received, w Reply) error {
		w.Writer.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w.Writer, "and so on")
		http.NewResponseController(w.Writer).Flush()
		<-ctx.Done()
		return nil
	}
	c := s.callee(says(ownership.ClaimClaimed, endless), says(ownership.ClaimNone, answers("done")))
	begun := time.Now()
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{}), "done")
	if took := time.Since(begun); took > patience/4 {
		s.Errorf("the call took %v", took)
	}
}

func lastAnswerStays(s *stage) {
	rec := s.sdk("caller", rules{profile: "retry: {max_attempts: 2}"})
	last := func(_ context.Context, _ Received, w Reply) error {
		w.Header("x-last", "yes")
		return &Failure{Status: http.StatusServiceUnavailable, Text: "the last answer"}
	}
	c := s.callee(says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimClaimed, last))
	a := s.dial(rec, c.address)(s.chain(rec), Request{})
	s.denied(a, ownership.ReasonMaxAttempts)
	expect(s, "attempts", len(c.all()), 2)
	expect(s, "status", a.Status, http.StatusServiceUnavailable)
	expect(s, "text", strings.TrimSpace(a.Body), "the last answer")
	expect(s, "header", strings.Join(lines(a.Header, "x-last"), ","), "yes")
	if a.Denied != nil && (a.Denied.Attempts != 2 || a.Denied.Dependency != "callee" || a.Denied.Owner != "store") {
		s.Errorf("the decision is %+v", a.Denied)
	}
}
