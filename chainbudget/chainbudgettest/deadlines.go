package chainbudgettest

import (
	"context"
	"time"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// deadlineCases are about the caller's time.
var deadlineCases = []Case{
	{Name: "callers_time_bounds_the_handler", check: callersTimeBoundsTheHandler,
		Checks: "a handler's context ends with the time that its caller has left, unless the catalog says to ignore it"},
	{Name: "deadline_is_told", check: deadlineIsTold,
		Checks: "an attempt tells what is left of the caller's deadline, and nothing where the catalog says to ignore deadlines"},
}

// left is how much time a handler's context has.
func left(to *time.Duration) Handler {
	return func(ctx context.Context, _ Received, w Reply) error {
		*to = 0
		if deadline, ok := ctx.Deadline(); ok {
			*to = time.Until(deadline)
		}
		return w.Send("done")
	}
}

func callersTimeBoundsTheHandler(s *stage) {
	const limit = patience / 4
	var has time.Duration
	got := s.send(s.outsider(s.hop(s.sdk("store", rules{}), left(&has))), otelprop.Request{Grant: 1, Limit: 1, Timeout: limit})
	s.succeeded(got.Answer, "done")
	if has <= 0 || has > limit {
		s.Errorf("the handler has %v; want at most %v", has, limit)
	}
	ignoring := s.sdk("store", rules{chain: "budget: 3, deadlines: ignore"})
	got = s.send(s.outsider(s.hop(ignoring, left(&has))), otelprop.Request{Grant: 1, Limit: 1, Timeout: limit})
	s.succeeded(got.Answer, "done")
	if has != 0 && has <= limit { // a protocol's own deadline is not the SDK's to ignore
		s.Errorf("with `deadlines: ignore` the handler has %v", has)
	}
}

func deadlineIsTold(s *stage) {
	for chain, told := range map[string]bool{"budget: 3": true, "budget: 3, deadlines: ignore": false} {
		rec := s.sdk("caller", rules{chain: chain})
		c := s.callee(says(ownership.ClaimNone, answers("done")))
		s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{}), "done")
		for _, a := range c.all() {
			if a.wire.Timeout > patience || told != (a.wire.Timeout > 0) {
				s.Errorf("%s: the attempt tells %v of %v", chain, a.wire.Timeout, patience)
			}
		}
	}
}
