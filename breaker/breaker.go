package breaker

import (
	"errors"
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
	name     string
	jitter   float64 // the open time is multiplied by it
	onChange func(name string, from, to State)
	base     time.Time // all instants are durations since then: monotonic, whatever the wall clock does

	current atomic.Pointer[phase]

	mu      sync.Mutex // guards what follows, changes of current, and the probes of a half-open phase
	cb      *gobreaker.CircuitBreaker[struct{}]
	era     uint64
	row     int64    // failures in a row, for tripped
	others  merged   // what other processes finished
	pending []change // for onChange, in order
	calling bool     // somebody is calling it

	flying flying // attempts that are out, where they are limited
}

type change struct{ from, to State }

// Permit is the right to send one attempt. It is handed to [Breaker.Done] when the attempt is over. The zero Permit,
// which a nil Breaker gives, needs no Done.
type Permit struct { // of four words: the compiler keeps no larger one in registers
	phase *phase
	block *rolling.Block // Closed: the slice of the window that the attempt began in
	began time.Duration
	probe ticket // HalfOpen
}

// New returns the breaker of the dependency called name, or nil if p has none. onChange, which may be nil, is called
// after each change of state, in order and one at a time, with no lock held: it may use the breaker. It runs on the
// goroutine of the call that caused the change and should return soon.
func New(name string, p profiles.Breaker, onChange func(name string, from, to State)) *Breaker {
	return NewDrawn(name, p, rand.Float64(), onChange)
}

// NewDrawn is New for runs that must come out the same again: the open time's jitter is not drawn, but stands at share of
// its range, from 0 to below 1.
func NewDrawn(name string, p profiles.Breaker, share float64, onChange func(name string, from, to State)) *Breaker {
	if !p.Enabled() {
		return nil
	}
	b := &Breaker{
		name: name, onChange: onChange, base: time.Now(),
		jitter: 1 - jitter + 2*jitter*share,
	}
	b.cb = b.machine()
	b.begin(Closed, b.rulesOf(p))
	return b
}

// machine returns a gobreaker that is closed. It decides which state follows on what. When, how many and how long is
// ours, so that settings can change under it: whether to open, it asks the rule; it would half-open at once, and is not
// asked before the time is over; and it sees one result of all probes.
func (b *Breaker) machine() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:          b.name,
		MaxRequests:   1,
		Timeout:       time.Nanosecond,
		ReadyToTrip:   func(gobreaker.Counts) bool { return b.tripped() },
		OnStateChange: func(_ string, _, to gobreaker.State) { b.follow(to) },
	})
}

// Name returns the name of the dependency.
func (b *Breaker) Name() string {
	if b == nil {
		return ""
	}
	return b.name
}

// Allow admits an attempt, or refuses it with an [*OpenError]. Every Permit must come back through Done. A probe that
// does not is given up after the probe timeout; where attempts in flight are limited, another attempt that does not
// counts as on its way for one to two hours more.
func (b *Breaker) Allow() (Permit, error) { return b.AllowAt(time.Now()) }

// AllowAt is Allow for a caller that has just read the clock: at is what time.Now returned.
func (b *Breaker) AllowAt(at time.Time) (Permit, error) {
	if b == nil {
		return Permit{}, nil
	}
	now := max(0, at.Sub(b.base))
	p := b.phase()
	switch {
	case p.plain:
		return Permit{phase: p, block: p.ring.At(now - p.start), began: now}, nil
	case p.state == Closed:
		return b.admit(p, now)
	}
	if err := b.refusal(p, now); err != nil {
		return Permit{}, err
	}
	return b.probe(now)
}

// Refuses returns the [*OpenError] that Allow would refuse with now, or nil, without a permit, a change of state or a
// lock. Closed and without a limit of attempts in flight, it does not read the clock.
func (b *Breaker) Refuses() error {
	if b == nil {
		return nil
	}
	p := b.phase()
	if p.state == Closed && p.rules.full == nil {
		return nil
	}
	if err := b.refusal(p, b.now()); err != nil {
		return err
	}
	return nil
}

