package breaker

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/chainbudget/chainbudget-go/internal/rolling"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// jitter is the share of the open time by which it is longer or shorter, drawn once for each breaker of a process.
const jitter = 0.2

// Breaker is the circuit breaker of one dependency. A nil Breaker admits everything. All methods may be called
// concurrently; none blocks, and none of those on the path of a call allocates.
type Breaker struct {
	name         string
	settings     profiles.Breaker
	openFor      time.Duration // with the jitter
	probeTimeout time.Duration
	onChange     func(name string, from, to State)
	base         time.Time // all instants are durations since then: monotonic, whatever the wall clock does

	current atomic.Pointer[phase]

	mu      sync.Mutex // guards cb, changes of current, and the slots of a half-open phase
	cb      *gobreaker.CircuitBreaker[struct{}]
	pending []change // for onChange, in order
	calling bool     // somebody is calling it
}

// phase is the time between two changes of state. What belongs to an earlier phase is told by its pointer.
type phase struct {
	state State
	start time.Duration
	until time.Duration // Open: refuses up to then
	err   *OpenError    // Open and HalfOpen: the refusal, made once

	ring rolling.Ring // Closed

	slots []slot       // HalfOpen; guarded by Breaker.mu
	free  atomic.Int32 // slots that a probe can take
	due   atomic.Int64 // when the first of the probes that are out runs out of time; MaxInt64 = none is out
}

// slot is one of the permits of a half-open phase.
type slot struct {
	state  slotState
	serial uint32 // of the probe that holds it, so that one who lost it cannot report for the next
	due    time.Duration
}

type slotState uint8

const (
	slotFree slotState = iota
	slotOut
	slotDone // its probe succeeded
)

type change struct{ from, to State }

// Permit is the right to send one attempt. It is handed to [Breaker.Done] when the attempt is over. The zero Permit,
// which a nil Breaker gives, needs no Done.
type Permit struct {
	phase  *phase
	block  *rolling.Block // Closed: the slice of the window that the attempt began in
	slot   int32          // HalfOpen
	serial uint32         // HalfOpen
}

// New returns the breaker of the dependency called name, or nil if p has none. onChange, which may be nil, is called
// after each change of state, in order and one at a time, with no lock held: it may use the breaker. It runs on the
// goroutine of the call that caused the change and should return soon.
func New(name string, p profiles.Breaker, onChange func(name string, from, to State)) *Breaker {
	if !p.Enabled() {
		return nil
	}
	b := &Breaker{
		name: name, settings: p, onChange: onChange, base: time.Now(),
		openFor: time.Duration(float64(p.OpenFor) * (1 - jitter + 2*jitter*rand.Float64())),
	}
	b.probeTimeout = p.ProbeTimeout
	if b.probeTimeout <= 0 {
		b.probeTimeout = p.OpenFor
	}
	b.start(Closed)
	b.cb = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        name,
		MaxRequests: uint32(max(1, p.Probes)),
		// It sees failures only, as no success can open it, and is asked only whether to open. What it decides on is
		// the ring, which has both.
		Interval:      p.Window,
		BucketPeriod:  b.phase().ring.Period,
		Timeout:       b.openFor,
		ReadyToTrip:   func(gobreaker.Counts) bool { return b.tripped() },
		OnStateChange: func(_ string, _, to gobreaker.State) { b.follow(to) },
	})
	return b
}

// Name returns the name of the dependency.
func (b *Breaker) Name() string {
	if b == nil {
		return ""
	}
	return b.name
}

// Allow admits an attempt, or refuses it with an [*OpenError]. Every Permit must come back through Done; a probe that
// does not is given up after the probe timeout.
func (b *Breaker) Allow() (Permit, error) { return b.AllowAt(time.Now()) }

// AllowAt is Allow for a caller that has just read the clock: at is what time.Now returned.
func (b *Breaker) AllowAt(at time.Time) (Permit, error) {
	if b == nil {
		return Permit{}, nil
	}
	now := max(0, at.Sub(b.base))
	switch p := b.phase(); p.state {
	case Closed:
		return Permit{phase: p, block: p.ring.At(now - p.start)}, nil
	case Open:
		if now <= p.until {
			return Permit{}, p.err
		}
	case HalfOpen:
		if !p.admits(now) {
			return Permit{}, p.err
		}
	}
	return b.probe(now)
}

