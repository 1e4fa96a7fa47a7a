package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Call is one logical outbound call to one dependency, with its attempts. It belongs to the goroutine that makes the
// call; only what inner layers report may come from others. It is part of an adapter's per-call state and must not be
// copied.
type Call struct {
	dep     *Dependency
	policy  *Policy // what the request's catalog says about dep; the call ends with it
	in      *Inbound
	parent  context.Context
	learned *operation
	repeats profiles.Repeats // what the profile says about a call that repeats a failed one; RepeatsCount for any other
	outer   *Call            // the layer above that decides (I7); nil for the one that does
	options CallOptions

	// Result is what came of the latest attempt; the adapter writes it before Done.
	Result Result

	attempts int
	granted  bool        // a chain token is reserved for the coming attempt
	funded   bool        // a retry is reserved in the dependency's bucket
	paced    bool        // and in the process's limit
	pacedBy  bool        // and in the profile's
	dropped  bool        // nobody waits for the attempt's outcome any more
	hedged   uint8       // hedges sent
	unlent   bool        // the attempt lends nothing
	holdout  bool        // the attempt is one that ownership refused
	streams  bool        // an answer began that goes on for long
	written  atomic.Bool // this attempt's wire is on the request, and no inner layer has passed it on
	lease    lease
	nonce    otelprop.Nonce
	permit   breaker.Permit
	started  time.Time
	answer   time.Duration // of a stream: how long after the start of the attempt it began
	end      *time.Time    // when the whole call must be over by its profile; nil = no limit
	race     *race         // that the attempt is part of; nil for a call that does not hedge, and for the call that decides
	trouble  *trouble      // made when an attempt fails or is refused

	peer     atomic.Pointer[string] // whom the previous attempt talked to, where the adapter knows
	reported atomic.Pointer[Report] // what an inner layer for the same dependency saw
}

// trouble is what a call remembers once an attempt has failed or was refused. Most calls never need it: it would be a
// third of their size.
type trouble struct {
	decision       Decision
	before         int   // tokens held when the decision was asked for
	paid           int64 // what the latest retry took from the dependency's bucket
	previousErr    error
	previousStatus int
	owners         []string // whose failures were retried in this call
	two            [2]string
	denied         ownership.DeniedError // what Finish returns
}

// inTrouble returns what the call remembers, to be written.
func (c *Call) inTrouble() *trouble {
	if c.trouble == nil {
		c.trouble = new(trouble)
	}
	return c.trouble
}

// CallOptions is what an adapter knows about a call before it begins.
type CallOptions struct {
	// Operation identifies what the call asks of the dependency, Shape the kind of that; 0 if it is not known.
	Operation, Shape uint64
	// MaxAttempts is a limit of the call's own, below the profile's; 0 = none.
	MaxAttempts int
	// Idempotent says that the request may run twice, Replayable that it can be sent twice.
	Idempotent, Replayable bool
	// External says that the request leaves the fleet: it carries nothing, and what comes back is not believed.
	External bool
	// Wireless says that the adapter has no wire: attempts neither lend nor expect a return.
	Wireless bool
	// Later says that Operation is not known yet: [Call.Ask] says it, before the first attempt is admitted.
	Later bool
	// Alone says that two attempts must not run at once, although the request can be sent twice.
	Alone bool
}

// Report is what an inner layer for the same dependency tells the layer that decides.
type Report struct {
	Claim ownership.Claim
	Owner string
	Depth int
}

// Begin starts a call within the request or chain that ctx belongs to. in and p are what [Dependency.Enter] returned.
func (c *Call) Begin(ctx context.Context, in *Inbound, p *Policy, o CallOptions) {
	dep := p.dep
	c.dep, c.policy, c.parent, c.options = dep, p, ctx, o
	c.learned = dep.operations.find(o.Shape)
	c.in = in
	if above, _ := ctx.Value(ctxkey.Call{}).(*Call); above != nil && above.dep == dep {
		c.outer = above
	}
	if c.in == nil {
		c.in = dep.sdk.orphan(p.generation)
	}
	c.in.callees.add(dep)
	if c.outer != nil {
		return
	}
	p.counters.calls.Add(1)
	if !o.Later {
		c.lookForRepeat()
	}
	if p.fundedByRequests() {
		p.bucket.requested(c.in.now(), p.deposit)
	}
}

// lookForRepeat notes whether the call repeats a failed one of its request.
func (c *Call) lookForRepeat() {
	operation := c.options.Operation
	if !c.in.failedBefore(c.dep.name, operation) {
		return
	}
	c.policy.counters.repeated.Add(1)
	if operation != 0 { // what is not known may be another one
		c.repeats = c.policy.profile.Retry.Repeats
	}
}

// Inner reports whether a layer above decides for this dependency: this one makes one attempt and refuses nothing.
func (c *Call) Inner() bool { return c.outer != nil }

