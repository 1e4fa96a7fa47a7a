package budgetconnect

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// callError is the error of a failed call: for errors.As the last attempt's *connect.Error, and the decision. A handler may
// return it as it is.
type callError struct {
	denied *chainbudget.DeniedError
	last   *connect.Error
}

// Error implements error.
func (e *callError) Error() string { return e.denied.Error() }

// Unwrap returns the decision, which wraps the last attempt's error.
func (e *callError) Unwrap() error { return e.denied }

// As finds the last attempt's error, where the decision wraps none, or wraps others beside it.
func (e *callError) As(target any) bool { return asConnect(e.last, target) }

// Timeout reports whether the last attempt, or the caller's own time, ran out.
func (e *callError) Timeout() bool {
	return e.denied.Timeout() || e.last.Code() == connect.CodeDeadlineExceeded
}

// asConnect stores e in a target of its type.
func asConnect(e *connect.Error, target any) bool {
	t, ok := target.(**connect.Error)
	if ok {
		*t = e
	}
	return ok
}

// asError returns the *connect.Error in err, or nil.
func asError(err error) *connect.Error {
	e, _ := errors.AsType[*connect.Error](err)
	return e
}

// failure makes the error of a call that ended with denied; last is the last attempt's error, nil if there was none.
func failure(ctx context.Context, denied *chainbudget.DeniedError, last *connect.Error) error {
	// The caller went away, perhaps during the backoff: the error says so beside what the attempt came to.
	for _, gone := range [...]error{context.Cause(ctx), ctx.Err()} {
		if gone != nil && !errors.Is(denied.Err, gone) {
			denied.Err = errors.Join(gone, denied.Err)
		}
	}
	if err := ctx.Err(); err != nil {
		if code := contextCode(err); last == nil || last.Code() != code {
			last = connect.NewError(code, err)
		}
	}
	if last == nil {
		last = connect.NewError(refusalCode(denied.Reason), denied)
	}
	return &callError{denied: denied, last: last}
}

// contextCode is the code of a context's error.
func contextCode(err error) connect.Code {
	if errors.Is(err, context.DeadlineExceeded) {
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeCanceled
}

// refusalCode is the code of a call that was refused before its first attempt.
func refusalCode(r ownership.Reason) connect.Code {
	switch r {
	case ownership.ReasonCanceled:
		return connect.CodeCanceled
	case ownership.ReasonDeadline:
		return connect.CodeDeadlineExceeded
	default:
		return connect.CodeUnavailable
	}
}
