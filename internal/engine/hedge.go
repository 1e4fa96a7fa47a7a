package engine

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// ErrLost is the cause of an attempt that was given up because another one of its call has answered.
var ErrLost = errors.New("chainbudget: another attempt of the same call has answered first")

// Racer is an adapter's state of one attempt of a call that hedges.
type Racer interface {
	// Leg returns the attempt's own Call.
	Leg() *Call
	// Run makes the attempt and settles it with Done. It runs on a goroutine of its own.
	Run()
	// Discard is called in place of Run for an attempt that does not go out after all.
	Discard()
}

// hedges reports whether attempts of the call may run beside each other. Such a call lends nothing: of two attempts that
// spend one purse nobody could say what the slower one has left.
func (c *Call) hedges() bool {
	for c.outer != nil {
		c = c.outer
	}
	o := &c.options
	return c.policy.profile.Hedge.Enabled() && o.Idempotent && o.Replayable && !o.Alone
}

// CanHedge reports whether the attempt that was just admitted may get another one beside it, so that it has to be made
// with [Call.Race].
func (c *Call) CanHedge() bool {
	h := &c.policy.profile.Hedge
	return h.Enabled() && c.outer == nil && c.hedges() && int(c.hedged) < h.Max && c.attempts < c.maxAttempts() &&
		c.Decision().would == ownership.ReasonAllowed // not beside a retry that only a milder mode, or the holdout, let through
}

// Race makes the admitted attempt, and starts hedges beside it while no answer comes and every gate allows. It returns the
// attempt that decided the race, and c.Result is then what the race came to: of the first attempt that did not fail, which
// has canceled the others, or of the last one that failed. Only the returned attempt's state may be looked at: the others
// may still be running. next makes the state of one more attempt; its error says that the request cannot be sent again.
//
// An attempt that panics or ends its goroutine does so to Race's caller; one that has lost does it to nobody.
func (c *Call) Race(first Racer, next func() (Racer, error)) Racer {
	h := &c.policy.profile.Hedge
	r := &race{call: c, ends: make(chan end, 1+h.Max), running: 1}
	returned := false
	defer func() {
		if !returned { // a panic passes through, an attempt's or an observer's
			c.giveBack()
			r.abort(nil)
		}
	}()
	r.start(first)
	timer := time.NewTimer(h.After)
	defer timer.Stop()
	for {
		select {
		case e := <-r.ends:
			if !e.returned && r.abort(e.racer.Leg()) {
				if e.panicked == nil {
					runtime.Goexit()
				}
				panic(e.panicked)
			}
			if r.decides(e.racer.Leg()) {
				r.conclude(e.racer.Leg())
				returned = true
				return e.racer
			}
		case <-timer.C:
			if r.hedge(next) && c.CanHedge() {
				timer.Reset(h.After)
			}
		}
	}
}

// race is one call's attempts beside each other. Each attempt is a Call of its own for what belongs to one attempt only;
// the call itself is the one that decides.
type race struct {
	call *Call
	ends chan end // room for all

	mu       sync.Mutex
	running  int
	over     bool  // decided, or given up: what comes later has lost
	winner   *Call // nil = none, or nobody waits for it
	contexts []*Attempt
	failed   []failure
	enough   bool // a failure said that more attempts are of no use, or not wanted
}

// end is the end of one attempt's goroutine.
type end struct {
	racer    Racer
	returned bool
	panicked any
}

// failure is what the race remembers of an attempt that failed.
type failure struct {
	attempt int
	result  Result
	gate    ownership.Reason // ownership's own refusal
}

// start runs an admitted attempt on a goroutine of its own.
func (r *race) start(l Racer) {
	r.call.branch(l.Leg(), r)
	go r.run(l)
}

func (r *race) run(l Racer) {
	e := end{racer: l}
	defer func() {
		if !e.returned {
			e.panicked = recover() // nil = the attempt ended its goroutine
			if r.lost(l.Leg()) && e.panicked != nil {
				sdk := r.call.dep.sdk
				sdk.warnOnce("panic:"+r.call.dep.name, "chainbudget: an attempt panicked after another one of its call had answered",
					"dependency", r.call.dep.name, "panic", e.panicked)
			}
		}
		r.ends <- e
	}()
	l.Run()
	e.returned = true
}

