package budgetgrpc

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// DialOptions makes every call of a connection a call to dep, and switches gRPC's own retries by policy off:
//
//	conn, err := grpc.NewClient(addr, append(budgetgrpc.DialOptions(payments), grpc.WithTransportCredentials(creds))...)
//
// Interceptors of dial options after these run for each attempt. A nil dep is no options: calls pass as they are.
func DialOptions(dep *chainbudget.Dependency, options ...Option) []grpc.DialOption {
	if dep == nil {
		return nil
	}
	c, err := newClient(dep, options)
	dial := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(c.unary),
		grpc.WithChainStreamInterceptor(c.stream),
		grpc.WithDisableRetry(),
	}
	if refused := refuse(c.dep.SDK(), c.dep.Name(), err); refused != nil {
		dial = append(dial, refused)
	}
	return dial
}

// UnaryClientInterceptor makes every unary call a call to dep, for a connection that is not made with [DialOptions]. It
// takes gRPC's own retries by policy off each call. A nil dep lets calls pass as they are.
func UnaryClientInterceptor(dep *chainbudget.Dependency, options ...Option) grpc.UnaryClientInterceptor {
	if dep == nil {
		return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
	}
	c, err := newClient(dep, options)
	refuse(c.dep.SDK(), c.dep.Name(), err)
	return c.unary
}

// StreamClientInterceptor is [UnaryClientInterceptor] for streams.
func StreamClientInterceptor(dep *chainbudget.Dependency, options ...Option) grpc.StreamClientInterceptor {
	if dep == nil {
		return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(ctx, desc, cc, method, opts...)
		}
	}
	c, err := newClient(dep, options)
	refuse(c.dep.SDK(), c.dep.Name(), err)
	return c.stream
}

// client is what the interceptors of one connection, or of several, have in common.
type client struct {
	dep      *engine.Dependency
	settings settings
	methods  methods

	target  atomic.Pointer[target]
	refused atomic.Pointer[callError] // the latest of Policy.Refusal
}

func newClient(dep *chainbudget.Dependency, options []Option) (*client, error) {
	s, err := read(options)
	return &client{dep: (*engine.Dependency)(dep), settings: s}, err
}

func (c *client) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	in, policy := c.dep.Enter(ctx)
	if policy.Mode() == profiles.ModeBypass || rpc.Probe(method) {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	info := c.methods.of(method, &c.settings)
	if err := c.refusal(ctx, in, policy, info.idempotent && !info.limited); err != nil {
		return err
	}
	x := &call{client: c, cc: cc, method: method, info: info, opts: opts, req: req, invoke: invoke, reply: reply}
	defer x.begin(ctx, in, policy)()
	if pass := x.Pass(ctx); pass != nil {
		return invoke(pass, method, req, reply, cc, opts...)
	}
	return x.run()
}

func (c *client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	in, policy := c.dep.Enter(ctx)
	if policy.Mode() == profiles.ModeBypass || rpc.Probe(method) {
		return open(ctx, desc, cc, method, opts...)
	}
	info := c.methods.of(method, &c.settings)
	if err := c.refusal(ctx, in, policy, info.idempotent && !info.limited); err != nil {
		return nil, err
	}
	s := &clientStream{desc: desc, open: open}
	s.call = call{client: c, cc: cc, method: method, info: info, opts: opts, desc: desc, stream: s}
	s.end = s.begin(ctx, in, policy)
	if pass := s.Pass(ctx); pass != nil {
		s.end()
		return open(pass, desc, cc, method, opts...)
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

// refusal is the error of a call that does not begin: its context has ended, or the breaker refuses. repeatable says that it
// could have had as many attempts as its profile says.
func (c *client) refusal(ctx context.Context, in *engine.Inbound, policy *engine.Policy, repeatable bool) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	denied := policy.Refusal(ctx, in, repeatable)
	if denied == nil {
		return nil
	}
	// Many such calls come while a breaker is open, all with one decision.
	if e := c.refused.Load(); e != nil && e.denied == denied {
		return e
	}
	e := &callError{denied: denied, status: status.New(refusalCode(denied.Reason), denied.Error())}
	c.refused.Store(e)
	return e
}

// takeOver says once that gRPC's own retries are off, where somebody has asked for them, and returns the limit of time
// that the service config sets for the whole call.
func (c *client) takeOver(cc *grpc.ClientConn, method string) (total time.Duration, limited bool) {
	if cc == nil {
		return 0, false
	}
	config := cc.GetMethodConfig(method)
	if config.RetryPolicy != nil {
		c.dep.SDK().Warn("grpc-retry-policy:"+c.dep.Name(), "chainbudget: the gRPC service config has a retryPolicy, which is off: the "+
			"dependency's profile decides; give the config as budgetgrpc.Option's ServiceConfig if its limits are to hold, too",
			"dependency", c.dep.Name(), "method", method)
	}
	if config.Timeout == nil || *config.Timeout < 0 {
		return 0, false
	}
	return *config.Timeout, true
}
