package budgetgrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// callError is the error of a failed call: for package status the last attempt's status as it came, for errors.As the
// decision. A handler may return it as it is.
type callError struct {
	denied *chainbudget.DeniedError
	status *status.Status
}

// Error implements error.
func (e *callError) Error() string { return e.denied.Error() }

// Unwrap returns the decision, which wraps the last attempt's error.
func (e *callError) Unwrap() error { return e.denied }

// GRPCStatus is what package status looks for.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// Timeout reports whether the last attempt, or the caller's own time, ran out.
func (e *callError) Timeout() bool {
	return e.denied.Timeout() || e.status.Code() == codes.DeadlineExceeded
}

// failure makes the error of a call that ended with denied; last is the last attempt's status, nil if there was none.
func failure(ctx context.Context, denied *chainbudget.DeniedError, last *status.Status) error {
	// The caller went away, perhaps during the backoff: the error says so beside what the attempt came to.
	for _, gone := range [...]error{context.Cause(ctx), ctx.Err()} {
		if gone != nil && !errors.Is(denied.Err, gone) {
			denied.Err = errors.Join(gone, denied.Err)
		}
	}
	if err := ctx.Err(); err != nil {
		if own := status.FromContextError(err); last == nil || last.Code() != own.Code() {
			last = own
		}
	}
	if last == nil {
		last = status.New(refusalCode(denied.Reason), denied.Error())
	}
	return &callError{denied: denied, status: last}
}

// refusalCode is the code of a call that was refused before its first attempt.
func refusalCode(r ownership.Reason) codes.Code {
	switch r {
	case ownership.ReasonCanceled:
		return codes.Canceled
	case ownership.ReasonDeadline:
		return codes.DeadlineExceeded
	default:
		return codes.Unavailable
	}
}
