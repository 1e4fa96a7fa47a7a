package connectrpc

import (
	"context"
	"errors"
	"os"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// Errors is how a version of connect makes its own errors, E, and reads them.
type Errors[E interface {
	error
	comparable
}] struct {
	New  func(code uint32, cause error) E
	Code func(E) uint32
}

// CallError is the error of a failed call: for errors.As the last attempt's own error, and the decision. A handler may
// return it as it is.
type CallError[E error] struct {
	denied *ownership.DeniedError
	last   E
	late   bool
}

// Error implements error.
func (e *CallError[E]) Error() string { return e.denied.Error() }

// Unwrap returns the decision, which wraps the last attempt's error.
func (e *CallError[E]) Unwrap() error { return e.denied }

// As finds the last attempt's error, where the decision wraps none, or wraps others beside it.
func (e *CallError[E]) As(target any) bool { return store(e.last, target) }

// Timeout reports whether the last attempt, or the caller's own time, ran out.
func (e *CallError[E]) Timeout() bool { return e.denied.Timeout() || e.late }

// store stores e in a target of its type.
func store[E error](e E, target any) bool {
	t, ok := target.(*E)
	if ok {
		*t = e
	}
	return ok
}

// Failure makes the error of a call that ended with denied; last is the last attempt's error, nil if there was none.
func (m *Errors[E]) Failure(ctx context.Context, denied *ownership.DeniedError, last E) *CallError[E] {
	// The caller went away, perhaps during the backoff: the error says so beside what the attempt came to.
	for _, gone := range [...]error{context.Cause(ctx), ctx.Err()} {
		if gone != nil && !errors.Is(denied.Err, gone) {
			denied.Err = errors.Join(gone, denied.Err)
		}
	}
	var none E
	if err := ctx.Err(); err != nil {
		if code := ContextCode(err); last == none || m.Code(last) != code {
			last = m.New(code, err)
		}
	}
	if last == none {
		last = m.New(refusalCode(denied.Reason), denied)
	}
	return m.of(denied, last)
}

func (m *Errors[E]) of(denied *ownership.DeniedError, last E) *CallError[E] {
	return &CallError[E]{denied: denied, last: last, late: m.Code(last) == codeDeadlineExceeded}
}

// ContextCode is the code of an error that has none of its own: a context's, or an unknown one.
func ContextCode(err error) uint32 {
	switch {
	case errors.Is(err, context.Canceled):
		return codeCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return codeDeadlineExceeded
	}
	return codeUnknown
}

// refusalCode is the code of a call that was refused before its first attempt.
func refusalCode(r ownership.Reason) uint32 {
	switch r {
	case ownership.ReasonCanceled:
		return codeCanceled
	case ownership.ReasonDeadline:
		return codeDeadlineExceeded
	default:
		return codeUnavailable
	}
}

// AnsweredError is a handler's error, which connect answers with the error that this hop has made of it.
type AnsweredError[E error] struct {
	error
	out E
}

// Answered makes out what connect answers err with.
func Answered[E error](err error, out E) error { return &AnsweredError[E]{error: err, out: out} }

// Unwrap returns the handler's error, for interceptors further out.
func (e *AnsweredError[E]) Unwrap() error { return e.error }

// As is what connect finds the error with that goes out.
func (e *AnsweredError[E]) As(target any) bool { return store(e.out, target) }
