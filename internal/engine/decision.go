package engine

import (
	"context"
	"slices"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Decision is the answer to one failed attempt: may there be another, and when. It is a value; deciding allocates
// nothing.
type Decision struct {
	// Reason is [ownership.ReasonAllowed], or the gate that refused.
	Reason ownership.Reason
	// Delay is the drawn backoff, 0 where a refusal came before it was drawn.
	Delay time.Duration

	waits    bool             // no token is reserved yet: one may come home
	hedge    bool             // it is about an attempt beside those that run, not about a failed one
	holdout  bool             // ownership refused, and the retry goes out to see what comes of it
	protects bool             // a protecting gate refused, or would have had a gate without a verdict not refused first
	would    ownership.Reason // what a milder mode let through
	until    time.Time
	bound    time.Duration // how long a lease may be waited for
}

// Allowed reports whether another attempt may go out.
func (d *Decision) Allowed() bool { return d.Reason == ownership.ReasonAllowed }

// Decide asks every gate, in order, whether the attempt that came to c.Result may be followed by another. If so, a token
// is reserved, unless the decision has to wait for one: see [Call.Await].
func (c *Call) Decide(now time.Time) bool {
	t := c.inTrouble()
	t.before = c.in.held()
	t.decision = Decision{}
	c.decide(now)
	if !t.decision.Allowed() {
		c.record()
	}
	return t.decision.Allowed()
}

func (c *Call) decide(now time.Time) {
	dep, p := c.dep, c.policy.profile
	d, r := &c.inTrouble().decision, &c.Result
	c.gates()
	if !d.Allowed() {
		return
	}
	chain := c.in.peek()
	observe := c.policy.mode == profiles.ModeObserve
	if (chain == settled || chain == exhausted) && !observe {
		d.Reason = ownership.ReasonChainExhausted // settled was asked for before
		return
	}
	if chain != reserved && observe {
		d.let(ownership.ReasonChainExhausted)
	}
	ceiling := p.Backoff.Ceiling(c.attempts-1, r.Throttled)
	if r.HasHint {
		d.Delay = p.Backoff.After(r.Hint, c.attempts-1, r.Throttled, dep.sdk.random)
	} else {
		d.Delay = p.Backoff.Delay(c.attempts-1, r.Throttled, dep.sdk.random)
	}
	typical := dep.latency.typical()
	deadline, limited := c.deadline()
	left := deadline.Sub(now)
	if limited && (left <= 0 || left < d.Delay+typical) {
		d.Reason = ownership.ReasonDeadline
		return
	}
	d.until = now.Add(d.Delay)
	d.bound = max(ceiling, 2*c.in.slowest())
	if limited {
		d.bound = min(d.bound, left-typical)
	}
	if err := c.throttles(now); err != nil { // last: it counts what it refuses, which must be what would have gone out
		d.Reason, d.protects, r.Err = ownership.ReasonBreakerOpen, true, err
		return
	}
	switch {
	case observe && d.would != ownership.ReasonAllowed: // it would have been refused: it spends nothing of the chain
		c.takeBuckets()
	case chain == mayComeHome:
		d.waits = true
	default:
		c.reserve()
	}
}

// let notes a refusal that the mode lets through; the first one counts.
func (d *Decision) let(reason ownership.Reason) {
	if d.would == ownership.ReasonAllowed {
		d.would = reason
	}
}

// reserve takes the buckets' tokens and the chain's. Either may be gone since it was looked at.
func (c *Call) reserve() {
	d := &c.inTrouble().decision
	if !c.takeBuckets() {
		return
	}
	switch c.in.reserve() {
	case reserved:
		c.granted = true
		return
	case mayComeHome:
		d.waits = true
	case settled:
		d.Reason = ownership.ReasonSettled
	case exhausted:
		d.Reason = ownership.ReasonChainExhausted
	}
	c.refundBuckets()
}

// takeBuckets takes what the retry costs from the dependency's bucket, and one from the process's limit and the profile's.
func (c *Call) takeBuckets() bool {
	d, p := &c.inTrouble().decision, c.policy
	if !p.bucket.take(c.cost()) {
		d.Reason, d.protects = ownership.ReasonDependencyBudget, true
		return false
	}
	c.funded = true
	var allowed bool
	if allowed, c.paced = c.dep.sdk.process.take(); allowed {
		allowed, c.pacedBy = p.pacer.take()
	}
	if !allowed {
		c.refundBuckets()
		d.Reason, d.protects = ownership.ReasonProcessBudget, true
	}
	return allowed
}

func (c *Call) refundBuckets() {
	if c.funded {
		c.policy.bucket.refund(c.cost())
	}
	if c.paced {
		c.dep.sdk.process.refund()
	}
	if c.pacedBy {
		c.policy.pacer.refund()
	}
	c.funded, c.paced, c.pacedBy = false, false, false
}

// spend is the end of what was reserved: the attempt goes out.
func (c *Call) spend(now time.Time) {
	if c.funded {
		c.policy.bucket.sent(now)
	}
	if c.paced {
		c.dep.sdk.process.sent()
	}
	if c.pacedBy {
		c.policy.pacer.sent()
	}
	c.funded, c.paced, c.pacedBy = false, false, false
}

// cost is what the next retry takes from the dependency's bucket.
func (c *Call) cost() int64 {
	b := &c.policy.profile.Budget
	switch {
	case b.Kind != profiles.BudgetQuota:
		return wholeToken
	case c.Result.Throttled:
		return int64(b.ThrottledCost) * wholeToken
	default:
		return int64(b.Cost) * wholeToken
	}
}

// gates asks the gates that need no token.
func (c *Call) gates() {
	dep, d, r := c.dep, &c.inTrouble().decision, &c.Result
	if dep.disabled.Load() {
		d.Reason, d.protects = ownership.ReasonDisabled, true
		return
	}
	switch {
	case r.Canceled || c.parent.Err() == context.Canceled:
		d.Reason = ownership.ReasonCanceled
	case c.in.peek() == settled:
		if c.policy.mode == profiles.ModeObserve {
			d.let(ownership.ReasonSettled)
		} else {
			d.Reason = ownership.ReasonSettled
		}
	}
	// Canceled and settled give no verdict: whether the failure passes up depends on what the other gates say.
	rest := c.protecting()
	d.protects = rest.Protects()
	switch {
	case !d.Allowed():
	case rest != ownership.ReasonAllowed:
		d.Reason = rest
	case !c.options.Replayable:
		d.Reason = ownership.ReasonNotReplayable
	}
}

// protecting asks the gates from not_retryable to no_policy.
func (c *Call) protecting() ownership.Reason {
	dep, p, d, r := c.dep, c.policy.profile, &c.inTrouble().decision, &c.Result
	if !r.Retryable {
		return ownership.ReasonNotRetryable
	}
	if refusal := c.claimGate(); refusal != ownership.ReasonAllowed {
		if c.policy.mode == profiles.ModeEnforce {
			if !c.heldOut() {
				return refusal
			}
			d.holdout = true
		}
		d.let(refusal)
	}
	switch {
	case r.Pushback, r.HasHint && !p.Backoff.Follows(r.Hint):
		return ownership.ReasonPushback
	case !c.options.Idempotent && !r.Unsent && !r.Unprocessed:
		return ownership.ReasonNotIdempotent
	case c.policy.breaker.Refuses() != nil:
		return ownership.ReasonBreakerOpen
	}
	if dep.floor.refuses(p.AvailabilityFloor) {
		if c.policy.mode != profiles.ModeObserve {
			return ownership.ReasonAvailabilityFloor
		}
		d.let(ownership.ReasonAvailabilityFloor)
	}
	switch {
	case !c.policy.bucket.has(c.cost()):
		return ownership.ReasonDependencyBudget
	case !dep.sdk.process.has(), !c.policy.pacer.has():
		return ownership.ReasonProcessBudget
	case c.maxAttempts() <= 1:
		return ownership.ReasonNoPolicy
	case c.attempts >= c.maxAttempts():
		return ownership.ReasonMaxAttempts
	}
	return ownership.ReasonAllowed
}

// heldOut reports whether ownership's refusal is not followed this time, so that what it gives up can be measured.
func (c *Call) heldOut() bool {
	share := c.policy.generation.catalog.Chain.Holdout
	const parts = 1_000_000
	return share > 0 && c.dep.sdk.random(parts) < int64(share*parts)
}

// claimGate is ownership's own refusal.
func (c *Call) claimGate() ownership.Reason {
	switch c.Result.Claim {
	case ownership.ClaimStop:
		return ownership.ReasonStop
	case ownership.ClaimUnclaimed:
		return ownership.ReasonUnclaimed
	case ownership.ClaimMissing:
		if c.policy.profile.Retry.Missing == profiles.MissingStop {
			return ownership.ReasonStop
		}
	}
	return ownership.ReasonAllowed
}

// Await makes a decision that waits for a lease final: it returns true once a token is reserved, and false when none
// came home in time. A decision that does not wait is final already. Nothing of the failed attempt has to be given up
// before Await returns true.
func (c *Call) Await() bool {
	d := &c.inTrouble().decision
	if !d.Allowed() || !d.waits {
		return d.Allowed()
	}
	d.waits = false
	c.await()
	if d.Allowed() {
		now := time.Now()
		deadline, limited := c.deadline()
		if limited && deadline.Sub(now) < max(0, d.until.Sub(now))+c.dep.latency.typical() {
			c.giveBack()
			d.Reason = ownership.ReasonDeadline
		}
	}
	if !d.Allowed() {
		c.record()
	}
	return d.Allowed()
}

func (c *Call) await() {
	d := &c.inTrouble().decision
	timer := time.NewTimer(max(d.bound, 0))
	defer timer.Stop()
	for {
		newer := c.dep.sdk.news()
		if c.dep.disabled.Load() {
			d.Reason, d.protects = ownership.ReasonDisabled, true
			return
		}
		changed := c.in.watch()
		c.reserve()
		if c.granted || !d.Allowed() {
			d.waits = false
			return
		}
		select {
		case <-changed:
		case <-newer: // perhaps with its switch
		case <-timer.C:
			d.Reason = ownership.ReasonChainExhausted
		case <-c.parent.Done():
			d.Reason = gone(c.parent)
		}
		c.awake()
		if !d.Allowed() {
			return
		}
	}
}

// awake is called after each wait.
func (c *Call) awake() {
	if woken := c.dep.sdk.woken; woken != nil {
		woken(c.parent)
	}
}

// gone is the reason for a context that has ended.
func gone(ctx context.Context) ownership.Reason {
	if ctx.Err() == context.DeadlineExceeded {
		return ownership.ReasonDeadline
	}
	return ownership.ReasonCanceled
}

// Backoff sleeps what is left of the delay. It returns false if the caller went away meanwhile, or retries were disabled; the
// reserved token has then been given back.
func (c *Call) Backoff() bool {
	d := &c.inTrouble().decision
	if left := time.Until(d.until); left > 0 && !c.dep.sdk.noSleep {
		c.sleep(left)
		c.awake()
	}
	switch {
	case c.parent.Err() != nil:
		d.Reason = gone(c.parent)
	case c.dep.disabled.Load():
		d.Reason, d.protects = ownership.ReasonDisabled, true
	default:
		return true
	}
	c.giveBack()
	c.record()
	return false
}

// sleep returns when the time is over, the caller has gone, or retries were disabled.
func (c *Call) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		newer := c.dep.sdk.news()
		if c.dep.disabled.Load() {
			return
		}
		select {
		case <-timer.C:
			return
		case <-c.parent.Done():
			return
		case <-newer:
		}
	}
}

