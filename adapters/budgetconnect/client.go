package budgetconnect

import (
	"context"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// NewClientInterceptor makes every call of a client a call to dep:
//
//	connect.WithInterceptors(budgetconnect.NewClientInterceptor(payments))
//
// Interceptors after it run for each attempt. With a nil dep calls pass as they are; on a handler it does nothing.
func NewClientInterceptor(dep *chainbudget.Dependency, options ...Option) connect.Interceptor {
	if dep == nil {
		return (*client)(nil)
	}
	return &client{connectrpc.NewClient((*engine.Dependency)(dep), &kinds, "budgetconnect.Option", sum(options).Idempotent)}
}

// client is the interceptor; nil lets everything pass.
type client struct {
	*connectrpc.Client[*connect.Error]
}

var _ connect.Interceptor = (*client)(nil)

// WrapUnary implements [connect.Interceptor].
func (c *client) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	if c == nil {
		return next
	}
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		spec := req.Spec()
		if !spec.IsClient {
			return next(ctx, req)
		}
		in, policy, passes := c.Enter(ctx, spec.Procedure)
		if passes {
			return next(ctx, req)
		}
		method := c.method(spec)
		if err := c.Refusal(ctx, in, policy, method.Idempotent || keyed(req.Header())); err != nil {
			return nil, err
		}
		x := &unary{next: next, req: req}
		x.Method, x.Protocol = method, req.Peer().Protocol
		x.Begin(ctx, in, policy)
		x.Address(req.Peer().Addr)
		if pass := x.Pass(ctx); pass != nil {
			return next(pass, req)
		}
		x.Ask(req.Any(), keyed(req.Header()))
		return x.run()
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (c *client) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	if c == nil {
		return next
	}
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		in, policy, passes := c.Enter(ctx, spec.Procedure)
		if passes {
			return next(ctx, spec)
		}
		return c.open(ctx, spec, next, in, policy)
	}
}

// WrapStreamingHandler implements [connect.Interceptor] with nothing.
func (c *client) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
