package subject

import (
	"context"
	"errors"
	"net"
	"time"

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
// at the second.
func rpcs() []Subject {
	const client, retry, hop = "grpc/first_attempt", "grpc/one_retry", "grpc/full_hop"
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
	retrying := func(s *stage) rpcWay {
		s.client = newSDK(catalog)
		dep := (*chainbudget.Dependency)(dependency(s.client, "retrying"))
		return rpcWay{
			dial:    budgetgrpc.DialOptions(dep, budgetgrpc.Option{Idempotent: []string{alternatingMethod}}),
			context: s.serverContext,
			around: func(ctx context.Context, call func(context.Context) error) error {
				chain, ctx := s.client.Start(ctx)
				defer chain.End()
				return call(ctx)
			},
		}
	}
	bare := func(s *stage) rpcWay { return rpcWay{context: s.serverContext} }
	twice := func(s *stage) rpcWay {
		return rpcWay{context: s.serverContext, around: func(ctx context.Context, call func(context.Context) error) error {
			if err := call(ctx); status.Code(err) != codes.Unavailable {
				return err
			}
			return call(ctx)
		}}
	}
	return []Subject{
		rpc(client, SDK, sdk), rpc(client, Bare, bare), rpc(client, Failsafe, failsafeRPC(terms{})), rpc(client, Middleware, middlewareRPC),
		rpc(retry, SDK, retrying), rpc(retry, Bare, twice), rpc(retry, Failsafe, failsafeRPC(terms{fails: true})), rpc(retry, Middleware, middlewareRPC),
		rpc(hop, SDK, sdkHop), rpc(hop, Bare, bare),
	}
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

// middlewareRPC retries, and has neither breaker nor budget.
func middlewareRPC(s *stage) rpcWay {
	again := retry.UnaryClientInterceptor(retry.WithMax(3), retry.WithCodes(codes.Unavailable), retry.WithBackoff(retry.BackoffLinear(0)))
	return rpcWay{dial: []grpc.DialOption{grpc.WithUnaryInterceptor(again)}, context: s.serverContext}
}

const (
	emptyMethod       = "/subject.RPC/Empty"
	alternatingMethod = "/subject.RPC/Alternating"
)

func rpc(path, who string, way func(*stage) rpcWay) Subject {
	return Subject{Path: path, Who: who, open: func() *stage {
		s := new(stage)
		w := way(s)
		conn := s.connect(w)
		workers := 0
		s.worker = func() Op {
			ctx := w.context()
			call := func(ctx context.Context) error {
				return conn.Invoke(ctx, emptyMethod, &emptypb.Empty{}, &emptypb.Empty{})
			}
			if path == "grpc/one_retry" {
				who := uint32(workers)
				call = func(ctx context.Context) error {
					return conn.Invoke(ctx, alternatingMethod, wrapperspb.UInt32(who), &emptypb.Empty{})
				}
			}
			workers++
			if w.around == nil {
				return func() error { return call(ctx) }
			}
			return func() error { return w.around(ctx, call) }
		}
		return s
	}}
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

// alternating refuses every other call of each worker, who says its number.
func (s *stage) alternating() func(*wrapperspb.UInt32Value) error {
	var each [64]*tally
	for i := range each {
		each[i] = s.tally()
	}
	return func(worker *wrapperspb.UInt32Value) error {
		if each[worker.GetValue()%64].hit()%2 == 1 {
			return status.Error(codes.Unavailable, "down")
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
