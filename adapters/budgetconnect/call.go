package budgetconnect

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// call is the state of one call, unary or of a stream.
type call struct {
	engine.Call
	client *client
	info   *methodInfo
	peer   connect.Peer

	external   bool
	idempotent bool
	keyed      bool // the request has an idempotency key, for which net/http repeats it, too
	passes     bool // the layer above has written the wire, and this one passes it on
	freed      bool // a replay that net/http wanted went on without a lease: not again
	begun      time.Time
	current    *attempt
	first      attempt        // part of the call, so that a call without retries allocates once
	last       *connect.Error // of the latest failed attempt
}

// begin starts the call. message is what it sends, or nil.
func (x *call) begin(ctx context.Context, in *engine.Inbound, policy *engine.Policy, header http.Header, message any) {
	x.begun = time.Now()
	x.external = x.peer.Addr != "" && policy.External(x.peer.Addr)
	x.keyed = keyed(header)
	x.idempotent = x.info.idempotent || x.keyed
	options := engine.CallOptions{
		Shape:      x.info.shape,
		Idempotent: x.idempotent,
		Replayable: !x.info.streams(),
		External:   x.external,
		Later:      x.info.kind != connect.StreamTypeUnary,
		Alone:      true, // no hedges: what the adapter keeps is of one attempt at a time
	}
	options.Operation = x.operation(in, message)
	x.Begin(ctx, in, policy, options)
}

// operation identifies what a call asks, as far as somebody is going to compare it with what has failed.
func (x *call) operation(in *engine.Inbound, message any) uint64 {
	if in == nil || message == nil {
		return 0
	}
	if failed, _, _ := in.Tracker.Failures(); len(failed) == 0 {
		return 0
	}
	return x.info.identify(message)
}

// keyed reports whether a request has a key by which the callee tells a repetition.
func keyed(h http.Header) bool {
	return len(h["Idempotency-Key"]) > 0 || len(h["X-Idempotency-Key"]) > 0
}

// again decides about another attempt, and sleeps.
func (x *call) again() bool { return x.Decide(x.Now()) && x.Await() && x.Backoff() }

// letReplay reports whether the request goes on once more for nothing and without a lease: net/http wanted to replay it
// on another connection, which was stopped only because it carried a lease. Refusing it now would fail a request that
// succeeds without the SDK.
func (x *call) letReplay() bool {
	if w := &x.current.watch; !w.Stopped() || w.RefusedTwice() || x.freed || x.Parent().Err() != nil {
		return false
	}
	x.freed = true
	return true
}

// giveUp ends a call that has failed. message is what it sent, or nil.
func (x *call) giveUp(message any) error {
	if message != nil {
		x.Identify(x.info.identify(message))
	}
	return failure(x.Parent(), x.Finish(), x.last)
}

// next returns the state of the coming attempt.
func (x *call) next() *attempt {
	a := &x.first
	if x.current != nil {
		a = new(attempt)
	}
	x.current = a
	a.x = x
	return a
}

// settle judges an attempt and gives up its lease.
func (x *call) settle(a *attempt, o outcome) {
	x.judge(a, o)
	if x.Result.Failed {
		if peer := a.watch.Peer(); peer != "" {
			x.TalkedTo(peer)
		}
	}
	x.Done(x.Now())
}

// abandon settles an attempt of which nothing more will be heard: its lease is lost and its permit comes back.
func (x *call) abandon(a *attempt) {
	x.Result.Failed = true
	x.Result.Judge(x.Dependency())
	x.Done(time.Now())
	a.Release()
}

// unary is one unary call.
type unary struct {
	call
	next connect.UnaryFunc
	req  connect.AnyRequest // the caller's, never written
}

// run makes attempts until one succeeds or a gate refuses.
func (x *unary) run() (connect.AnyResponse, error) {
	now := x.begun
	reason, err := x.Admit(now)
	for {
		if reason != ownership.ReasonAllowed {
			x.Refuse(reason, err)
			return nil, x.giveUp(x.req.Any())
		}
		resp, failure := x.try(now)
		switch {
		case !x.Result.Failed && !x.Result.Canceled, x.Inner() && !x.current.watch.Stopped():
			return resp, failure
		case !x.Inner() && x.again():
			now = time.Now()
			reason, err = x.Admit(now)
		case x.letReplay():
			now = time.Now()
			reason, err = x.Repeat(now)
		case x.Inner():
			return resp, failure
		default:
			return nil, x.giveUp(x.req.Any())
		}
	}
}

// try makes one attempt and settles it.
func (x *unary) try(now time.Time) (connect.AnyResponse, error) {
	a := x.call.next()
	header := cleanHeader(x.req.Header(), x.external)
	ctx := x.prepare(a, now, header)
	returned := false
	defer func() {
		if !returned { // something below panicked, or ended its goroutine
			x.abandon(a)
		}
	}()
	resp, err := x.next(ctx, &request{AnyRequest: x.req, header: header})
	returned = true
	a.Disarm()
	if err != nil {
		resp = nil
	}
	o := outcome{err: err}
	if resp != nil {
		o.header, o.trailer = resp.Header(), resp.Trailer()
	}
	x.settle(a, o)
	a.Release()
	return resp, err
}

// request is the caller's request with one attempt's header.
type request struct {
	connect.AnyRequest
	header http.Header
}

// Header returns the attempt's own header map.
func (r *request) Header() http.Header { return r.header }