// Decision returns the latest decision; before the first one it is an allowance.
func (c *Call) Decision() Decision {
	if c.trouble == nil {
		return Decision{}
	}
	return c.trouble.decision
}

// retriedOwner remembers that a failure of this owner was retried in this call.
func (c *Call) retriedOwner(owner string) {
	if c.retried(owner) {
		return
	}
	t := c.inTrouble()
	if t.owners == nil {
		t.owners = t.two[:0]
	}
	t.owners = append(t.owners, owner)
}

func (c *Call) retried(owner string) bool {
	return c.trouble != nil && slices.Contains(c.trouble.owners, owner)
}

// Finish ends a call whose last attempt failed: it makes the error that the caller gets or can ask for, and records it
// with the request. A call that was canceled for a reason other than time is no failure of the request and is not
// recorded.
func (c *Call) Finish() *ownership.DeniedError {
	t, r := c.inTrouble(), &c.Result
	d, f := &t.decision, &t.denied
	*f = ownership.DeniedError{
		Reason: d.Reason, Dependency: c.dep.name, Owner: r.Owner, OwnerDepth: r.Depth, Claim: c.claim(), Attempts: c.attempts, Status: r.Status,
		RetryAfter: c.pace(), Operation: c.options.Operation, FailOpen: c.policy.failOpen,
		FailClosed: c.policy.failClosed, Err: r.Err,
	}
	if f.Owner == "" {
		f.Owner, f.OwnerDepth = c.dep.slug, 1
	}
	if r.Canceled {
		f.Claim = ownership.ClaimNone // no failure, and the cause of none
	} else if c.outer == nil {
		c.in.Tracker.Failed(f)
	}
	c.countPrevented()
	return f
}