// Ready reports whether Allow would admit an attempt now, without taking a permit or changing the state. It takes no
// lock.
func (b *Breaker) Ready() bool { return b.Refuses() == nil }

// Refuses returns the [*OpenError] that Allow would refuse with now, or nil, likewise without a permit, a change of state
// or a lock. Closed, it does not read the clock.
func (b *Breaker) Refuses() error {
	if b == nil {
		return nil
	}
	p := b.phase()
	if p.state == Closed || p.state == Open && b.now() > p.until || p.state == HalfOpen && p.admits(b.now()) {
		return nil
	}
	return p.err
}

// Done says how an admitted attempt ended, and empties the permit: a second Done of the same permit does nothing. So
// does one whose attempt began before the last change of state. It may be deferred with [Ignored] at first, so that a
// panic gives the permit back.
func (b *Breaker) Done(permit *Permit, outcome Outcome) {
	if b == nil || permit == nil || permit.phase == nil {
		return
	}
	p := *permit
	*permit = Permit{}
	switch {
	case p.phase.state == HalfOpen:
		b.probed(p, outcome)
	case outcome == Success:
		p.block.Add(true)
	case outcome == Failure:
		b.fail(p)
	}
}

// State returns the state that the next attempt would meet: an open breaker whose time is over is half-open.
func (b *Breaker) State() State {
	if b == nil {
		return Closed
	}
	p := b.phase()
	if p.state == Open && b.now() > p.until {
		return HalfOpen
	}
	return p.state
}

// Counts returns the finished attempts in the window of a closed breaker, and the finished probes of a half-open one;
// an open one has none.
func (b *Breaker) Counts() (successes, failures uint64) {
	if b == nil {
		return 0, 0
	}
	p := b.phase()
	switch p.state {
	case Closed:
		return p.ring.Sum(b.now() - p.start)
	case HalfOpen:
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range p.slots {
			if s.state == slotDone {
				successes++
			}
		}
	}
	return successes, 0
}

func (b *Breaker) phase() *phase { return b.current.Load() }

func (b *Breaker) now() time.Duration { return time.Since(b.base) }

// admits reports whether a half-open phase has a permit to give, or one to take back.
func (p *phase) admits(now time.Duration) bool {
	return p.free.Load() > 0 || int64(now) > p.due.Load()
}

// tripped is the rule: enough attempts in the window, and too large a share of them failed. gobreaker asks it after
// each failure.
func (b *Breaker) tripped() bool {
	p := b.phase()
	ok, failed := p.ring.Sum(b.now() - p.start)
	total := ok + failed
	// Dividing rounds once: 7 of 100 is 7 %, where 0.07 times 100 is more than 7.
	return total > 0 && total >= uint64(max(0, b.settings.MinRequests)) &&
		float64(failed)/float64(total) >= b.settings.FailureRatio
}

var errFailed = errors.New("failed")

// What the results of attempts look like to gobreaker. It is told afterwards, so that no closure lives as long as
// an attempt does.
func succeeded() (struct{}, error) { return struct{}{}, nil }
func failed() (struct{}, error)    { return struct{}{}, errFailed }

// fail counts the failure of an attempt that began in a closed phase.
func (b *Breaker) fail(p Permit) {
	b.mu.Lock()
	if b.phase() == p.phase {
		p.block.Add(false)
		b.tell(failed)
	}
	b.unlock()
}

// tell passes a result to gobreaker, which may change the state. mu is held.
func (b *Breaker) tell(result func() (struct{}, error)) {
	_, _ = b.cb.Execute(result) // the error is the one that result returned
}

