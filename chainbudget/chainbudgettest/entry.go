package chainbudgettest

import (
	"context"
	"time"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// entryCases are about handlers where chains begin.
var entryCases = []Case{
	{Name: "entries_ignore_what_comes_in", check: entriesIgnoreWhatComesIn,
		Checks: "an entry ignores grant, timeout and counters, mints the catalog's budget, and sends no return"},
	{Name: "entries_begin_the_chain", check: entriesBeginTheChain,
		Checks: "an entry's callees get its name, what it minted as limit, hop 1, and all tokens but one"},
}

func entriesIgnoreWhatComesIn(s *stage) {
	var held int
	limited := false
	edge := s.sdk("edge", rules{})
	address := s.a.Serve(s.TB, Server{SDK: edge.SDK, Entry: true, Handle: func(ctx context.Context, _ Received, w Reply) error {
		held = s.balance(ctx).Held
		deadline, ok := ctx.Deadline()
		limited = ok && time.Until(deadline) < patience/4
		return w.Send("done")
	}})
	got := s.send(s.outsider(address), otelprop.Request{Grant: 9, Limit: 9, Timeout: time.Second}, "x-envoy-attempt-count", "7")
	s.succeeded(got.Answer, "done")
	expect(s, "tokens held", held, 3)
	expect(s, "limited by the caller's time", limited, false)
	expect(s, "returns", len(got.lines), 0)
	totals := edge.SDK.Totals()
	expect(s, "entries", totals.Entries, 1)
	expect(s, "foreign repetitions", totals.Foreign, 0)
}

func entriesBeginTheChain(s *stage) {
	c := s.callee(says(ownership.ClaimNone, answers("done")))
	edge := s.sdk("edge", rules{})
	address := s.a.Serve(s.TB, Server{SDK: edge.SDK, Entry: true, Handle: asks(s.dial(edge, c.address))})
	s.succeeded(s.send(s.outsider(address), otelprop.Request{Grant: 9, Limit: 9, Hop: 9}).Answer, "done")
	expect(s, "calls", len(c.all()), 1)
	for _, a := range c.all() {
		expect(s, "entry", a.wire.Entry, "edge")
		expect(s, "limit", a.wire.Limit, 3)
		expect(s, "hop", a.wire.Hop, 1)
		expect(s, "grant", a.wire.Grant, 2)
	}
}
