package subject

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// rpcWay is one library's way to make calls of gRPC: what the connection is made with, and the context of each worker's
// calls.
type rpcWay struct {
	dial    []grpc.DialOption
	serve   []grpc.ServerOption
	context func() context.Context
	around  func(context.Context, func(context.Context) error) error // nil = nothing
}

// rpcs are calls of a unary method, over gRPC's own connections within the process. They succeed at the first attempt, or
// at the second; or they fail and are not repeated because there is no budget for it; or an open breaker refuses them.
func rpcs() []Subject {
	const first, retry, denied, refused, hop = "grpc/first_attempt", "grpc/one_retry", "grpc/denied", "grpc/breaker_open", "grpc/full_hop"
	sdk := func(s *stage) rpcWay {
		s.client = newSDK(catalog)
		return rpcWay{
			dial:    budgetgrpc.DialOptions((*chainbudget.Dependency)(dependency(s.client, "plain"))),
			context: func() context.Context { return s.inRequest(s.client) },
		}
	}
	sdkHop := func(s *stage) rpcWay {
		w := sdk(s)
		w.serve = budgetgrpc.ServerOptions((*chainbudget.SDK)(newSDK(catalog)))
		return w
	}
	sdkRefused := func(s *stage) rpcWay {
		s.client = newSDK(catalog)
		return rpcWay{
			dial:    budgetgrpc.DialOptions((*chainbudget.Dependency)(brokenDependency(s.client))),
			context: func() context.Context { return s.inRequest(s.client) },
		}
	}
	failsafeHop := func(s *stage) rpcWay {
		w := failsafeRPC(terms{})(s)
		breaker := circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.5, 20, 10*time.Second).Build()
		w.serve = []grpc.ServerOption{grpc.UnaryInterceptor(failsafegrpc.NewUnaryServerInterceptor[any](breaker))}
		return w
	}
	bare := func(s *stage) rpcWay { return rpcWay{context: s.serverContext} }
	none := terms{fails: true, refuses: true}
	return []Subject{
		rpc(first, SDK, sdk), rpc(first, Bare, bare), rpc(first, Failsafe, failsafeRPC(terms{})), rpc(first, Middleware, middlewareRPC(terms{})),

		rpc(retry, SDK, sdkRPC(catalog, "retrying", alternatingMethod)), rpc(retry, Bare, twiceRPC),
		rpc(retry, Failsafe, failsafeRPC(terms{fails: true})), rpc(retry, Middleware, middlewareRPC(terms{fails: true})),

		rpc(denied, SDK, sdkRPC(emptyChain, "failing", failingMethod)), rpc(denied, Bare, bare),
		rpc(denied, Failsafe, failsafeRPC(none)), rpc(denied, Middleware, middlewareRPC(none)),

		rpc(refused, SDK, sdkRefused), rpc(refused, Failsafe, brokenFailsafeRPC),

		rpc(hop, SDK, sdkHop), rpc(hop, Bare, bare), rpc(hop, Failsafe, failsafeHop),
	}
}

// sdkRPC makes each call in a chain of its own, whose making is part of the cost.
func sdkRPC(catalog string, profile profiles.Name, method string) func(*stage) rpcWay {
	return func(s *stage) rpcWay {
		s.client = newSDK(catalog)
		dep := (*chainbudget.Dependency)(dependency(s.client, profile))
		return rpcWay{
			dial:    budgetgrpc.DialOptions(dep, budgetgrpc.Option{Idempotent: []string{method}}),
			context: s.serverContext,
			around: func(ctx context.Context, call func(context.Context) error) error {
				chain, ctx := s.client.Start(ctx)
				defer chain.End()
				return call(ctx)
			},
		}
	}
}

func twiceRPC(s *stage) rpcWay {
	return rpcWay{context: s.serverContext, around: func(ctx context.Context, call func(context.Context) error) error {
		if err := call(ctx); status.Code(err) != codes.Unavailable {
			return err
		}
		return call(ctx)
	}}
}

func failsafeRPC(t terms) func(*stage) rpcWay {
	return func(s *stage) rpcWay {
		ratio, requests := t.threshold()
		retry := failsafegrpc.NewRetryPolicyBuilder[any]().WithMaxAttempts(3).WithBudget(t.budget()).Build()
		breaker := circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(ratio, requests, 10*time.Second).WithDelay(5 * time.Second).Build()
		return rpcWay{
			dial:    []grpc.DialOption{grpc.WithUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(retry, breaker))},
			context: s.serverContext,
		}
	}
}

func brokenFailsafeRPC(s *stage) rpcWay {
	retry := failsafegrpc.NewRetryPolicyBuilder[any]().WithMaxAttempts(3).WithBudget(terms{}.budget()).Build()
	breaker := circuitbreaker.NewBuilder[any]().WithDelay(time.Hour).Build()
	breaker.Open()
	return rpcWay{
		dial:    []grpc.DialOption{grpc.WithUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(retry, breaker))},
		context: s.serverContext,
	}
}

