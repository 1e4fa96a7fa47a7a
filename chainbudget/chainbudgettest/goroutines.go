package chainbudgettest

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// goroutineCases are about what is left over.
var goroutineCases = []Case{
	{Name: "no_goroutine_outlives_the_call", check: noGoroutineOutlivesTheCall,
		Checks: "calls that succeed, fail, time out and are canceled leave no goroutine behind once client and server are closed"},
}

func noGoroutineOutlivesTheCall(s *stage) {
	before := goroutines()
	inner := &scope{TB: s.TB}
	func() {
		defer inner.end()
		everyOutcome(&stage{TB: inner, a: s.a})
	}()
	var left []string
	gone := within(patience/4, func() bool {
		left = left[:0]
		for id, stack := range goroutines() {
			if before[id] == "" {
				left = append(left, stack)
			}
		}
		return len(left) == 0
	})
	if gone {
		return
	}
	s.Errorf("%d goroutines are left:\n\n%s", len(left), strings.Join(left, "\n\n"))
}

// everyOutcome makes one call of each kind.
func everyOutcome(s *stage) {
	rec := s.sdk("caller", hasty)
	c := s.callee(
		says(ownership.ClaimNone, answers("done")),
		says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimNone, answers("done")),
		hangs, says(ownership.ClaimNone, answers("done")),
		says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimUnclaimed, fails(503)),
		hangs,
	)
	client := s.dial(rec, c.address)
	for range 3 {
		s.succeeded(client(s.chain(rec), Request{Body: "b"}), "done")
	}
	s.denied(client(s.chain(rec), Request{Body: "b"}), ownership.ReasonUnclaimed)
	ctx, cancel := context.WithCancel(s.chain(rec))
	go func() {
		within(patience/4, func() bool { return len(c.all()) == 8 })
		cancel()
	}()
	client(ctx, Request{Body: "b"})
	cancel()
}

// goroutines returns the stacks of all goroutines but the caller's, by their ids.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := map[string]string{}
	for i, stack := range bytes.Split(buf, []byte("\n\n")) {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(stack), "goroutine "), " ")
		if i > 0 { // the first is the caller
			all[id] = string(stack)
		}
	}
	return all
}

// scope is a test whose cleanups run before the test ends.
type scope struct {
	testing.TB
	cleanups []func()
}

// Cleanup implements [testing.TB].
func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for len(s.cleanups) > 0 {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		last()
	}
}
