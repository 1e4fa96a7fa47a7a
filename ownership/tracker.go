package ownership

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
)

// MaxFailures bounds what one request remembers; of the failures beyond it only the most restrictive is kept.
const MaxFailures = 64

// Tracker collects, for one inbound request, the final outcome of its calls. The zero value is ready to use. All
// methods may be called by many goroutines at once. A Tracker must not be copied after first use.
type Tracker struct {
	// Effects is set once the request has sent a call that must not run twice and that ran, or may have run, here or
	// below.
	Effects atomic.Bool

	failed atomic.Int32 // how many calls failed; 0 keeps the lock off the path of requests without a failure
	exact  atomic.Bool  // whether somebody said what caused the failure

	mu         sync.Mutex
	failures   []*DeniedError
	inline     [2]*DeniedError // where failures begins: most requests have no more
	worst      *DeniedError    // the most restrictive of those that found no room
	causes     []*DeniedError
	overloaded bool
}

// Failed records a call that failed for good. Calls that succeeded after retries, or were canceled for a reason other
// than time, are no failures and are not recorded.
func (t *Tracker) Failed(f *DeniedError) {
	t.mu.Lock()
	if t.failures == nil {
		t.failures = t.inline[:0]
	}
	if len(t.failures) < MaxFailures {
		t.failures = append(t.failures, f) // what was handed out is never written again
	} else if t.worst == nil || f.Claim.restriction() > t.worst.Claim.restriction() {
		t.worst = f
	}
	t.mu.Unlock()
	t.failed.Add(1)
}

// Verdict is what a hop says about its own answer.
type Verdict struct {
	// Claim is none for an answer that is no failure, else claimed, unclaimed or stop.
	Claim Claim
	// Owner is the slug of the service that owns the failure, "" without one.
	Owner string
	// Depth is how many hops below this one the owner is: 0 is this hop.
	Depth int
	// Effects is set when the request sent something that must not run twice, here or below; on success too.
	Effects bool
	// Why says in one line how the cause was found.
	Why string

	caused bool // a failed call is the cause
}

// Verdict says what goes up with this hop's answer, which is a failure or not. service is the hop's own slug; idempotent
// says that the inbound operation may run twice, so that effects do not matter. learned, which may be nil, is asked about
// failures of which nothing exact or declared is known: whether they cause the hop's, and why.
func (t *Tracker) Verdict(failed bool, service string, idempotent bool, learned func(*DeniedError) (cause bool, why string)) Verdict {
	effects := t.Effects.Load()
	if !failed {
		return Verdict{Claim: ClaimNone, Effects: effects, Why: "no failure"}
	}
	v := Verdict{Claim: ClaimClaimed, Owner: service, Why: "own: no call failed"}
	if t.failed.Load() > 0 || t.exact.Load() {
		t.mu.Lock()
		v = t.cause(service, learned)
		t.mu.Unlock()
	}
	v.Effects = effects
	if v.Claim == ClaimClaimed && !idempotent && effects {
		v.Claim = ClaimUnclaimed
		v.Why += "; something that must not run twice was sent"
	}
	return v
}

// cause looks for the causes in the order exact, declared, learned and unknown. The lock is held.
func (t *Tracker) cause(service string, learned func(*DeniedError) (bool, string)) Verdict {
	if t.overloaded {
		return Verdict{Claim: ClaimStop, Owner: service, Why: "own: the handler says that it is overloaded"}
	}
	if t.exact.Load() {
		v := Verdict{Claim: ClaimClaimed, Owner: service, Why: "exact: the error wraps no failed call"}
		for _, f := range t.causes {
			if f.Claim == ClaimNone {
				continue // canceled: the error says why nothing came, not what failed
			}
			v.add(f, "exact: the error wraps the failed call to "+f.Dependency)
		}
		return v
	}
	v := Verdict{Claim: ClaimClaimed, Owner: service, Why: "declared: only fail-open dependencies failed"}
	failures := t.failures
	if t.worst != nil {
		failures = append(slices.Clip(failures), t.worst)
	}
	for _, f := range failures {
		cause, why := true, "unknown: the call to "+f.Dependency+" failed, and ties blame downstream"
		switch {
		case f.FailOpen:
			continue
		case f.FailClosed:
			why = "declared: " + f.Dependency + " fails closed"
		case learned != nil:
			cause, why = learned(f)
		}
		if cause {
			v.add(f, why)
		} else if !v.caused {
			v.Why = why
		}
	}
	return v
}

// add takes one more cause into account: the most restrictive one goes up.
func (v *Verdict) add(f *DeniedError, why string) {
	if !v.caused || f.Claim.restriction() > v.Claim.restriction() {
		v.Claim, v.Owner, v.Depth, v.Why, v.caused = f.Claim, f.Owner, f.OwnerDepth, why, true
	}
}

// Failures returns the calls that have failed so far and, if exact, those that caused the request's failure. The slices
// are shared and must not be written; nothing is allocated.
func (t *Tracker) Failures() (failed, causes []*DeniedError, exact bool) {
	exact = t.exact.Load()
	if t.failed.Load() == 0 && !exact {
		return nil, nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures, t.causes, exact
}

// Blame says that err caused the failure that the handler is about to answer: the calls whose [DeniedError] err wraps own
// it, and if it wraps none, this service does. Several calls add up. It does nothing for a nil err or a context that
// belongs to no request.
func Blame(ctx context.Context, err error) {
	t := fromContext(ctx)
	if t == nil || err == nil {
		return
	}
	t.mu.Lock()
	t.causes = appendFailures(slices.Clip(t.causes), err)
	t.mu.Unlock()
	t.exact.Store(true)
}

// Own says that this service caused the failure that the handler is about to answer, whatever calls failed and
// whatever [Blame] said before. It does nothing for a context that belongs to no request.
func Own(ctx context.Context) {
	t := fromContext(ctx)
	if t == nil {
		return
	}
	t.mu.Lock()
	t.causes = nil
	t.mu.Unlock()
	t.exact.Store(true)
}

// Overloaded says that this service rejects the request because it has too much work: the failure is answered with
// stop, and nobody above retries. It does nothing for a context that belongs to no request.
func Overloaded(ctx context.Context) {
	t := fromContext(ctx)
	if t == nil {
		return
	}
	t.mu.Lock()
	t.overloaded = true
	t.mu.Unlock()
	t.exact.Store(true)
}

// Explain says in one line whose failure it would be, and why, if the request that ctx belongs to failed now. It returns
// "" for a context that belongs to no request.
func Explain(ctx context.Context) string {
	request, _ := ctx.Value(ctxkey.Inbound{}).(interface{ Explain() string })
	if request == nil {
		return ""
	}
	return request.Explain()
}

func fromContext(ctx context.Context) *Tracker {
	t, _ := ctx.Value(ctxkey.Tracker{}).(*Tracker)
	return t
}
