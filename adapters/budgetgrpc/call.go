package budgetgrpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// call is the state of one call, unary or of a stream.
type call struct {
	engine.Call
	client *client
	cc     *grpc.ClientConn // nil where something else than gRPC's own connection is below
	method string
	info   *methodInfo
	opts   []grpc.CallOption
	creds  credentials.PerRPCCredentials // the caller's own for this call
	desc   *grpc.StreamDesc              // nil = unary
	stream *clientStream                 // likewise

	req, reply any
	invoke     grpc.UnaryInvoker

	external bool
	free     bool // the callee refused the latest sending, and it may go out once more for nothing
	freed    bool // that happened to this attempt already
	begun    time.Time
	current  *attempt
	first    attempt        // part of the call, so that a call without retries allocates once
	last     *status.Status // of the latest failed attempt
}

// begin starts the call. What it returns is to be called at its end.
func (x *call) begin(ctx context.Context, in *engine.Inbound, policy *engine.Policy) (end func()) {
	end = nothing
	x.begun = time.Now()
	if total, limited := x.client.takeOver(x.cc, x.method); limited {
		// It spans all attempts, in gRPC as here.
		ctx, end = context.WithTimeout(ctx, total)
	}
	x.external = policy.External(x.client.host(x.cc))
	for _, o := range x.opts {
		if c, ok := o.(grpc.PerRPCCredsCallOption); ok {
			x.creds = c.Creds
		}
	}
	options := engine.CallOptions{
		Shape:      x.info.shape,
		Idempotent: x.info.idempotent,
		Replayable: true,
		External:   x.external,
		Alone:      true, // no hedges: what the adapter keeps is of one attempt at a time
	}
	if x.info.limited {
		options.MaxAttempts = x.info.limit.attempts
	}
	if in != nil && x.req != nil {
		if failed, _, _ := in.Tracker.Failures(); len(failed) > 0 {
			options.Operation = x.info.identify(x.req)
		}
	}
	x.Begin(ctx, in, policy, options)
	return end
}

func nothing() {}

// run makes attempts until one succeeds or a gate refuses.
func (x *call) run() error {
	now := x.begun
	reason, err := x.Admit(now)
	for {
		if reason != ownership.ReasonAllowed {
			x.Refuse(reason, err)
			return x.giveUp()
		}
		failure := x.try(now)
		switch {
		case x.free:
			now = time.Now()
			reason, err = x.resend(now)
			continue
		case !x.Result.Failed && !x.Result.Canceled, x.Inner():
			return failure
		case !x.again():
			return x.giveUp()
		}
		now = time.Now()
		reason, err = x.admit(now)
	}
}

// admit asks for the next attempt.
func (x *call) admit(now time.Time) (ownership.Reason, error) {
	x.freed = false
	return x.Admit(now)
}

// resend sends an attempt again that the callee has refused. It is no retry: gRPC would have made it by itself.
func (x *call) resend(now time.Time) (ownership.Reason, error) {
	x.free, x.freed = false, true
	x.Dependency().SDK().HiddenRepeat()
	return x.Resend(now)
}

// again decides about another attempt, and sleeps.
func (x *call) again() bool { return x.Decide(x.Now()) && x.Await() && x.Backoff() }

// giveUp ends a call that has failed.
func (x *call) giveUp() error {
	if x.req != nil {
		x.Identify(x.info.identify(x.req))
	}
	return failure(x.Parent(), x.Finish(), x.last)
}

// try makes one attempt of a unary call and settles it.
func (x *call) try(now time.Time) error {
	a := x.next()
	ctx := x.prepare(a, now)
	returned := false
	defer func() {
		if !returned { // something below panicked, or ended its goroutine
			x.abandon(a)
		}
	}()
	err := x.invoke(ctx, x.method, x.req, x.reply, x.cc, a.options()...)
	returned = true
	a.Disarm()
	x.settle(a, err)
	x.hideReturn()
	a.Release()
	return err
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
func (x *call) settle(a *attempt, err error) {
	x.judge(a, err)
	if x.Result.Failed && a.peer.Addr != nil {
		x.TalkedTo(a.peer.Addr.String())
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