// Done says how an admitted attempt ended, and empties the permit: a second Done of the same permit does nothing. The
// outcome of one that began before the last change of state counts for nothing. It may be deferred with [Ignored] at
// first, so that a panic gives the permit back. It reads the clock only where slow attempts are counted.
func (b *Breaker) Done(permit *Permit, outcome Outcome) {
	if b == nil || permit == nil || permit.phase == nil {
		return
	}
	p := *permit
	*permit = Permit{}
	switch {
	case p.phase.plain && outcome == Success && p.phase == b.phase():
		p.block.Add(true)
	case p.phase.state == HalfOpen:
		b.probed(p, outcome)
	default:
		b.finished(p, outcome)
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

// Counts returns the finished attempts in the window of a closed breaker, and the successful probes of a half-open one;
// an open one has none. They are this process's own; what was merged is not among them.
func (b *Breaker) Counts() (successes, failures uint64) {
	if b == nil {
		return 0, 0
	}
	p := b.phase()
	switch p.state {
	case Closed:
		if p.ring != nil {
			s := p.ring.Sum(b.now() - p.start)
			return s.OK, s.Failed
		}
	case HalfOpen:
		b.mu.Lock()
		defer b.mu.Unlock()
		return uint64(p.probes.done), 0
	}
	return 0, 0
}

func (b *Breaker) phase() *phase { return b.current.Load() }

func (b *Breaker) now() time.Duration { return time.Since(b.base) }

// refusal returns why an attempt at now would be refused, or nil.
func (b *Breaker) refusal(p *phase, now time.Duration) *OpenError {
	spare := 0
	switch p.state {
	case Open:
		if now <= p.until {
			return p.err
		}
	case HalfOpen:
		if !p.probes.admits(now) {
			return p.err
		}
		spare = p.probes.spare()
	}
	if full := p.rules.full; full != nil && b.flying.out(now)-spare >= full.MaxInFlight {
		return full
	}
	return nil
}

// admit admits an attempt while p is closed.
func (b *Breaker) admit(p *phase, now time.Duration) (Permit, error) {
	if p.ring == nil {
		return Permit{}, nil
	}
	if full := p.rules.full; full != nil && !b.flying.take(now, full.MaxInFlight) {
		return Permit{}, full
	}
	return Permit{phase: p, block: p.ring.At(now - p.start), began: now}, nil
}

// slow reports whether an attempt that ends now took long.
func (b *Breaker) slow(p *phase, began time.Duration) bool {
	return p.rules.slowCall > 0 && b.now()-began >= p.rules.slowCall
}

var errFailed = errors.New("failed")

// What the results of attempts look like to gobreaker. It is told afterwards, so that no closure lives as long as
// an attempt does.
func succeeded() (struct{}, error) { return struct{}{}, nil }
func failed() (struct{}, error)    { return struct{}{}, errFailed }

// finished takes what became of an attempt that began closed.
func (b *Breaker) finished(p Permit, outcome Outcome) {
	if p.phase.rules.full != nil { // it holds a place in flight
		b.flying.give(p.began)
	}
	switch {
	case outcome == Success && p.phase == b.phase() && !b.slow(p.phase, p.began):
		p.block.Add(true)
		p.phase.streak.end()
	case outcome == Success, outcome == Failure:
		b.count(p, outcome == Success)
	}
}

// count takes the result of an attempt that began closed, where more than a counter may have to change.
func (b *Breaker) count(p Permit, success bool) {
	if b.phase().era != p.phase.era {
		return // and will never be
	}
	b.mu.Lock()
	defer b.unlock()
	now := b.phase()
	if now.era != p.phase.era {
		return
	}
	if now.ring != p.phase.ring {
		p.block = now.ring.At(p.began - now.start)
	}
	slow := b.slow(now, p.began)
	if slow {
		p.block.AddSlow(success)
	} else {
		p.block.Add(success)
	}
	b.row = 0
	switch {
	case success:
		now.streak.end()
	case now.streak != nil:
		b.row = now.streak.failures.Add(1)
	}
	if !success || slow {
		b.tell(failed)
	}
}

// ask lets the rule decide without a new result. mu is held, and the breaker is closed.
func (b *Breaker) ask(p *phase) {
	b.row = 0
	if p.streak != nil {
		b.row = p.streak.failures.Load()
	}
	b.tell(failed)
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
		_ = b.cb.State() // reading it makes it half-open
		p = b.phase()
	}
	switch p.state {
	case Closed:
		return b.admit(p, now)
	case Open:
		return Permit{}, p.err
	}
	i, s := p.probes.find(now)
	if s == nil {
		return Permit{}, p.err
	}
	b.land(s)
	full := p.rules.full
	if full != nil && !b.flying.take(now, full.MaxInFlight) {
		p.probes.tally()
		return Permit{}, full
	}
	return Permit{phase: p, began: now, probe: p.probes.take(i, now, p.rules.probeTimeout, full != nil)}, nil
}

// land gives back the place in flight of the probe in a slot, if it still has one. mu is held.
func (b *Breaker) land(s *slot) {
	if s.flying {
		s.flying = false
		b.flying.give(s.began)
	}
}

// probed takes the result of a probe.
func (b *Breaker) probed(p Permit, outcome Outcome) {
	b.mu.Lock()
	defer b.unlock()
	ps := p.phase.probes
	s := ps.held(p.probe)
	if s == nil {
		return // reported before, or too late: the permit is somebody else's by now
	}
	b.land(s)
	s.state = slotFree
	now := b.phase()
	if now.era != p.phase.era {
		return
	}
	switch {
	case outcome == Failure, outcome == Success && b.slow(now, p.began):
		b.tell(failed)
	case outcome == Success:
		s.state = slotDone
	}
	ps.tally()
	if s.state == slotDone && ps.enough() {
		b.tell(succeeded)
	}
}

// follow begins the phase that gobreaker has just turned to. gobreaker calls it under its own lock, and mu is held.
func (b *Breaker) follow(to gobreaker.State) {
	was := b.phase()
	switch to {
	case gobreaker.StateOpen:
		b.begin(Open, was.rules)
	case gobreaker.StateHalfOpen:
		b.begin(HalfOpen, was.rules)
	default:
		b.begin(Closed, was.rules)
	}
	b.changed(was.state)
}

// changed notes a change of state for onChange. mu is held.
func (b *Breaker) changed(from State) {
	if to := b.phase().state; b.onChange != nil && to != from {
		b.pending = append(b.pending, change{from, to})
	}
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
