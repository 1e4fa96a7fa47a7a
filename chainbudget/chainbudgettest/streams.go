package chainbudgettest

import (
	"context"
	"errors"
	"time"
)

// streamCases are about answers in several messages.
var streamCases = []Case{
	{Name: "messages_arrive_as_they_are_sent", check: messagesArriveAsTheyAreSent, Needs: []Capability{Streams},
		Checks: "with the adapter on both sides a message is read before the next one is sent"},
}

func messagesArriveAsTheyAreSent(s *stage) {
	read := make(chan struct{}, 1)
	stream := func(_ context.Context, _ Received, w Reply) error {
		for range 3 {
			if err := w.Send("message "); err != nil {
				return err
			}
			select {
			case <-read:
			case <-time.After(patience / 4):
				return errors.New("the message was not read while the answer went on")
			}
		}
		return nil
	}
	rec := s.sdk("caller", rules{})
	address := s.hop(s.sdk("store", rules{}), stream)
	ctx := s.chain(rec)
	parts := 0
	a := s.dial(rec, address)(ctx, Request{Each: func(string) { parts++; read <- struct{}{} }})
	s.succeeded(a, "message message message ")
	expect(s, "parts", parts, 3)
	expect(s, "tokens held", s.balance(ctx).Held, 3)
}
