package budgetconnect2

import (
	"context"

	"connectrpc.com/connect/v2"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// NewClientInterceptor makes every call of a client a call to dep:
//
//	connect.NewClient(transport, budgetconnect2.NewClientInterceptor(payments))
//
// Interceptors after it run for each attempt. With a nil dep calls pass as they are.
func NewClientInterceptor(dep *chainbudget.Dependency, options ...Option) connect.ClientInterceptor {
	if dep == nil {
		return func(next connect.ClientFunc) connect.ClientFunc { return next }
	}
	c := &client{connectrpc.NewClient((*engine.Dependency)(dep), &kinds, "budgetconnect2.Option", sum(options).Idempotent)}
	return func(next connect.ClientFunc) connect.ClientFunc {
		return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
			return c.open(ctx, spec, next)
		}
	}
}

// client is what the interceptor of a client needs.
type client struct {
	*connectrpc.Client[*connect.Error]
}

// open begins a call.
func (c *client) open(ctx context.Context, spec connect.Spec, next connect.ClientFunc) (connect.ClientStream, error) {
	in, policy, passes := c.Enter(ctx, spec.Procedure)
	if passes {
		return next(ctx, spec)
	}
	t := transport{next: next, spec: spec}
	if t.caller, _ = connect.CallInfoForClientContext(ctx); t.caller == nil {
		t.caller = new(connect.CallInfo) // nobody looks
	}
	method := c.method(spec)
	if err := c.Refusal(ctx, in, policy, method.Idempotent || t.keyed()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx) // closing ends a call
	if spec.StreamType != connect.StreamTypeUnary {
		s := &clientStream{transport: t, cancel: cancel}
		s.Method = method
		s.Begin(ctx, in, policy)
		s.Stream.Open(s, nil, nil)
		s.address(&s.Call)
		return s, nil
	}
	x := &unary{transport: t, cancel: cancel}
	x.Method = method
	x.Begin(ctx, in, policy)
	a := x.Next()
	x.Enter(a, x.Begun)
	x.opened = x.open(a)
	x.address(&x.Call)
	return x, nil
}