// Policy returns what holds for the call.
func (c *Call) Policy() *Policy { return c.policy }

// Dependency returns what is called.
func (c *Call) Dependency() *Dependency { return c.dep }

// Inbound returns the request or chain that pays for the call.
func (c *Call) Inbound() *Inbound { return c.in }

// Attempts returns how many attempts have been admitted.
func (c *Call) Attempts() int { return c.attempts }

// Now is time.Now for what belongs to the call. It mostly reads one clock where time.Now reads two.
func (c *Call) Now() time.Time {
	if c.started.IsZero() {
		return c.in.now()
	}
	return c.started.Add(time.Since(c.started))
}

// Parent returns the caller's context.
func (c *Call) Parent() context.Context { return c.parent }

// Admit asks the breaker for the next attempt and counts it. A refusal by it is [ownership.ReasonBreakerOpen], and a
// reserved token goes back; a call that repeats a failed one may be refused by its profile. now is the moment at which the attempt starts.
func (c *Call) Admit(now time.Time) (ownership.Reason, error) {
	if c.outer != nil {
		c.attempts++
		c.started = now
		return ownership.ReasonAllowed, nil
	}
	if c.attempts == 0 {
		if total := c.policy.profile.Retry.Timeout; total > 0 {
			end := now.Add(total)
			c.end = &end
		}
		if reason := c.admitRepeat(); reason != ownership.ReasonAllowed {
			return reason, nil
		}
	}
	if c.attempts == 0 && c.policy.throttle != nil && c.policy.breaker.Refuses() == nil { // a retry was asked about before its wait
		if err := c.throttles(now); err != nil {
			c.giveBack()
			return ownership.ReasonBreakerOpen, err
		}
	}
	permit, err := c.allow(now)
	if err != nil {
		c.giveBack()
		return ownership.ReasonBreakerOpen, err
	}
	c.count(permit, now)
	if c.attempts == 1 {
		return ownership.ReasonAllowed, nil
	}
	c.inTrouble().paid = c.cost()
	c.retriedOwner(c.Result.Owner)
	c.record()
	c.forget()
	return ownership.ReasonAllowed, nil
}

// count makes an attempt that may go out the latest one.
func (c *Call) count(permit breaker.Permit, now time.Time) {
	c.permit = permit
	c.policy.throttle.asked(now)
	c.attempts++
	c.started = now
	counters := c.policy.counters
	counters.attempts.Add(1)
	if c.granted { // what a milder mode let through is no retry of the chain
		c.in.retries.Add(1)
		if entry := c.entryCounters(); c.Decision().hedge {
			entry.hedges.Add(1)
		} else {
			entry.retries.Add(1)
		}
		c.dep.sdk.counters.retriesByHop[min(c.in.hop, otelprop.MaxHop)].Add(1)
	}
	if c.holdout = c.attempts > 1 && c.Decision().holdout; c.holdout {
		counters.holdout.Add(1)
	}
	c.spend(now)
	c.granted, c.unlent = false, false
}

// Repeat admits one more sending of the latest attempt: not a retry of ours, but a replay that the transport below wanted
// and that was stopped because it carried a lease. It carries none, so that whatever repeats it brings nothing twice.
func (c *Call) Repeat(now time.Time) (ownership.Reason, error) {
	var permit breaker.Permit
	if c.outer == nil {
		var err error
		if permit, err = c.allow(now); err != nil {
			return ownership.ReasonBreakerOpen, err
		}
	}
	c.permit, c.started, c.unlent = permit, now, true
	c.forget()
	return ownership.ReasonAllowed, nil
}

// forget makes the latest attempt the previous one.
func (c *Call) forget() {
	t := c.inTrouble()
	t.previousErr, t.previousStatus = c.Result.Err, c.Result.Status
	c.Result = Result{}
	c.reported.Store(nil)
}

// Previous returns the previous attempt's HTTP status, peer and error.
func (c *Call) Previous() (status int, peer string, err error) {
	if p := c.peer.Load(); p != nil && c.attempts > 1 {
		peer = *p
	}
	if t := c.trouble; t != nil {
		status, err = t.previousStatus, t.previousErr
	}
	return status, peer, err
}

// TalkedTo notes the peer of an attempt that has failed.
func (c *Call) TalkedTo(peer string) { c.peer.Store(&peer) }

// deadline is when the whole call must be over: the caller's deadline, or the end that its profile sets.
func (c *Call) deadline() (time.Time, bool) {
	deadline, limited := c.parent.Deadline()
	if c.end != nil && (!limited || c.end.Before(deadline)) {
		return *c.end, true
	}
	return deadline, limited
}