// probe admits a probe where the phase is, or should be, half-open.
func (b *Breaker) probe(now time.Duration) (Permit, error) {
	b.mu.Lock()
	defer b.unlock()
	p := b.phase()
	if p.state == Open && now > p.until {
		// Reading gobreaker's state makes it half-open: it noted the time of opening before until was computed, and
		// reads the clock after now.
		_ = b.cb.State()
		p = b.phase()
	}
	switch p.state {
	case Closed:
		return Permit{phase: p, block: p.ring.At(max(0, now-p.start))}, nil
	case HalfOpen:
		if i := p.take(now, b.probeTimeout); i >= 0 {
			return Permit{phase: p, slot: int32(i), serial: p.slots[i].serial}, nil
		}
	}
	return Permit{}, p.err
}

// take gives out a free slot, or that of a probe whose time is over; -1 = there is none. Breaker.mu is held.
func (p *phase) take(now, limit time.Duration) int {
	for i := range p.slots {
		s := &p.slots[i]
		if s.state == slotFree || s.state == slotOut && now > s.due {
			s.state, s.due = slotOut, now+limit
			s.serial++
			p.tally()
			return i
		}
	}
	return -1
}

// tally updates what admits reads. Breaker.mu is held.
func (p *phase) tally() {
	free, due := int32(0), int64(math.MaxInt64)
	for _, s := range p.slots {
		switch s.state {
		case slotFree:
			free++
		case slotOut:
			due = min(due, int64(s.due))
		}
	}
	p.due.Store(due)
	p.free.Store(free)
}

// probed takes the result of a probe.
func (b *Breaker) probed(p Permit, outcome Outcome) {
	b.mu.Lock()
	defer b.unlock()
	if b.phase() != p.phase {
		return
	}
	s := &p.phase.slots[p.slot]
	if s.state != slotOut || s.serial != p.serial {
		return // reported before, or too late: the permit is somebody else's by now
	}
	switch outcome {
	case Success:
		s.state = slotDone
		b.tell(succeeded)
	case Failure:
		b.tell(failed)
	default:
		s.state = slotFree
	}
	p.phase.tally()
}

// follow begins the phase that gobreaker has just turned to. gobreaker calls it under its own lock, and mu is held.
func (b *Breaker) follow(to gobreaker.State) {
	from := b.phase().state
	switch to {
	case gobreaker.StateOpen:
		b.start(Open)
	case gobreaker.StateHalfOpen:
		b.start(HalfOpen)
	default:
		b.start(Closed)
	}
	if b.onChange != nil {
		b.pending = append(b.pending, change{from, b.phase().state})
	}
}

func (b *Breaker) start(s State) {
	p := &phase{state: s, start: b.now()}
	switch s {
	case Closed:
		p.ring.Init(b.settings.Window)
	case Open:
		p.until = p.start + b.openFor
		p.err = &OpenError{Name: b.name, breaker: b, until: p.until}
	case HalfOpen:
		p.slots = make([]slot, max(1, b.settings.Probes))
		p.err = &OpenError{Name: b.name, breaker: b}
		p.tally()
	}
	b.current.Store(p)
}

// unlock releases mu and then calls onChange for what happened meanwhile. A change that is caused from inside the
// callback, or beside it, is left to whoever is calling, so that changes are told in their order.
func (b *Breaker) unlock() {
	if len(b.pending) == 0 || b.calling {
		b.mu.Unlock()
		return
	}
	b.calling = true
	b.mu.Unlock()
	for b.callNext() {
	}
}

// callNext calls onChange once; false = there is nothing left to tell.
func (b *Breaker) callNext() (more bool) {
	b.mu.Lock()
	if len(b.pending) == 0 {
		b.calling, b.pending = false, nil
		b.mu.Unlock()
		return false
	}
	next := b.pending[0]
	b.pending = b.pending[1:]
	b.mu.Unlock()
	defer func() {
		if !more { // the callback panicked or ended its goroutine: let the next change find the rest
			b.mu.Lock()
			b.calling = false
			b.mu.Unlock()
		}
	}()
	b.onChange(b.name, next.from, next.to)
	return true
}

// Configure is a stand-in until the breaker's own lands.
func (b *Breaker) Configure(profiles.Breaker) {}
