package rpc

import (
	"context"
	"errors"
	"net/http"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Conclusion is what a request came to.
type Conclusion struct {
	Line   string // the return; "" = none is owed
	Never  bool   // nobody should retry, as pushback says it to callers without the SDK
	Others bool   // it is somebody else's failure
}

// Answer describes an answer by its status.
func Answer(in *engine.Inbound, status int) engine.Answer {
	return engine.Answer{
		Failed:   in.Generation().Local().Failure(status),
		Rejected: status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests,
	}
}

// Conclude closes the purse of a request, once its status is known.
func Conclude(ctx context.Context, in *engine.Inbound, status int) (c Conclusion) {
	answer := Answer(in, status)
	if !in.Owes() && !answer.Failed {
		return c
	}
	verdict := in.Verdict(ctx, answer)
	if in.Owes() {
		ret := in.Return(verdict)
		var buf [otelprop.MaxReturn]byte
		c.Line = string(ret.Append(buf[:0]))
	}
	c.Others = answer.Failed && verdict.Depth > 0
	c.Never = answer.Failed && in.Generation().Mode() == profiles.ModeEnforce &&
		(verdict.Claim == ownership.ClaimUnclaimed || verdict.Claim == ownership.ClaimStop)
	return c
}

// Finish is called when a request is over.
func Finish(in *engine.Inbound, status int) {
	in.Learn(Answer(in, status))
	in.End()
}

// Blame makes the failed calls that a handler's error wraps the exact cause, unless the handler said what caused the
// failure. An error that wraps none proves nothing: handlers make up one of their own more often than not.
func Blame(ctx context.Context, in *engine.Inbound, err error) {
	if _, _, exact := in.Tracker.Failures(); exact {
		return
	}
	if f, ok := errors.AsType[*ownership.DeniedError](err); ok && f != nil {
		ownership.Blame(ctx, err)
	}
}