// AttemptLimit returns the profile's limit for an attempt that starts now, unless the caller's own deadline is sooner: its
// own, or what is left of the whole call's. It may be asked before the first attempt is admitted.
func (c *Call) AttemptLimit(now time.Time) (limit time.Duration, ok bool) {
	limit = c.policy.profile.Retry.AttemptTimeout
	left := c.policy.profile.Retry.Timeout
	if c.end != nil {
		left = max(c.end.Sub(now), 1)
	}
	if left > 0 && (limit <= 0 || left < limit) {
		limit = left
	}
	if limit <= 0 || c.outer != nil {
		return 0, false
	}
	if deadline, limited := c.parent.Deadline(); limited && deadline.Sub(now) <= limit {
		return 0, false
	}
	return limit, true
}

// admitRepeat asks the profile about a call that repeats a failed one of the same request: a caller's own loop around
// the SDK is retrying. Charged, the call is a retry and needs a token; it does not wait for one.
func (c *Call) admitRepeat() ownership.Reason {
	if c.policy.mode == profiles.ModeObserve {
		return ownership.ReasonAllowed
	}
	switch c.repeats {
	case profiles.RepeatsRefuse:
		return ownership.ReasonMaxAttempts
	case profiles.RepeatsCharge:
		if c.dep.disabled.Load() {
			return ownership.ReasonDisabled // it would count as a retry, of which there are to be none
		}
		switch c.in.reserve() {
		case reserved:
			c.granted = true
		case settled:
			return ownership.ReasonSettled
		default:
			return ownership.ReasonChainExhausted
		}
	}
	return ownership.ReasonAllowed
}

// Abandon gives back what was reserved for the next attempt, when something breaks between the decision and the attempt.
func (c *Call) Abandon() { c.giveBack() }

// giveBack returns what was reserved for an attempt that does not go out.
func (c *Call) giveBack() {
	if c.granted {
		c.granted = false
		c.in.refund()
	}
	c.refundBuckets()
}

// Lend moves what the attempt may use into its lease and returns the attempt's wire: one string whose first memberLen
// bytes are the baggage member, and whose bytes after the member's key are the header. left is what is left of the
// attempt's time, 0 if it has no limit. Nothing is lent without a wire.
func (c *Call) Lend(left time.Duration) (wire string, memberLen int) {
	in, dep, profile := c.in, c.dep, c.policy.profile
	c.nonce = otelprop.Nonce(dep.sdk.nonce())
	c.lease = lease{slot: -1}
	if !c.unlent && !c.hedges() && !c.learned.needsNoLease() {
		c.lease = in.lend(profile.Retry.Reserve, dep)
		if n := c.lease.tokens; n > 0 {
			c.policy.counters.lent.Add(int64(n))
		}
	}
	ordinal := c.attempts
	if c.outer != nil {
		ordinal = c.outer.attempts
	}
	r := otelprop.Request{
		Grant: c.lease.tokens, Limit: max(in.limit, c.lease.tokens), Hop: min(in.hop+1, otelprop.MaxHop), Nonce: c.nonce, Entry: in.entry,
		Attempt: uint8(min(ordinal, otelprop.MaxAttempt)), Timeout: left,
	}
	var buf [otelprop.MaxHeader + otelprop.MaxMember]byte
	b, n := r.AppendWireWith(buf[:0], &c.policy.params)
	return string(b), n
}

// Lent returns the tokens that the attempt carries, and its nonce.
func (c *Call) Lent() (int, otelprop.Nonce) { return int(c.lease.tokens), c.nonce }

// MarkWritten says that the attempt's wire is on the request: an inner layer that gets it passes it on once.
func (c *Call) MarkWritten() { c.written.Store(true) }

// Done settles an attempt. It is called exactly once for each admitted attempt, with c.Result set.
func (c *Call) Done(now time.Time) {
	dep, r := c.dep, &c.Result
	c.written.Store(false)
	if c.race != nil {
		c.race.settle(c)
	}
	c.settle()
	if !c.MayRepeat() && !r.Unsent || r.Effects {
		if effects := &c.in.Tracker.Effects; !effects.Load() {
			effects.Store(true)
		}
	}
	if c.outer != nil {
		c.outer.reported.Store(&Report{Claim: r.Claim, Owner: r.Owner, Depth: r.Depth})
		return
	}
	outcome := r.outcome()
	c.policy.breaker.Done(&c.permit, outcome)
	dep.tell(c.parent, now)
	if t := dep.tally.Load(); t != nil {
		t.count(outcome, now.Sub(c.started), c.policy.profile.Breaker.SlowCall)
	}
	c.policy.throttle.answered(now, r)
	failed, counters, took := r.Failed, c.policy.counters, c.took(now)
	if failed || !r.Canceled {
		counters.end(took)
	}
	if failed {
		counters.claims.at(dep.ownerLabel(r.Owner))[r.Claim].Add(1)
		c.charge()
		if c.holdout {
			counters.holdoutFailed.Add(1)
		}
	} else if !r.Canceled {
		dep.latency.add(took)
		c.payIn()
		if c.holdout {
			counters.holdoutSucceeded.Add(1)
		}
	}
	silent := r.Excluded && r.Status == 0 // the dependency had nothing to do with it: the caller's body, a stopped replay
	if c.attempts == 1 && !r.Canceled && !silent {
		dep.floor.add(now, !failed)
	}
}