// countPrevented counts the retries that the profile's own attempts would still have made where the SDK ends the call for
// the sake of others.
func (c *Call) countPrevented() {
	r, reason := &c.Result, c.Decision().Reason
	if c.outer != nil || !prevents[reason] || !c.options.Replayable {
		return
	}
	if c.attempts > 0 && !r.Retryable || !c.options.Idempotent && !(c.attempts > 0 && (r.Unsent || r.Unprocessed)) {
		return
	}
	c.policy.prevented(c.maxAttempts() - max(c.attempts, 1))
}

// prevented counts retries that would have gone out. A mode that only observes prevents nothing.
func (p *Policy) prevented(retries int) {
	if retries > 0 && p.mode != profiles.ModeObserve {
		p.counters.prevented.Add(int64(retries))
	}
}

// prevents says which refusals hold a retry back that could have been made: what is not in it, no policy would repeat
// any further.
var prevents = [reasonCount]bool{
	ownership.ReasonDisabled: true, ownership.ReasonSettled: true, ownership.ReasonStop: true, ownership.ReasonUnclaimed: true,
	ownership.ReasonBreakerOpen: true, ownership.ReasonAvailabilityFloor: true, ownership.ReasonDependencyBudget: true,
	ownership.ReasonProcessBudget: true, ownership.ReasonChainExhausted: true,
}

