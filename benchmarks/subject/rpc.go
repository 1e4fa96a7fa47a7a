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
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// rpcWay is one library's way to make calls of gRPC: what the connection is made with, and the context of each worker's
// calls.
type rpcWay struct {
	dial    []grpc.DialOption
	serve   []grpc.ServerOption
	context func() context.Context
}

// rpcs are calls of a unary method that succeed at the first attempt, over gRPC's own connections within the process.
func rpcs() []Subject {
	const client, hop = "grpc/first_attempt", "grpc/full_hop"
	sdk := func(s *stage) rpcWay {
		sdk := newSDK(catalog)
		return rpcWay{
			dial:    budgetgrpc.DialOptions((*chainbudget.Dependency)(dependency(sdk, "plain"))),
			context: func() context.Context { return s.inRequest(sdk) },
		}
	}
	sdkHop := func(s *stage) rpcWay {
		w := sdk(s)
		w.serve = budgetgrpc.ServerOptions((*chainbudget.SDK)(newSDK(catalog)))
		return w
	}
	bare := func(s *stage) rpcWay { return rpcWay{context: s.serverContext} }
	return []Subject{
		rpc(client, SDK, sdk),
		rpc(client, Bare, bare),
		rpc(client, Failsafe, func(s *stage) rpcWay {
			retry := failsafegrpc.NewRetryPolicyBuilder[any]().WithMaxAttempts(3).WithBudget(roomyBudget()).Build()
			breaker := circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.5, 20, 10*time.Second).WithDelay(5 * time.Second).Build()
			return rpcWay{
				dial:    []grpc.DialOption{grpc.WithUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(retry, breaker))},
				context: s.serverContext,
			}
		}),
		rpc(client, Middleware, func(s *stage) rpcWay {
			again := retry.UnaryClientInterceptor(retry.WithMax(3), retry.WithCodes(codes.Unavailable))
			return rpcWay{dial: []grpc.DialOption{grpc.WithUnaryInterceptor(again)}, context: s.serverContext}
		}),
		rpc(hop, SDK, sdkHop),
		rpc(hop, Bare, bare),
	}
}

const emptyMethod = "/subject.RPC/Empty"

func rpc(path, who string, way func(*stage) rpcWay) Subject {
	return Subject{Path: path, Who: who, open: func() *stage {
		s := new(stage)
		w := way(s)
		conn := s.connect(w)
		s.worker = func() Op {
			ctx := w.context()
			return func() error { return conn.Invoke(ctx, emptyMethod, &emptypb.Empty{}, &emptypb.Empty{}) }
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
		Methods: []grpc.MethodDesc{{MethodName: "Empty", Handler: serveEmpty}},
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

func serveEmpty(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	req := new(emptypb.Empty)
	if err := decode(req); err != nil {
		return nil, err
	}
	handle := func(context.Context, any) (any, error) { return req, nil }
	if intercept == nil {
		return handle(ctx, req)
	}
	return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: emptyMethod}, handle)
}
