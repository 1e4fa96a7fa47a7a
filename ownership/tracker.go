package ownership

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
)

// maxFailures bounds what one request remembers; a failure beyond it is merged into the last one kept.
const maxFailures = 64

// Tracker collects, for one inbound request, the final outcome of its calls. The zero value is ready to use. All
// methods may be called by many goroutines at once. A Tracker must not be copied after first use.
type Tracker struct {
	failed  atomic.Int32 // how many calls failed; 0 keeps the lock off the path of requests without a failure
	effects atomic.Bool
	exact   atomic.Bool // whether somebody said what caused the failure

	mu         sync.Mutex
	failures   []*DeniedError
	inline     [2]*DeniedError // where failures begins: most requests have no more
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
	if len(t.failures) < maxFailures {
		t.failures = append(t.failures, f)
	} else if last := t.failures[maxFailures-1]; f.Claim.restriction() > last.Claim.restriction() {
		t.failures[maxFailures-1] = f
	}
	t.mu.Unlock()
	t.failed.Add(1)
}

// Effect records that the request sent a call that must not run twice and that ran, or may have run, here or below.
func (t *Tracker) Effect() {
	if !t.effects.Load() {
		t.effects.Store(true)
	}
}

// Repeats reports whether a call to the same operation of the same dependency has already failed in this request.
func (t *Tracker) Repeats(dependency string, operation uint64) bool {
	if t.failed.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.failures {
		if f.Operation == operation && f.Dependency == dependency {
			return true
		}
	}
	return false
}

// Verdict is what a hop says about its own answer.
type Verdict struct {
	// Claim is none for an answer that is no failure, else claimed, unclaimed or stop.
	Claim Claim
	// Owner is the slug of the service that owns the failure, "" without one.
	Owner string
	// Effects is set when the request sent something that must not run twice, here or below; on success too.
	Effects bool
	// Why says in a few words how the cause was found.
	Why string
}

// Verdict says what goes up with this hop's answer, which is a failure or not. service is the hop's own slug; idempotent
// says that the inbound operation may run twice, so that effects do not matter.
func (t *Tracker) Verdict(failed bool, service string, idempotent bool) Verdict {
	effects := t.effects.Load()
	if !failed {
		return Verdict{Claim: ClaimNone, Effects: effects, Why: "no failure"}
	}
	v := Verdict{Claim: ClaimClaimed, Owner: service, Why: "no call failed"}
	if t.failed.Load() > 0 || t.exact.Load() {
		t.mu.Lock()
		v = t.cause(service)
		t.mu.Unlock()
	}
	v.Effects = effects
	if v.Claim == ClaimClaimed && !idempotent && effects {
		v.Claim = ClaimUnclaimed
		v.Why = "effects: something that must not run twice was sent"
	}
	return v
}

// cause looks for the causes in the order exact, declared, unknown. The lock is held.
func (t *Tracker) cause(service string) Verdict {
	if t.overloaded {
		return Verdict{Claim: ClaimStop, Owner: service, Why: "the handler says that it is overloaded"}
	}
	causes, why := t.causes, "exact: the error wraps the failed call"
	if !t.exact.Load() {
		causes, why = t.failures, "unknown: a call failed, and no exact cause is known"
	}
	v := Verdict{Claim: ClaimNone}
	for _, f := range causes {
		if f.FailOpen && !t.exact.Load() {
			continue
		}
		if f.Claim.restriction() > v.Claim.restriction() {
			v = Verdict{Claim: f.Claim, Owner: f.Owner, Why: why}
		}
	}
	if v.Claim != ClaimNone {
		return v
	}
	if t.exact.Load() {
		return Verdict{Claim: ClaimClaimed, Owner: service, Why: "exact: the error wraps no failed call"}
	}
	return Verdict{Claim: ClaimClaimed, Owner: service, Why: "declared: only fail-open dependencies failed"}
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
	t.causes = appendFailures(t.causes, err)
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

func fromContext(ctx context.Context) *Tracker {
	t, _ := ctx.Value(ctxkey.Tracker{}).(*Tracker)
	return t
}
