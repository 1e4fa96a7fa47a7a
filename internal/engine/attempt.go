package engine

import (
	"context"
	"sync"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
)

// Attempt is the context of one attempt. It can be canceled on its own, but pays for that only when something below
// asks for Done: a transport that never does costs nothing.
type Attempt struct {
	parent context.Context
	call   *Call

	mu     sync.Mutex
	inner  context.Context // made at the first Done
	cancel context.CancelCauseFunc
	cause  error // set once canceled
	timer  *time.Timer

	disarmed bool // the timer comes too late

	deadline time.Time // shown to what runs below; zero = the parent's

	// What Known returns: the call may be further by the time that somebody below asks.
	number, status int
	peer           string
	err            error
}

// Init makes a usable; it is called once, before a is shared.
func (a *Attempt) Init(parent context.Context, call *Call) {
	a.parent = parent
	a.call = call
	decides := call
	for decides.outer != nil { // an inner layer makes one attempt of each of the outer one's
		decides = decides.outer
	}
	a.number = decides.attempts
	a.status, a.peer, a.err = decides.Previous()
	if call.race != nil {
		call.race.join(a)
	}
}

// AttemptOf returns the attempt that ctx belongs to, or nil.
func AttemptOf(ctx context.Context) *Attempt {
	a, _ := ctx.Value(ctxkey.Attempt{}).(*Attempt)
	return a
}

// Known returns the dependency and the attempt's ordinal, and what is known of the attempt before it. It may be asked by
// whatever outlives the attempt.
func (a *Attempt) Known() (dependency string, number, status int, peer string, err error) {
	return a.call.dep.name, a.number, a.status, a.peer, a.err
}

// Parent returns the context that the attempt was made from.
func (a *Attempt) Parent() context.Context { return a.parent }

// Arm cancels the attempt with [ErrAttemptTimeout] after d, unless [Attempt.Disarm] comes first.
func (a *Attempt) Arm(d time.Duration) {
	a.timer = time.AfterFunc(d, a.expire)
}

// ArmVisibly is Arm for an attempt whose time limit what runs below may see as its deadline. It is called before a is
// shared.
func (a *Attempt) ArmVisibly(d time.Duration) {
	a.deadline = time.Now().Add(d)
	a.Arm(d)
}

// Show makes what runs below see another deadline than the caller's. It is called before a is shared.
func (a *Attempt) Show(deadline time.Time) { a.deadline = deadline }

// Disarm stops the timer: the response's headers are here, and what follows may take its time. Either the attempt was
// canceled before, and [Attempt.Canceled] says so, or its time never ends: a timer that has gone off without having
// canceled yet comes too late.
func (a *Attempt) Disarm() {
	if a.timer == nil || a.timer.Stop() {
		return
	}
	a.mu.Lock()
	a.disarmed = true
	a.mu.Unlock()
}

func (a *Attempt) expire() {
	a.mu.Lock()
	if a.disarmed {
		a.mu.Unlock()
		return
	}
	a.cancelLocked(ErrAttemptTimeout)
}

// Cancel ends the attempt's context with a cause. Only the first cause counts.
func (a *Attempt) Cancel(cause error) {
	a.mu.Lock()
	a.cancelLocked(cause)
}

// cancelLocked is Cancel with the lock held, which it gives back.
func (a *Attempt) cancelLocked(cause error) {
	if a.cause == nil {
		a.cause = cause
	}
	cancel := a.cancel
	a.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Canceled returns the cause given to Cancel, or nil.
func (a *Attempt) Canceled() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cause
}

// Release frees what the context holds once nobody uses the response any more.
func (a *Attempt) Release() {
	a.Disarm()
	a.Cancel(context.Canceled)
}

// Deadline implements [context.Context].
func (a *Attempt) Deadline() (time.Time, bool) {
	if !a.deadline.IsZero() {
		return a.deadline, true
	}
	return a.parent.Deadline()
}

// Done implements [context.Context].
func (a *Attempt) Done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inner == nil {
		a.inner, a.cancel = context.WithCancelCause(a.parent)
		if a.cause != nil {
			a.cancel(a.cause)
		}
	}
	return a.inner.Done()
}

// Err implements [context.Context]. An expired attempt reads as an exceeded deadline.
func (a *Attempt) Err() error {
	a.mu.Lock()
	inner, cause := a.inner, a.cause
	a.mu.Unlock()
	switch {
	case cause == ErrAttemptTimeout:
		return context.DeadlineExceeded
	case inner != nil:
		return inner.Err()
	case cause != nil:
		return context.Canceled
	default:
		return a.parent.Err()
	}
}

// Value implements [context.Context].
func (a *Attempt) Value(key any) any {
	switch key.(type) {
	case ctxkey.Call:
		return a.call
	case ctxkey.Attempt:
		return a
	case ctxkey.Inbound:
		return a.call.in
	}
	a.mu.Lock()
	inner := a.inner
	a.mu.Unlock()
	if inner != nil {
		return inner.Value(key) // so that package context finds its own canceler
	}
	return a.parent.Value(key)
}

// ErrAttemptTimeout is the cause of an attempt that took longer than its profile allows. It is a timeout, and
// errors.Is finds context.DeadlineExceeded in it.
var ErrAttemptTimeout error = attemptTimeout{}

type attemptTimeout struct{}

func (attemptTimeout) Error() string   { return "chainbudget: attempt timeout of the profile exceeded" }
func (attemptTimeout) Timeout() bool   { return true }
func (attemptTimeout) Temporary() bool { return true }
func (attemptTimeout) Is(target error) bool {
	return target == context.DeadlineExceeded
}

// Used reports whether something below asked for Done, so that there is something to release.
func (a *Attempt) Used() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inner != nil || a.timer != nil
}
