package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
)

// Attempt is the context of one attempt. It can be canceled on its own, but pays for that only when something below
// asks for Done: a transport that never does costs nothing.
type Attempt struct {
	parent  context.Context
	call    *Call
	ending  atomic.Pointer[ending] // made by the first Done or Cancel; nil = neither was called
	timer   *time.Timer
	shown   *time.Time // the deadline that what runs below sees; nil = the parent's
	number  int
	earlier *earlier // nil for the first attempt
}

// ending is the part of an attempt's context that ends it.
type ending struct {
	mu       sync.Mutex
	inner    context.Context // made at the first Done
	cancel   context.CancelCauseFunc
	cause    error // set once canceled
	disarmed bool  // the timer comes too late
}

// released is the ending of every attempt that was given up before anybody asked for Done. It is never written.
var released = &ending{cause: context.Canceled}

// canceled is a context that was canceled.
var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// earlier is what was known of the attempt before when this one began: the call may be further by the time that somebody
// asks.
type earlier struct {
	status int
	peer   string
	err    error
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
	if status, peer, err := decides.Previous(); status != 0 || peer != "" || err != nil {
		a.earlier = &earlier{status: status, peer: peer, err: err}
	}
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
	if e := a.earlier; e != nil {
		status, peer, err = e.status, e.peer, e.err
	}
	return a.call.dep.name, a.number, status, peer, err
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
	a.Show(time.Now().Add(d))
	a.Arm(d)
}

// Show makes what runs below see another deadline than the caller's. It is called before a is shared.
func (a *Attempt) Show(deadline time.Time) { a.shown = &deadline }

// theEnding returns what ends a, and makes it if nobody has.
func (a *Attempt) theEnding() *ending {
	if e := a.ending.Load(); e != nil {
		return e
	}
	a.ending.CompareAndSwap(nil, new(ending))
	return a.ending.Load()
}

// Disarm stops the timer: the response's headers are here, and what follows may take its time. Either the attempt was
// canceled before, and [Attempt.Canceled] says so, or its time never ends: a timer that has gone off without having
// canceled yet comes too late.
func (a *Attempt) Disarm() {
	if a.timer == nil || a.timer.Stop() {
		return
	}
	e := a.theEnding()
	if e == released {
		return
	}
	e.mu.Lock()
	e.disarmed = true
	e.mu.Unlock()
}

func (a *Attempt) expire() {
	e := a.theEnding()
	if e == released {
		return
	}
	e.mu.Lock()
	if e.disarmed {
		e.mu.Unlock()
		return
	}
	e.cancelLocked(ErrAttemptTimeout)
}

// Cancel ends the attempt's context with a cause. Only the first cause counts.
func (a *Attempt) Cancel(cause error) {
	e := a.theEnding()
	if e == released {
		return
	}
	e.mu.Lock()
	e.cancelLocked(cause)
}

// cancelLocked cancels with the lock held, which it gives back.
func (e *ending) cancelLocked(cause error) {
	if e.cause == nil {
		e.cause = cause
	}
	cancel := e.cancel
	e.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Canceled returns the cause given to Cancel, or nil.
func (a *Attempt) Canceled() error {
	e := a.ending.Load()
	switch e {
	case nil:
		return nil
	case released:
		return e.cause
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}

// Release frees what the context holds once nobody uses the response any more.
func (a *Attempt) Release() {
	a.Disarm()
	if !a.ending.CompareAndSwap(nil, released) {
		a.Cancel(context.Canceled)
	}
}

// Deadline implements [context.Context].
func (a *Attempt) Deadline() (time.Time, bool) {
	if a.shown != nil {
		return *a.shown, true
	}
	return a.parent.Deadline()
}

// Done implements [context.Context].
func (a *Attempt) Done() <-chan struct{} {
	e := a.theEnding()
	if e == released {
		return canceled.Done()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inner == nil {
		e.inner, e.cancel = context.WithCancelCause(a.parent)
		if e.cause != nil {
			e.cancel(e.cause)
		}
	}
	return e.inner.Done()
}

// Err implements [context.Context]. An expired attempt reads as an exceeded deadline.
func (a *Attempt) Err() error {
	e := a.ending.Load()
	switch e {
	case nil:
		return a.parent.Err()
	case released:
		return context.Canceled
	}
	e.mu.Lock()
	inner, cause := e.inner, e.cause
	e.mu.Unlock()
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
	if e := a.ending.Load(); e != nil && e != released {
		e.mu.Lock()
		inner := e.inner
		e.mu.Unlock()
		if inner != nil {
			return inner.Value(key) // so that package context finds its own canceler
		}
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
	if a.timer != nil {
		return true
	}
	e := a.ending.Load()
	if e == nil || e == released {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inner != nil
}