// payIn pays a success into the dependency's bucket.
func (c *Call) payIn() {
	p, b := c.policy, c.policy.bucket
	if b == nil {
		return
	}
	switch {
	case b.kind == profiles.BudgetRatio && p.profile.Budget.Fund == profiles.FundSuccesses:
		b.add(p.deposit)
	case b.kind == profiles.BudgetQuota && c.attempts == 1:
		b.add(wholeToken)
	case b.kind == profiles.BudgetQuota:
		b.add(c.inTrouble().paid) // the last retry's cost comes back
	case b.kind == profiles.BudgetThrottle && !c.Result.Excluded: // an answer that is no success pays nothing
		b.add(p.deposit)
	}
}

// charge takes a failure off a bucket that failures drain: one that a retry is for, or that asked for none, as gRPC does.
func (c *Call) charge() {
	if b := c.policy.bucket; b != nil && b.kind == profiles.BudgetThrottle && (c.Result.Retryable || c.Result.Pushback) {
		b.charge(wholeToken)
	}
}

// MayRepeat reports whether somebody who knows said that the request may run twice: this layer or the one that decides.
func (c *Call) MayRepeat() bool {
	return c.options.Idempotent || c.outer != nil && c.outer.options.Idempotent
}

// settle takes the lease home.
func (c *Call) settle() {
	in, dep, r := c.in, c.dep, &c.Result
	lent := int(c.lease.tokens)
	switch {
	case r.HasReturn:
		in.settle(&c.lease, int(r.Return.Returned), int(r.Return.Retries))
		c.policy.counters.home.Add(int64(r.Return.Returned))
	case r.Unsent:
		in.home(&c.lease)
		c.policy.counters.home.Add(int64(lent))
	default:
		in.lose(&c.lease)
		if lent > 0 {
			dep.sdk.counters.lost.Add(int64(lent))
		}
	}
	if !c.options.Wireless && !c.options.External && !r.Canceled && !r.Unsent {
		c.learned.observe(!r.Failed, r.HasReturn, r.Return.Leaf)
	}
}

// Reported returns what an inner layer for the same dependency saw of the attempt, or nil.
func (c *Call) Reported() *Report { return c.reported.Load() }

// Result is what came of one attempt.
type Result struct {
	// Err is the attempt's error, Status its HTTP status, 0 without a response.
	Err    error
	Status int
	// Failed says that the dependency failed. Canceled says that the attempt was given up for a reason other than time.
	Failed, Canceled bool
	// Retryable says that a failure of this kind may go away, Throttled that the callee asked for less load.
	Retryable, Throttled bool
	// Unsent says that the request provably never reached the callee, Unprocessed that the callee says that it did
	// nothing: either may be repeated whatever it is.
	Unsent, Unprocessed bool
	// Excluded says that the attempt tells nothing about the dependency's health.
	Excluded bool
	// Pushback says that the callee asked for no retry. Hint is how long it asked to wait, HasHint that it did.
	Pushback, HasHint bool
	// HasReturn says that the callee sent a return, which is Return. Effects says that it, or one below it, sent something
	// that must not run twice.
	HasReturn, Effects bool
	// Claim and Owner are the failure's; the owner of a failure without a claim is the dependency.
	Claim ownership.Claim
	Owner string
	// Depth is how many hops below the owner is, 1 for the callee itself.
	Depth  int
	Hint   time.Duration
	Return otelprop.Return
}

// Returned takes over a return that the codec has accepted.
func (r *Result) Returned(ret otelprop.Return) {
	r.HasReturn, r.Return, r.Effects = true, ret, ret.Effects
}

// Judge sets claim and owner once Failed is known.
func (r *Result) Judge(dep *Dependency) {
	r.Owner, r.Depth = dep.slug, 1
	if r.HasReturn && r.Return.Claim != ownership.ClaimNone {
		r.Claim = r.Return.Claim
		if r.Return.Owner != "" {
			r.Owner, r.Depth = r.Return.Owner, 1+int(r.Return.Depth)
		}
	}
}

// outcome is what the breaker learns.
func (r *Result) outcome() breaker.Outcome {
	switch {
	case r.Canceled, r.Excluded:
		return breaker.Ignored
	case r.Failed:
		return breaker.Failure
	default:
		return breaker.Success
	}
}