// branch makes leg the attempt that c has just admitted.
func (c *Call) branch(leg *Call, r *race) {
	leg.race = r
	leg.dep, leg.policy, leg.in, leg.parent, leg.learned, leg.options = c.dep, c.policy, c.in, c.parent, c.learned, c.options
	leg.attempts, leg.unlent, leg.started, leg.end, leg.holdout = c.attempts, c.unlent, c.started, c.end, c.holdout
	leg.permit, c.permit = c.permit, breaker.Permit{}
	if t := c.trouble; t != nil {
		leg.trouble = &trouble{paid: t.paid, previousErr: t.previousErr, previousStatus: t.previousStatus}
	}
	leg.peer.Store(c.peer.Load())
}

// join makes an attempt's context one that the race can cancel.
func (r *race) join(a *Attempt) {
	r.mu.Lock()
	r.contexts = append(r.contexts, a)
	over := r.over
	r.mu.Unlock()
	if over {
		a.Cancel(ErrLost)
	}
}

// settle says what an attempt's result is worth in the race, before anything is counted. The first that did not fail
// wins; whatever comes after it was canceled, whether it came to something or not.
func (r *race) settle(leg *Call) {
	r.mu.Lock()
	r.running--
	result := &leg.Result
	switch {
	case r.over:
		leg.dropped = true
		result.Failed, result.Canceled = false, true
	case !result.Failed && !result.Canceled:
		r.over, r.winner = true, leg
	default:
		leg.dropped = r.running > 0
		gate := leg.claimGate()
		r.failed = append(r.failed, failure{leg.attempts, *result, gate})
		r.enough = r.enough || result.Canceled || !result.Retryable || result.Pushback || result.HasHint || result.Throttled ||
			gate != ownership.ReasonAllowed
	}
	losers := r.losers(leg)
	r.mu.Unlock()
	cancelAll(losers)
}

// losers returns the contexts of all others, once the race is over. The lock is held.
func (r *race) losers(leg *Call) (contexts []*Attempt) {
	if !r.over {
		return nil
	}
	for _, a := range r.contexts {
		if a.call != leg {
			contexts = append(contexts, a)
		}
	}
	r.contexts = nil
	return contexts
}

func cancelAll(contexts []*Attempt) {
	for _, a := range contexts {
		a.Cancel(ErrLost)
	}
}

// abort ends a race that nobody won, and reports whether it did: one that another attempt than leg has won goes on.
func (r *race) abort(leg *Call) bool {
	r.mu.Lock()
	if r.winner != nil && leg != nil && r.winner != leg {
		r.mu.Unlock()
		return false
	}
	r.over = true
	losers := r.losers(nil)
	r.mu.Unlock()
	cancelAll(losers)
	return true
}

// lost reports whether nobody waits for an attempt.
func (r *race) lost(leg *Call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over && r.winner != leg
}

// decides reports whether the race ends with an attempt: it won, or it failed as the last one.
func (r *race) decides(leg *Call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.winner == leg || r.winner == nil && !leg.dropped
}

// enter reports whether one more attempt is of use, and counts it as running.
func (r *race) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.useful() {
		return false
	}
	r.running++
	return true
}

// open reports whether one more attempt would be of use now.
func (r *race) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.useful()
}

// useful reports whether one more attempt could decide the race. The lock is held.
func (r *race) useful() bool { return !r.over && !r.enough && r.running > 0 }

// hedge decides about one more attempt and starts it. A refusal is final: a call whose hedge was refused waits for what it
// has.
func (r *race) hedge(next func() (Racer, error)) bool {
	c := r.call
	if !r.open() || !c.decideHedge(c.Now()) {
		return false
	}
	l, err := next()
	if err != nil {
		c.refuseHedge(ownership.ReasonNotReplayable, err)
		return false
	}
	now := c.Now()
	permit, err := c.allow(now)
	if err != nil {
		l.Discard()
		c.refuseHedge(ownership.ReasonBreakerOpen, err)
		return false
	}
	if !r.enter() { // an answer has come meanwhile
		l.Discard()
		c.policy.breaker.Done(&permit, breaker.Ignored)
		c.giveBack()
		c.Result = Result{}
		return false
	}
	c.hedged++
	c.inTrouble().paid = c.cost()
	c.count(permit, now)
	c.Result = Result{Claim: ownership.ClaimNone} // nothing has failed
	c.record()
	c.Result = Result{}
	r.start(l)
	return true
}