// middlewareRPC retries, and has neither breaker nor budget.
func middlewareRPC(t terms) func(*stage) rpcWay {
	return func(s *stage) rpcWay {
		again := retry.UnaryClientInterceptor(retry.WithMax(uint(t.tries())), retry.WithCodes(codes.Unavailable), retry.WithBackoff(retry.BackoffLinear(0)))
		return rpcWay{dial: []grpc.DialOption{grpc.WithUnaryInterceptor(again)}, context: s.serverContext}
	}
}

const (
	emptyMethod       = "/subject.RPC/Empty"
	alternatingMethod = "/subject.RPC/Alternating"
	failingMethod     = "/subject.RPC/Failing"
)

func rpc(path, who string, way func(*stage) rpcWay) Subject {
	return Subject{Path: path, Who: who, open: func() *stage {
		s := new(stage)
		w := way(s)
		conn := s.connect(w)
		if w.around == nil {
			w.around = func(ctx context.Context, call func(context.Context) error) error { return call(ctx) }
		}
		workers := uint32(0)
		s.worker = func() Op {
			ctx, number := w.context(), workers
			workers++
			invoke := func(method string, req func() proto.Message) func(context.Context) error {
				return func(ctx context.Context) error { return conn.Invoke(ctx, method, req(), &emptypb.Empty{}) }
			}
			empty := func() proto.Message { return new(emptypb.Empty) }
			switch path {
			case "grpc/one_retry":
				call := invoke(alternatingMethod, func() proto.Message { return wrapperspb.UInt32(number) })
				return func() error { return w.around(ctx, call) }
			case "grpc/denied":
				call := invoke(failingMethod, empty)
				return func() error { return wantDenied(who, w.around(ctx, call)) }
			case "grpc/breaker_open":
				call := invoke(emptyMethod, empty)
				return func() error { return wantBroken(who, w.around(ctx, call)) }
			default:
				call := invoke(emptyMethod, empty)
				return func() error { return w.around(ctx, call) }
			}
		}
		return s
	}}
}

// wantDenied demands the callee's error, which failsafe's way to refuse loses.
func wantDenied(who string, err error) error {
	if who == Failsafe {
		return wantWrapped(err, budget.ErrExceeded)
	}
	if status.Code(err) != codes.Unavailable {
		return fmt.Errorf("want what the callee said, have %w", err)
	}
	return nil
}

func wantBroken(who string, err error) error {
	if who == Failsafe {
		return wantWrapped(err, circuitbreaker.ErrOpen)
	}
	var denied *chainbudget.DeniedError
	if !errors.As(err, &denied) || denied.Reason != ownership.ReasonBreakerOpen {
		return fmt.Errorf("want a refusal by %v, have %w", ownership.ReasonBreakerOpen, err)
	}
	return nil
}

// connect starts a server and connects to it, until the stage ends.
func (s *stage) connect(w rpcWay) *grpc.ClientConn {
	listener := bufconn.Listen(1 << 20)
	gs := grpc.NewServer(w.serve...)
	gs.RegisterService(&grpc.ServiceDesc{
		ServiceName: "subject.RPC", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Empty", Handler: serveRPC[emptypb.Empty](s.empty())},
			{MethodName: "Alternating", Handler: serveRPC[wrapperspb.UInt32Value](s.alternating())},
			{MethodName: "Failing", Handler: serveRPC[emptypb.Empty](s.failing())},
		},
	}, s)
	served := make(chan error, 1)
	go func() { served <- gs.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///payments", append(w.dial,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		panic(err) // the options above are wrong
	}
	s.atEnd(func() {
		conn.Close()
		gs.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			panic(err)
		}
	})
	return conn
}

// empty answers every call.
func (s *stage) empty() func(*emptypb.Empty) error {
	t := s.tally()
	return func(*emptypb.Empty) error {
		t.hit()
		return nil
	}
}

// failing refuses every call.
func (s *stage) failing() func(*emptypb.Empty) error {
	t := s.tally()
	return func(*emptypb.Empty) error {
		t.hit()
		return errUnavailable
	}
}

var errUnavailable = status.Error(codes.Unavailable, "down")

// alternating refuses every other call of each worker, who says its number.
func (s *stage) alternating() func(*wrapperspb.UInt32Value) error {
	var each [64]*tally
	for i := range each {
		each[i] = s.tally()
	}
	return func(worker *wrapperspb.UInt32Value) error {
		if each[worker.GetValue()%64].hit()%2 == 1 {
			return errUnavailable
		}
		return nil
	}
}

// message is a pointer to a message of type M.
type message[M any] interface {
	*M
	proto.Message
}

func serveRPC[M any, P message[M]](answer func(P) error) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		req := P(new(M))
		if err := decode(req); err != nil {
			return nil, err
		}
		handle := func(context.Context, any) (any, error) { return new(emptypb.Empty), answer(req) }
		if intercept == nil {
			return handle(ctx, req)
		}
		return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: emptyMethod}, handle)
	}
}
