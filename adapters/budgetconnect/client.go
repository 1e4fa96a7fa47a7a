package budgetconnect

import (
	"context"
	"fmt"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/profiles"
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
	c := &client{dep: (*engine.Dependency)(dep)}
	var err error
	if c.idempotent, err = patterns(options); err != nil {
		c.misread(err)
	}
	return c
}

// client is the interceptor; nil lets everything pass.
type client struct {
	dep        *engine.Dependency
	idempotent []string
	unreadable *connect.Error // of every call, where warnings are errors
	methods    connectrpc.Methods
	refused    atomic.Pointer[callError] // the latest of Policy.Refusal
}

var _ connect.Interceptor = (*client)(nil)

// misread warns of options that could not be read.
func (c *client) misread(err error) {
	const what = "chainbudget: budgetconnect.Option cannot be read and is left out"
	sdk := c.dep.SDK()
	sdk.Warn("connect-option:"+c.dep.Name(), what, "dependency", c.dep.Name(), "problems", err.Error())
	if sdk.Strict() {
		// Connect has no option that is an error.
		c.unreadable = connect.NewError(connect.CodeInternal, fmt.Errorf("%s: dependency %.64s: %w", what, c.dep.Name(), err))
	}
}

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
		in, policy := c.dep.Enter(ctx)
		if policy.Mode() == profiles.ModeBypass || rpc.Probe(spec.Procedure) {
			return next(ctx, req)
		}
		method := c.method(spec)
		if err := c.refusal(ctx, in, policy, method.Idempotent); err != nil {
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
		in, policy := c.dep.Enter(ctx)
		if policy.Mode() == profiles.ModeBypass || rpc.Probe(spec.Procedure) {
			return next(ctx, spec)
		}
		return c.open(ctx, spec, next, in, policy)
	}
}

// WrapStreamingHandler implements [connect.Interceptor] with nothing.
func (c *client) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// refusal is the error of a call that does not begin: its context has ended, or the breaker refuses. repeatable says that it
// could have been retried.
func (c *client) refusal(ctx context.Context, in *engine.Inbound, policy *engine.Policy, repeatable bool) error {
	if err := ctx.Err(); err != nil {
		return connect.NewError(contextCode(err), err)
	}
	if c.unreadable != nil {
		return c.unreadable
	}
	denied := policy.Refusal(ctx, in, repeatable)
	if denied == nil {
		return nil
	}
	// Many such calls come while a breaker is open, all with one decision.
	if e := c.refused.Load(); e != nil && e.denied == denied {
		return e
	}
	e := &callError{denied: denied, last: connect.NewError(refusalCode(denied.Reason), denied)}
	c.refused.Store(e)
	return e
}
