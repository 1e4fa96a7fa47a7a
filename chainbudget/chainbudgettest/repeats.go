package chainbudgettest

import "github.com/chainbudget/chainbudget-go/ownership"

// repeatCases are about callers with a loop of their own.
var repeatCases = []Case{
	{Name: "repeated_calls_are_counted", check: repeatedCallsAreCounted, Needs: []Capability{Operations},
		Checks: "a call that repeats a failed one of the same request is counted; another operation is not"},
	{Name: "repeated_calls_are_refused", check: repeatedCallsAreRefused, Needs: []Capability{Operations},
		Checks: "with `repeats: refuse` a call that repeats a failed one is not sent"},
}

func repeatedCallsAreCounted(s *stage) {
	rec := s.sdk("caller", rules{profile: "retry: {max_attempts: 1}"})
	c := s.callee(says(ownership.ClaimClaimed, fails(503)))
	client, ctx := s.dial(rec, c.address), s.chain(rec)
	client(ctx, Request{Operation: "one", Body: "b"})
	client(ctx, Request{Operation: "other", Body: "b"})
	expect(s, "repeated calls after two different ones", rec.SDK.Totals().Dependencies["callee"].RepeatedCalls, 0)
	client(ctx, Request{Operation: "one", Body: "b"})
	expect(s, "repeated calls after the third", rec.SDK.Totals().Dependencies["callee"].RepeatedCalls, 1)
	expect(s, "attempts", len(c.all()), 3)
}

func repeatedCallsAreRefused(s *stage) {
	rec := s.sdk("caller", rules{profile: "retry: {max_attempts: 1, repeats: refuse}"})
	c := s.callee(says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimNone, answers("done")))
	client, ctx := s.dial(rec, c.address), s.chain(rec)
	client(ctx, Request{Operation: "one", Body: "b"})
	if a := client(ctx, Request{Operation: "one", Body: "b"}); a.cause() == nil {
		s.Errorf("the repeated call came to %v", &a)
	}
	expect(s, "attempts", len(c.all()), 1)
	s.succeeded(client(ctx, Request{Operation: "other", Body: "b"}), "done")
}
