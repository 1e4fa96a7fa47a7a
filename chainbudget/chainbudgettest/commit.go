package chainbudgettest

import (
	"context"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// commitCases are about what the caller has seen some of.
var commitCases = []Case{
	{Name: "nothing_repeated_after_the_first_message", check: nothingRepeatedAfterTheFirstMessage, Needs: []Capability{Streams},
		Checks: "an answer that breaks off after its first message is handed on broken, and not asked for again"},
}

func nothingRepeatedAfterTheFirstMessage(s *stage) {
	rec := s.sdk("caller", rules{})
	read := make(chan struct{})
	var l *line
	c := s.callee(says(ownership.ClaimNone, func(ctx context.Context, _ Received, w Reply) error {
		if err := w.Send("first"); err != nil {
			return err
		}
		select {
		case <-read: // what was sent may otherwise be lost with the connection
		case <-ctx.Done():
		}
		l.breakAll()
		<-ctx.Done()
		return nil
	}), says(ownership.ClaimNone, answers("again")))
	l = s.line(c.address)
	once := false
	a := s.dial(rec, l.address)(s.chain(rec), Request{Each: func(string) {
		if !once {
			once = true
			close(read)
		}
	}})
	expect(s, "what the caller has read", a.Body, "first")
	if a.Cut == nil && a.Err == nil {
		s.Errorf("the call came to %v; want an error", &a)
	}
	expect(s, "attempts", len(c.all()), 1)
}
