package chainbudget

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// CallOption says what [Do] and [Call] may do with a function. The zero value says nothing; several add up.
type CallOption struct {
	// MayRepeat says that the function may run twice; see [Idempotent].
	MayRepeat bool
	// Operation names what the function asks of the dependency, so that a caller's own loop around the SDK is known by it:
	// the profile may charge or refuse a call that repeats a failed one of the same request. Without a name such a call is
	// only counted.
	Operation string
	// Classify, if not nil, decides which errors of the function are worth a retry, in place of the built-in rule
	// (timeouts, refused and reset connections, and [Retryable]). It is called with every non-nil error that is not a cancellation.
	Classify func(error) bool
}

// Idempotent says that the function may run twice, and beside itself where the profile hedges (see [Do]). Without it there
// is one attempt: nothing that a function returns, not even a refused connection, proves that it has done nothing before.
func Idempotent() CallOption { return CallOption{MayRepeat: true} }

// together returns what several options say; of two that name or classify, the last counts.
func together(options []CallOption) (all CallOption) {
	for _, o := range options {
		all.MayRepeat = all.MayRepeat || o.MayRepeat
		if o.Operation != "" {
			all.Operation = o.Operation
		}
		if o.Classify != nil {
			all.Classify = o.Classify
		}
	}
	return all
}

// Do runs fn as one call to dep, with dep's profile: each attempt gets a context of its own, which ends with the
// attempt. fn must use it and must not keep it. Retries are paid by the request that ctx belongs to; without one there is
// the single token of an orphan: begin work of its own with [Start].
//
// A plain error is final; timeouts, refused and reset connections and [Retryable] errors are retried while the gates allow. The
// error of a failed call is a *[DeniedError] that wraps fn's last error. A context that has ended before the first
// attempt is returned as it is, and fn does not run. Panics pass through and count as failures.
//
// If dep's profile hedges and fn is [Idempotent], fn runs concurrently with itself, on goroutines of its own: another run
// starts when one takes longer than hedge.after, the first that does not fail counts, and the contexts of the others are
// canceled. Do does not wait for those: a run that has lost may still be going on when Do returns, so fn must not write
// what others read, not even variables around it. [Call] hands a value out safely. A panic of a run that has lost goes
// nowhere.
func Do(ctx context.Context, dep *Dependency, fn func(context.Context) error, options ...CallOption) error {
	_, err := do(ctx, dep, errorFunc(fn), together(options))
	return err
}

// Call is [Do] for a function that also returns a value: that of the last attempt, or of the one that won.
func Call[T any](ctx context.Context, dep *Dependency, fn func(context.Context) (T, error), options ...CallOption) (T, error) {
	return do(ctx, dep, valueFunc[T](fn), together(options))
}

// function is what Do and Call run. A function value is an interface of this kind without a closure around it, which
// would be on the heap.
type function[T any] interface {
	run(context.Context) (T, error)
}

type errorFunc func(context.Context) error

func (f errorFunc) run(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }

type valueFunc[T any] func(context.Context) (T, error)

func (f valueFunc[T]) run(ctx context.Context) (T, error) { return f(ctx) }

func do[T any](ctx context.Context, dep *Dependency, fn function[T], o CallOption) (T, error) {
	if dep == nil {
		return fn.run(ctx)
	}
	in, policy := dep.engine().Enter(ctx)
	if policy.Mode() == profiles.ModeBypass {
		return fn.run(ctx)
	}
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	if refused := policy.Refusal(ctx, in, o.MayRepeat); refused != nil {
		var none T
		return none, refused
	}
	c := new(call)
	c.classify = o.Classify
	var operation uint64
	if o.Operation != "" {
		operation = engine.HashString(engine.HashSeed, o.Operation)
	}
	c.Begin(ctx, in, policy, engine.CallOptions{
		Operation: operation, Idempotent: o.MayRepeat, Replayable: true, Wireless: true,
	})
	for {
		var value T
		err, admitted := c.admit()
		if !admitted {
			return value, err
		}
		if c.CanHedge() {
			value, err = hedge(c, fn)
		} else {
			value, err = runAttempt(c, fn)
		}
		if err == nil || c.Inner() {
			return value, err
		}
		if !c.again() {
			return value, c.Finish()
		}
	}
}

// call is the state of one Do.
type call struct {
	engine.Call
	attempt  *engine.Attempt
	first    engine.Attempt
	begun    time.Time // when the attempt was admitted
	classify func(error) bool
}

// admit asks for the next attempt.
func (c *call) admit() (err error, admitted bool) {
	c.begun = c.Now()
	reason, err := c.Admit(c.begun)
	if reason != ownership.ReasonAllowed {
		c.Refuse(reason, err)
		return c.Finish(), false
	}
	return nil, true
}

// runAttempt runs fn once, and settles the attempt also when fn panics or ends its goroutine.
func runAttempt[T any](c *call, fn function[T]) (value T, err error) {
	c.attempt = &c.first
	if c.Attempts() > 1 {
		c.attempt = new(engine.Attempt)
	}
	c.attempt.Init(c.Parent(), &c.Call)
	if limit, ok := c.AttemptLimit(c.begun); ok {
		c.attempt.ArmVisibly(limit)
	}
	returned := false
	defer func() {
		if !returned {
			c.Result.Failed = true
			c.Result.Judge(c.Dependency())
			c.Done(c.Now())
		}
		c.attempt.Release()
	}()
	value, err = fn.run(c.attempt)
	c.judge(err)
	returned = true // not before: a classifier may panic, too
	c.Done(c.Now())
	return value, err
}

// judge says what fn's error means.
func (c *call) judge(err error) {
	if err == nil {
		return
	}
	r := &c.Result
	if errors.Is(err, context.Canceled) {
		switch {
		case c.Parent().Err() == context.Canceled, c.attempt.Canceled() == engine.ErrLost:
			r.Err, r.Canceled = err, true
			return
		case c.attempt.Canceled() == engine.ErrAttemptTimeout:
			// A context that fn derived from the attempt's reads as canceled when the attempt's time is over.
			err = errors.Join(engine.ErrAttemptTimeout, err)
		}
	}
	r.Err = err
	r.Failed = true
	r.Judge(c.Dependency())
	if report := c.Reported(); report != nil { // an inner layer for the same dependency read the return
		r.Claim, r.Owner, r.Depth = report.Claim, report.Owner, report.Depth
	} else if f, ok := errors.AsType[*DeniedError](err); ok && f != nil { // another call inside the function failed
		r.Claim, r.Owner, r.Depth = f.Claim, f.Owner, f.OwnerDepth
	}
	if c.classify != nil {
		r.Retryable = c.classify(err)
		return
	}
	r.Retryable = transient(err)
}

// again decides about another attempt and waits for it.
func (c *call) again() bool {
	return c.Decide(c.Now()) && c.Await() && c.Backoff()
}

// transient reports whether an error is a timeout, a refused or reset connection, or marked by Retryable.
func transient(err error) bool {
	if _, marked := errors.AsType[retryableError](err); marked {
		return true
	}
	if timeout, ok := errors.AsType[timeoutError](err); ok && timeout.Timeout() {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrUnexpectedEOF)
}

// timeoutError is an error that can say whether it is a timeout.
type timeoutError interface {
	error
	Timeout() bool
}
