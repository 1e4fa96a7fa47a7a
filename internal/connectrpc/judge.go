package connectrpc

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/nethttp"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// The codes that are looked for, numbered as gRPC does.
const (
	codeCanceled          = 1
	codeUnknown           = 2
	codeDeadlineExceeded  = 4
	codeResourceExhausted = 8
	codeInternal          = 13
	codeUnavailable       = 14
)

// PushbackHeader is rpc.PushbackKey as connect's metadata has it.
var PushbackHeader = http.CanonicalHeaderKey(rpc.PushbackKey)

// Failure is what a failed attempt ended with.
type Failure struct {
	Err   error // as the attempt returned it
	Error error // connect's own error in it
	Code  uint32
	// Wire says that the callee made it, or something between that speaks the protocol.
	Wire bool
	// Status is the HTTP status of an answer that does not speak the protocol, 0 for everything else.
	Status int
	// Pushback and RetryAfter are the values of these headers, Delay is what the details ask for, if Delayed.
	Pushback, RetryAfter []string
	Delay                time.Duration
	Delayed              bool
}

// Substitute is connect's error to report in place of the one that came; Cause is nil where that one stands.
type Substitute struct {
	Code  uint32
	Cause error
}

// Succeed says that an attempt succeeded.
func (x *Call) Succeed(status int) { x.Result.Status = status }

// Fail says what a failed attempt means, after [Call.TakeReturn].
func (x *Call) Fail(a *Attempt, f *Failure) (s Substitute) {
	x.Result.Err = f.Err
	if f.Wire {
		x.judgeAnswer(f)
	}
	s = x.judgeError(a, f)
	if x.Result.Failed {
		x.Result.Judge(x.Dependency())
	}
	return s
}

// judgeError says what an attempt means that ended with an error.
func (x *Call) judgeError(a *Attempt, f *Failure) (s Substitute) {
	r, w := &x.Result, &a.Watch
	unsent := !f.Wire && (w.NeverLeft() || nethttp.Refused(f.Error) || !w.Asked() && nethttp.NeverDialed(f.Error))
	cause := a.Canceled()
	switch parent := x.Parent().Err(); {
	case parent == context.Canceled && cause == nil:
		r.Failed, r.Canceled, r.Unsent = false, true, unsent
		return s
	case parent != nil: // in flight when the deadline passed: it did fail
		r.Failed, r.Retryable, r.Unsent = true, true, unsent
		return s
	case f.Wire && (cause == engine.ErrAttemptTimeout || a.late()): // what the callee says then is about the clock
		r.Failed, r.Retryable, r.Err = true, true, errors.Join(engine.ErrAttemptTimeout, r.Err)
		return s
	case f.Wire:
		return s
	}
	r.Failed = true
	switch {
	case cause == nethttp.ErrReplay && w.RefusedTwice():
		// net/http has repeated it already. What may not run twice is not repeated automatically a second time.
		r.Err, r.Retryable, r.Unsent = errors.Join(nethttp.ErrRefusedTwice, r.Err), x.MayRepeat(), true
		return Substitute{codeUnavailable, nethttp.ErrRefusedTwice}
	case cause == nethttp.ErrReplay:
		r.Err, r.Retryable, r.Excluded = errors.Join(cause, r.Err), true, true
		return Substitute{codeUnavailable, cause}
	case cause == engine.ErrAttemptTimeout,
		f.Status == 0 && f.Code == codeCanceled && a.late(): // the callee was told its time, and has reset the stream first
		r.Err, r.Retryable, r.Unsent = errors.Join(engine.ErrAttemptTimeout, r.Err), true, unsent
		return Substitute{codeDeadlineExceeded, engine.ErrAttemptTimeout}
	case w.NeverLooked(): // net/http found the request itself wrong
		r.Excluded, r.Unsent = true, true
	default:
		r.Unsent = unsent
		x.judgeForeign(a, f)
	}
	return s
}

// judgeForeign says what an error means that connect made up, for want of an answer in its protocol.
func (x *Call) judgeForeign(a *Attempt, f *Failure) {
	r := &x.Result
	if f.Status != 0 { // by something that does not speak the protocol
		r.Status = f.Status
		r.Retryable = x.Policy().Profile().Retry.RetryStatus(f.Status) && f.Status != http.StatusTooManyRequests // it would have to say when
		r.Throttled = f.Status == http.StatusTooManyRequests
		r.Failed = f.Status >= 500 || r.Throttled || r.Retryable
		r.Excluded = f.Status < 500
		return
	}
	if f.Code == codeUnavailable || nethttp.Broken(f.Error) { // connect calls a connection that was reset canceled
		r.Retryable = !nethttp.Permanent(f.Error)
		return
	}
	m := rpc.MeaningOf(f.Code)
	r.Retryable = m.Passing && x.Policy().Profile().Retry.RetryStatus(m.Status) && f.Code != codeResourceExhausted
	r.Excluded = m.Status < 500 || !a.Watch.Asked() // it is the caller's own that cannot be sent
}

// judgeAnswer says what an answer means that is no success.
func (x *Call) judgeAnswer(f *Failure) {
	r := &x.Result
	m := rpc.MeaningOf(f.Code)
	r.Status = m.Status
	hint, hinted, never := rpc.Pushback(f.Pushback)
	if f.Delayed {
		hint, hinted = max(hint, f.Delay), true
	}
	if len(f.RetryAfter) > 0 {
		if delay, ok := profiles.ParseRetryAfter(f.RetryAfter, time.Now()); ok {
			hint, hinted = max(hint, delay), true
		}
	}
	r.Hint, r.HasHint = hint, hinted && !never
	// Where the claim says as much, it is the claim that decides, by the mode.
	claimed := r.HasReturn && (r.Return.Claim == ownership.ClaimUnclaimed || r.Return.Claim == ownership.ClaimStop)
	r.Pushback = never && !claimed
	r.Retryable = m.Passing && x.Policy().Profile().Retry.RetryStatus(m.Status) && (f.Code != codeResourceExhausted || r.HasHint)
	r.Throttled = f.Code == codeResourceExhausted
	r.Failed = m.Status >= 500 || r.Throttled || r.Retryable
	r.Excluded = m.Status < 500
}

// TakeReturn reads a return. lines are those of the answer's metadata; details returns those that are among an error's
// details, where a hop passes an error on and not its metadata. What an outside callee says is not believed. I6: the adapter
// has taken the lines out.
func (x *Call) TakeReturn(lines []string, details func() []string) {
	if x.External {
		return
	}
	if len(lines) == 0 && details != nil {
		lines = details()
	}
	if len(lines) == 0 {
		return
	}
	lent, nonce := x.Lent()
	ret, ok, rejects := otelprop.ReadReturn(lines, nonce, lent)
	x.Dependency().SDK().CountRejects(&rejects)
	if ok {
		x.Result.Returned(ret)
	}
}
