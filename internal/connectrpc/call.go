package connectrpc

import (
	"context"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// Call is the state of one call, unary or of a stream.
type Call struct {
	engine.Call
	Method   *Method
	Protocol string

	External bool // it leaves the fleet
	Keyed    bool // the request has an idempotency key, for which net/http repeats it, too
	Passes   bool // the layer above has written the wire, and this one passes it on
	freed    bool // a replay that net/http wanted went on without a lease: not again
	Begun    time.Time
	Current  *Attempt
	first    Attempt // part of the call, so that a call without retries allocates once
}

// Begin starts the call. What it asks is said by Ask.
func (x *Call) Begin(ctx context.Context, in *engine.Inbound, policy *engine.Policy) {
	x.Begun = time.Now()
	x.Call.Begin(ctx, in, policy, engine.CallOptions{
		Shape:      x.Method.Shape,
		Idempotent: x.Method.Idempotent,
		Replayable: !x.Method.Streams(),
		Later:      true,
		Alone:      true, // no hedges: what the adapters keep is of one attempt at a time
	})
}

// Address sets whom the call is for, as a host with or without a port; "" is nobody outside.
func (x *Call) Address(host string) {
	if host != "" && x.Policy().External(host) {
		x.External = true
		x.Leave()
	}
}

// Ask sets what the call asks, before its first attempt: message is what it sends, nil where that is more than one. keyed
// says that the request has an idempotency key.
func (x *Call) Ask(message any, keyed bool) {
	if x.Keyed = keyed; keyed {
		x.AllowRepeat()
	}
	x.Call.Ask(x.operation(message))
}

// operation identifies what a call asks, as far as somebody is going to compare it with what has failed.
func (x *Call) operation(message any) uint64 {
	if message == nil {
		return 0
	}
	if failed, _, _ := x.Inbound().Tracker.Failures(); len(failed) == 0 {
		return 0
	}
	return x.Method.identify(message)
}

// again decides about another attempt, and sleeps.
func (x *Call) again() bool { return x.Decide(x.Now()) && x.Await() && x.Backoff() }

// letReplay reports whether the request goes on once more for nothing and without a lease: net/http wanted to replay it
// on another connection, which was stopped only because it carried a lease. Refusing it now would fail a request that
// succeeds without the SDK.
func (x *Call) letReplay() bool {
	if w := &x.Current.Watch; !w.Stopped() || w.RefusedTwice() || x.freed || x.Parent().Err() != nil {
		return false
	}
	x.freed = true
	return true
}

// Run makes attempts of a unary call until one succeeds or a gate refuses. try makes one and settles it. Without a denial
// the call ends with what the latest attempt came to.
func (x *Call) Run(now time.Time, message any, unary interface{ Try(now time.Time) }) *ownership.DeniedError {
	reason, err := x.Admit(now)
	for {
		if reason != ownership.ReasonAllowed {
			x.Refuse(reason, err)
			return x.GiveUp(message)
		}
		unary.Try(now)
		switch {
		case !x.Result.Failed && !x.Result.Canceled, x.Inner() && !x.Current.Watch.Stopped():
			return nil
		case !x.Inner() && x.again():
			now = time.Now()
			reason, err = x.Admit(now)
		case x.letReplay():
			now = time.Now()
			reason, err = x.Repeat(now)
		case x.Inner():
			return nil
		default:
			return x.GiveUp(message)
		}
	}
}

// GiveUp ends a call that has failed. message is what it sent, or nil.
func (x *Call) GiveUp(message any) *ownership.DeniedError {
	if message != nil {
		x.Identify(x.Method.identify(message))
	}
	return x.Finish()
}

// Next returns the state of the coming attempt.
func (x *Call) Next() *Attempt {
	a := &x.first
	if x.Current != nil {
		a = new(Attempt)
	}
	x.Current = a
	a.x = x
	return a
}

// Settle gives up the lease of an attempt that was judged.
func (x *Call) Settle(a *Attempt) {
	if x.Result.Failed {
		if peer := a.Watch.Peer(); peer != "" {
			x.TalkedTo(peer)
		}
	}
	x.Done(x.Now())
}

// Abandon settles an attempt of which nothing more will be heard, because something below panicked or ended its goroutine:
// its lease is lost and its permit comes back.
func (x *Call) Abandon(a *Attempt) {
	x.Result.Failed = true
	x.Result.Judge(x.Dependency())
	x.Done(time.Now())
	a.Release()
}
