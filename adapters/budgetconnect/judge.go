package budgetconnect

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/nethttp"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// outcome is what an attempt ended with.
type outcome struct {
	err             error       // nil = a success
	header, trailer http.Header // of a success
}

// judge says what an attempt came to.
func (x *call) judge(a *attempt, o outcome) {
	r := &x.Result
	if o.err == nil {
		x.takeReturn(nil, o.header, o.trailer)
		r.Status = http.StatusOK
		return
	}
	e := asError(o.err)
	if e == nil { // an interceptor further in made it
		e = connect.NewError(connect.CodeUnknown, o.err)
	}
	if connect.IsNotModifiedError(e) {
		x.takeReturn(nil, e.Meta(), nil)
		r.Status = http.StatusNotModified
		return
	}
	r.Err, x.last = o.err, e
	wire := connect.IsWireError(e)
	if wire {
		x.takeReturn(e, e.Meta(), nil)
		x.judgeAnswer(e)
	}
	x.judgeError(a, e, wire)
	if r.Failed {
		r.Judge(x.Dependency())
	}
}

// judgeError says what an attempt means that ended with an error. wire says that the callee made it, or something in between
// that speaks the protocol.
func (x *call) judgeError(a *attempt, e *connect.Error, wire bool) {
	r, w := &x.Result, &a.watch
	unsent := !wire && (w.NeverLeft() || nethttp.Refused(e) || !w.Asked() && nethttp.NeverDialed(e))
	cause := a.Canceled()
	switch parent := x.Parent().Err(); {
	case parent == context.Canceled && cause == nil:
		r.Failed, r.Canceled, r.Unsent = false, true, unsent
		return
	case parent != nil: // in flight when the deadline passed: it did fail
		r.Failed, r.Retryable, r.Unsent = true, true, unsent
		return
	case wire && (cause == engine.ErrAttemptTimeout || a.late()): // what the callee says then is about the clock
		r.Failed, r.Retryable, r.Err = true, true, errors.Join(engine.ErrAttemptTimeout, r.Err)
		return
	case wire:
		return
	}
	r.Failed = true
	switch {
	case cause == nethttp.ErrReplay && w.RefusedTwice():
		// net/http has repeated it already. What may not run twice is not repeated automatically a second time.
		r.Err, r.Retryable, r.Unsent = errors.Join(nethttp.ErrRefusedTwice, r.Err), x.idempotent, true
		x.last = connect.NewError(connect.CodeUnavailable, nethttp.ErrRefusedTwice)
	case cause == nethttp.ErrReplay:
		r.Err, r.Retryable, r.Excluded = errors.Join(cause, r.Err), true, true
		x.last = connect.NewError(connect.CodeUnavailable, cause)
	case cause == engine.ErrAttemptTimeout:
		r.Err, r.Retryable, r.Unsent = errors.Join(cause, r.Err), true, unsent
		x.last = connect.NewError(connect.CodeDeadlineExceeded, cause)
	case w.NeverLooked(): // net/http found the request itself wrong
		r.Excluded, r.Unsent = true, true
	default:
		r.Unsent = unsent
		x.judgeForeign(a, e)
	}
}

// judgeForeign says what an error means that connect made up, for want of an answer in its protocol.
func (x *call) judgeForeign(a *attempt, e *connect.Error) {
	r, code := &x.Result, e.Code()
	if status := answered(e); status != 0 { // by something that does not speak the protocol
		r.Status = status
		r.Retryable = x.Policy().Profile().Retry.RetryStatus(status) && status != http.StatusTooManyRequests // it would have to say when
		r.Throttled = status == http.StatusTooManyRequests
		r.Failed = status >= 500 || r.Throttled || r.Retryable
		r.Excluded = status < 500
		return
	}
	if code == connect.CodeUnavailable || nethttp.Broken(e) { // connect calls a connection that was reset canceled
		r.Retryable = !nethttp.Permanent(e)
		return
	}
	m := rpc.MeaningOf(uint32(code))
	r.Retryable = m.Passing && x.Policy().Profile().Retry.RetryStatus(m.Status) && code != connect.CodeResourceExhausted
	r.Excluded = m.Status < 500 || !a.watch.Asked() // it is the caller's own that cannot be sent
}

// answered returns the HTTP status that an error is about, or 0. Connect keeps it in the error's text only.
func answered(e *connect.Error) int {
	text := strings.TrimPrefix(e.Message(), "HTTP status ")
	number, rest, _ := strings.Cut(text, " ")
	status, err := strconv.Atoi(number)
	if err != nil || status < 300 || status > 599 || rest != http.StatusText(status) {
		return 0
	}
	return status
}

// judgeAnswer says what an answer means that is no success.
func (x *call) judgeAnswer(e *connect.Error) {
	r, code := &x.Result, e.Code()
	m := rpc.MeaningOf(uint32(code))
	r.Status = m.Status
	hint, hinted, never := rpc.Pushback(e.Meta()[pushbackHeader])
	if delay, ok := retryInfo(e); ok {
		hint, hinted = max(hint, delay), true
	}
	if values := e.Meta()["Retry-After"]; len(values) > 0 {
		if delay, ok := profiles.ParseRetryAfter(values, time.Now()); ok {
			hint, hinted = max(hint, delay), true
		}
	}
	r.Hint, r.HasHint = hint, hinted && !never
	// Where the claim says as much, it is the claim that decides, by the mode.
	claimed := r.HasReturn && (r.Return.Claim == ownership.ClaimUnclaimed || r.Return.Claim == ownership.ClaimStop)
	r.Pushback = never && !claimed
	r.Retryable = m.Passing && x.Policy().Profile().Retry.RetryStatus(m.Status) && (code != connect.CodeResourceExhausted || r.HasHint)
	r.Throttled = code == connect.CodeResourceExhausted
	r.Failed = m.Status >= 500 || r.Throttled || r.Retryable
	r.Excluded = m.Status < 500
}

// pushbackHeader is rpc.PushbackKey as connect's metadata has it.
var pushbackHeader = http.CanonicalHeaderKey(rpc.PushbackKey)

// takeReturn takes the return out of what an attempt's answer brought beside its message, so that nothing passes it on, and
// reads it: from the metadata, or else from the error's details. What an outside callee says is not believed. I6.
func (x *call) takeReturn(e *connect.Error, header, trailer http.Header) {
	lines := header[otelprop.HTTPReturnHeader]
	if more := trailer[otelprop.HTTPReturnHeader]; len(more) > 0 {
		lines = append(lines[:len(lines):len(lines)], more...)
		delete(trailer, otelprop.HTTPReturnHeader)
	}
	if len(lines) > 0 {
		delete(header, otelprop.HTTPReturnHeader)
	}
	if x.external {
		return
	}
	if len(lines) == 0 {
		if lines = returnLines(e); len(lines) == 0 {
			return
		}
	}
	lent, nonce := x.Lent()
	ret, ok, rejects := otelprop.ReadReturn(lines, nonce, lent)
	x.Dependency().SDK().CountRejects(&rejects)
	if ok {
		x.Result.Returned(ret)
	}
}
