package budgetgrpc

import (
	"context"
	"errors"
	"io"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// judge says what an attempt came to.
func (x *call) judge(a *attempt, err error) {
	below := a.history()
	if below.outcome != nil {
		err = below.outcome // the stopped repetition is not what the call came to
	}
	x.free = false
	if (err == nil || err == io.EOF) && a.left() && !a.answered() {
		err = errNoAnswer // gRPC takes a stream that ended without an answer for a success in places
	}
	if err == nil {
		x.takeReturn(a, nil)
		x.Result.Status = rpc.MeaningOf(uint32(codes.OK)).Status
		return
	}
	st := status.Convert(err)
	p := st.Proto()
	if a.answered() {
		x.takeReturn(a, p)
		x.judgeAnswer(a, st, p)
	}
	x.Result.Err, x.last = err, st
	x.judgeError(a, st, below)
	if x.Result.Failed {
		x.Result.Judge(x.Dependency())
	}
}

var errNoAnswer = status.Error(codes.Unavailable, "chainbudget: the stream ended without an answer")

// judgeError says what an attempt means that ended with a status.
func (x *call) judgeError(a *attempt, st *status.Status, below history) {
	r, code := &x.Result, st.Code()
	// gRPC sends again by itself only what never left, or was refused.
	unsent := x.cc != nil && !below.repeated && (!a.left() || below.stopped || !a.answered() && refused(st))
	cause := a.Canceled()
	switch parent := x.Parent().Err(); {
	case parent == context.Canceled && cause == nil:
		r.Failed, r.Canceled, r.Unsent = false, true, unsent
		return
	case parent != nil: // in flight when the deadline passed: it did fail
		r.Failed, r.Retryable, r.Unsent = true, true, unsent
		return
	case cause == engine.ErrAttemptTimeout, code == codes.DeadlineExceeded && !a.answered():
		r.Failed, r.Retryable, r.Unsent = true, !x.overdue(), unsent
		if cause == engine.ErrAttemptTimeout {
			x.last = status.New(codes.DeadlineExceeded, cause.Error())
			r.Err = errors.Join(cause, r.Err)
		} else if a.late() { // the callee was told its time, and has ended the stream first
			r.Err = errors.Join(engine.ErrAttemptTimeout, r.Err)
		}
		return
	}
	if a.answered() {
		if code == codes.DeadlineExceeded && a.late() { // likewise, with an answer
			r.Err = errors.Join(engine.ErrAttemptTimeout, r.Err)
		}
		return
	}
	m := rpc.MeaningOf(uint32(code))
	switch {
	case code == codes.Canceled: // the connection was closed here, or the stream there
		r.Excluded, r.Unsent = true, unsent
	case code == codes.Unavailable: // no connection, or one that broke
		r.Failed, r.Unsent = true, unsent
		r.Retryable = x.allows(code)
		if unsent && a.left() { // the callee refused it
			x.free = below.tries <= 1 && !x.freed
			r.Excluded = x.free
			// What may not run twice is not repeated automatically a second time.
			r.Retryable = r.Retryable && x.info.idempotent
		}
	case !a.left(): // it is the caller's own that cannot be sent
		r.Failed, r.Excluded, r.Unsent = true, true, unsent
	default:
		r.Failed = true
		r.Excluded = m.Status < 500
		r.Retryable = m.Passing && x.Policy().Profile().Retry.RetryStatus(m.Status) && code != codes.ResourceExhausted && x.allows(code)
	}
}

// judgeAnswer says what an answer means that is no success.
func (x *call) judgeAnswer(a *attempt, st *status.Status, p *spb.Status) {
	r, code := &x.Result, st.Code()
	m := rpc.MeaningOf(uint32(code))
	r.Status = m.Status
	hint, hinted, never := rpc.Pushback(a.trailer[rpc.PushbackKey])
	if info, ok := retryInfo(p); ok {
		hint, hinted = max(hint, info), true
	}
	r.Hint, r.HasHint = hint, hinted && !never
	// Where the claim says as much, it is the claim that decides, by the mode.
	claimed := r.HasReturn && (r.Return.Claim == ownership.ClaimUnclaimed || r.Return.Claim == ownership.ClaimStop)
	r.Pushback = never && !claimed
	r.Retryable = m.Passing && x.Policy().Profile().Retry.RetryStatus(m.Status) && x.allows(code) &&
		(code != codes.ResourceExhausted || r.HasHint)
	r.Throttled = code == codes.ResourceExhausted
	r.Failed = m.Status >= 500 || r.Throttled || r.Retryable
	r.Excluded = m.Status < 500
	if code == codes.DeadlineExceeded && x.overdue() {
		r.Retryable = false
	}
}

// allows reports whether the service config, where one was given, lists a code.
func (x *call) allows(c codes.Code) bool { return !x.info.limited || x.info.limit.codes[c] }

// overdue reports whether the time is over that the service config sets for the whole call. It is known at the call's
// beginning, except to the first calls of a connection.
func (x *call) overdue() bool {
	total, limited := x.client.takeOver(x.cc, x.method)
	return limited && time.Since(x.begun) >= total
}

// refused reports whether a status is one of those that gRPC makes up when the callee has said that it did nothing with a
// stream, by REFUSED_STREAM or a GOAWAY. It does not say so in another way.
func refused(st *status.Status) bool {
	if st.Code() != codes.Unavailable {
		return false
	}
	switch st.Message() {
	case "stream terminated by RST_STREAM with error code: REFUSED_STREAM",
		"the connection is draining",
		"the stream is rejected because server is draining the connection",
		"transport is closing":
		return true
	}
	return false
}

// takeReturn reads the return of an attempt: from the trailer, or else from the details of its status. What an outside
// callee says is not believed.
func (x *call) takeReturn(a *attempt, p *spb.Status) {
	if x.external {
		return
	}
	lines := a.trailer[otelprop.ReturnHeader]
	if len(lines) == 0 {
		if lines = returnLines(p); len(lines) == 0 {
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

// hideReturn takes the return out of the trailer that the caller asked for, so that nothing passes it on. I6.
func (x *call) hideReturn() {
	for _, o := range x.opts {
		if t, ok := o.(grpc.TrailerCallOption); ok && t.TrailerAddr != nil {
			withoutReturn(*t.TrailerAddr)
		}
	}
}

func withoutReturn(trailer metadata.MD) metadata.MD {
	delete(trailer, otelprop.ReturnHeader)
	return trailer
}