// entryCounters are the numbers of the call's profile for chains of its request's entry.
func (c *Call) entryCounters() *entryCounters { return c.policy.entryCounters(c.in.entry) }

func (p *Policy) entryCounters(entry string) *entryCounters {
	sdk, all := p.generation.sdk, &p.counters.entries
	if entry == sdk.entrySlug { // the usual case
		return all.at(sdk.labels.own)
	}
	return all.at(sdk.label(entry))
}

// pace is how long the caller had better wait before it asks again: what the callee asked for, or the backoff that the
// next retry would have had.
func (c *Call) pace() time.Duration {
	p, r := c.policy.profile, &c.Result
	switch c.Decision().Reason {
	case ownership.ReasonBreakerOpen:
		return c.policy.retryAfter(c.attempts, r.Throttled)
	case ownership.ReasonChainExhausted, ownership.ReasonDependencyBudget, ownership.ReasonProcessBudget,
		ownership.ReasonAvailabilityFloor, ownership.ReasonMaxAttempts, ownership.ReasonDeadline, ownership.ReasonPushback:
		if r.HasHint {
			return r.Hint
		}
		return p.Backoff.Ceiling(max(c.attempts-1, 0), r.Throttled)
	}
	if r.HasHint {
		return r.Hint
	}
	return 0
}

// claim is what goes up if this failure causes the hop's own.
func (c *Call) claim() ownership.Claim {
	d, r := &c.inTrouble().decision, &c.Result
	switch {
	case r.Claim == ownership.ClaimStop:
		return ownership.ClaimStop
	case r.Claim == ownership.ClaimUnclaimed, d.protects, d.Reason.Protects(), c.retried(r.Owner):
		return ownership.ClaimUnclaimed
	default:
		return ownership.ClaimClaimed // it passes up
	}
}

// Refuse ends the call by a gate that is asked again at the last moment, just before an attempt. Before the first
// attempt the refusal is the dependency's failure, not ours.
func (c *Call) Refuse(reason ownership.Reason, err error) {
	if c.attempts == 0 {
		c.inTrouble().before = c.in.held()
		c.Result = Result{Err: err, Failed: true, Unsent: true, Owner: c.dep.slug, Depth: 1}
	}
	c.giveBack()
	d := &c.inTrouble().decision
	d.Reason, d.protects = reason, reason.Protects()
	c.record()
}

// record counts a final decision, and tells the observer and the current span. Each decision is recorded once: when a
// gate refuses, or when the attempt that it allowed goes out.
func (c *Call) record() {
	dep, d, r := c.dep, &c.inTrouble().decision, &c.Result
	c.remember()
	if !d.Allowed() {
		c.entryCounters().denied[d.Reason].Add(1)
	} else if d.would != ownership.ReasonAllowed && !d.holdout {
		c.policy.counters.wouldDeny[d.would].Add(1)
	}
	if observe := dep.sdk.observe; observe != nil {
		observe(&Event{
			Context: c.parent, Dependency: dep.name, Profile: string(c.policy.profile.Name), Attempt: c.failedAttempt(), Reason: d.Reason,
			WouldDeny: d.would, Hedge: d.hedge, Delay: d.Delay, Claim: r.Claim, Owner: r.Owner, Status: r.Status, Err: r.Err,
			Before: c.inTrouble().before, After: c.in.held(),
		})
	}
	c.traceDecision()
}

// failedAttempt is the ordinal of the attempt that the decision is about: an allowed one is recorded as the next goes out.
// Of a hedge it is the latest one that has not answered.
func (c *Call) failedAttempt() int {
	if d := c.Decision(); d.Allowed() {
		return c.attempts - 1
	}
	return c.attempts
}