// decideHedge asks every gate about an attempt beside the ones that run, and reserves what it costs.
func (c *Call) decideHedge(now time.Time) bool {
	t := c.inTrouble()
	t.before = c.in.held()
	t.decision = Decision{hedge: true}
	c.Result = Result{Retryable: true, Claim: ownership.ClaimNone} // nothing has failed; whether more attempts are of use, the race knows
	c.askForHedge(now)
	if !t.decision.Allowed() {
		c.record()
		c.Result = Result{}
	}
	return t.decision.Allowed()
}

func (c *Call) askForHedge(now time.Time) {
	d := &c.inTrouble().decision
	c.gates()
	if !d.Allowed() {
		return
	}
	if c.policy.mode == profiles.ModeObserve && d.would != ownership.ReasonAllowed {
		// A retry that a milder mode lets through shows what enforcing would cost. A hedge answers no failure: without
		// it the call is what it is when hedges are off.
		d.Reason, d.would = d.would, ownership.ReasonAllowed
		return
	}
	if c.in.peek() != reserved { // it does not wait for a lease: its moment would be over
		d.Reason = ownership.ReasonChainExhausted
		return
	}
	if deadline, limited := c.deadline(); limited {
		if left := deadline.Sub(now); left <= 0 || left < c.dep.latency.typical() {
			d.Reason = ownership.ReasonDeadline
			return
		}
	}
	if err := c.throttles(now); err != nil { // last: it counts what it refuses
		d.Reason, c.Result.Err = ownership.ReasonBreakerOpen, err
		return
	}
	c.reserve()
	if d.waits {
		d.waits = false
		d.Reason = ownership.ReasonChainExhausted
	}
}

// refuseHedge ends a hedge that was allowed and does not go out.
func (c *Call) refuseHedge(reason ownership.Reason, err error) {
	c.giveBack()
	c.Result.Err = err
	c.inTrouble().decision.Reason = reason
	c.record()
	c.Result = Result{}
}

// conclude makes c.Result what the race came to. Where several attempts failed, that is the last one's failure, with the
// most restrictive of what they said: one that must not be retried is not retried because another one failed later.
func (r *race) conclude(leg *Call) {
	c := r.call
	c.Result = leg.Result
	c.peer.Store(leg.peer.Load())
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.Result.Failed {
		return
	}
	worst := restricts(leg.claimGate())
	for i := range r.failed {
		f := &r.failed[i].result
		if !f.Failed {
			continue
		}
		if n := restricts(r.failed[i].gate); n > worst {
			worst = n
			c.Result.Claim, c.Result.Owner, c.Result.Depth = f.Claim, f.Owner, f.Depth
		}
		c.Result.Retryable = c.Result.Retryable && f.Retryable
		c.Result.Pushback = c.Result.Pushback || f.Pushback
		c.Result.Throttled = c.Result.Throttled || f.Throttled
		if f.HasHint && (!c.Result.HasHint || f.Hint > c.Result.Hint) {
			c.Result.HasHint, c.Result.Hint = true, f.Hint
		}
		if r.failed[i].attempt < c.attempts { // a later attempt went to the same place: this owner's failure was retried
			c.retriedOwner(f.Owner)
		}
	}
}

// restricts orders ownership's refusals by what they forbid.
func restricts(gate ownership.Reason) int {
	switch gate {
	case ownership.ReasonStop:
		return 2
	case ownership.ReasonUnclaimed:
		return 1
	default:
		return 0
	}
}

// Dropped reports, after Done, whether nobody will look at what the attempt came to: its response is the adapter's to
// close.
func (c *Call) Dropped() bool { return c.dropped }
