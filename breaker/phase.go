package breaker

import (
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/rolling"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// phase is the time between two changes of state, under one set of rules. Only what it points to ever changes.
type phase struct {
	state State
	plain bool   // Closed, and a success needs nothing but to be counted: not limited, slow or the end of a row
	era   uint64 // counts changes of state: what belongs to an earlier one is told by it
	rules *rules
	start time.Duration // when the era began
	until time.Duration // Open: refuses up to then
	err   *OpenError    // Open and HalfOpen: the refusal, made once

	ring   *rolling.Ring // Closed; nil = there is no breaker at present
	streak *streak       // Closed, if failures in a row are counted
	probes *probes       // HalfOpen
}

// streak is how many attempts have failed since one succeeded. Failures are added under Breaker.mu; a success only has to
// write when there were any.
type streak struct {
	failures atomic.Int64
	_        [56]byte // read by all, written by few: alone on its cache line
}

func (s *streak) end() {
	if s != nil && s.failures.Load() != 0 {
		s.failures.Store(0)
	}
}

// begin starts an era. mu is held.
func (b *Breaker) begin(s State, r *rules) {
	b.era++
	p := &phase{state: s, era: b.era, rules: r, start: b.now()}
	switch {
	case s == Closed && r.Enabled():
		p.ring = newRing(r)
		p.streak = p.streakFor(r)
		p.plain = r.plain()
	case s == Open:
		p.until = p.start + r.openFor
		p.err = &OpenError{Name: b.name, breaker: b, until: p.until}
	case s == HalfOpen:
		p.probes = newProbes(r.want())
		p.err = &OpenError{Name: b.name, breaker: b}
	}
	b.current.Store(p)
}

func newRing(r *rules) *rolling.Ring {
	ring := new(rolling.Ring)
	ring.Init(r.Window)
	return ring
}

// streakFor returns what counts failures in a row under r: what counted them before, if anything did.
func (p *phase) streakFor(r *rules) *streak {
	switch {
	case r.ConsecutiveFailures <= 0:
		return nil
	case p.streak == nil:
		return new(streak)
	}
	return p.streak
}

// Configure replaces the settings, at once, and keeps the state. An open breaker stays open up to the moment that was set
// when it opened, but not longer from now than the new open time. A half-open one keeps the probes that are out and
// their time limits, admits as many as p says together with them, and closes if enough have succeeded already. A
// closed one keeps its counts: over another window, they leave it in slices of the old one. If the new rules say
// so, it opens before Configure returns. Failures in a row, slow attempts and attempts in flight are counted from the
// moment at which the settings ask for them. The share by which the open time is longer or shorter stays what it is.
//
// While p is no breaker, everything is admitted and nothing is counted; the next settings find the breaker closed and
// empty. Settings equal to those in force change nothing.
func (b *Breaker) Configure(p profiles.Breaker) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	old := b.phase()
	if old.rules.Breaker == p {
		return
	}
	r := b.rulesOf(p)
	if !p.Enabled() || old.ring == nil && old.state == Closed {
		b.reset(r)
		return
	}
	next := *old
	next.rules = r
	switch old.state {
	case Closed:
		b.reconfigure(old, &next)
	case Open:
		if until := b.now() + r.openFor; until < old.until {
			next.until = until
			next.err = &OpenError{Name: b.name, breaker: b, until: until}
		}
		b.current.Store(&next)
	case HalfOpen:
		next.probes.resize(r.want())
		b.current.Store(&next)
		if next.probes.enough() {
			b.tell(succeeded)
		}
	}
}

// reset makes the breaker closed and empty, whatever it was. mu is held.
func (b *Breaker) reset(r *rules) {
	from := b.phase().state
	b.cb = b.machine()
	b.begin(Closed, r)
	b.changed(from)
}

// reconfigure goes on counting a closed phase under other rules. mu is held.
func (b *Breaker) reconfigure(old, next *phase) {
	next.streak = old.streakFor(next.rules)
	next.plain = next.rules.plain()
	if next.rules.Window == old.rules.Window {
		b.current.Store(next)
	} else {
		now := b.now() - old.start
		next.ring = newRing(next.rules)
		next.ring.TakeOver(old.ring, now)
		b.current.Store(next)
		next.ring.TakeOver(old.ring, now) // with slices that have begun meanwhile
	}
	b.ask(next)
}
