package subject

import (
	"context"
	"net/http"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect2"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// connect2Way is connectWay for version 2. By hand a call is repeated around the client: an interceptor would have to be a
// stream.
type connect2Way struct {
	client  []connect.ClientInterceptor
	server  []connect.ServerInterceptor
	context func() context.Context
	around  func(context.Context, Op) error
}

// connects2 are the calls of connects over version 2.
func connects2() []Subject {
	const client, hop = "connect2/first_attempt", "connect2/full_hop"
	sdk := func(s *stage) connect2Way {
		sdk := newSDK(catalog)
		s.client = sdk
		return connect2Way{
			client:  []connect.ClientInterceptor{budgetconnect2.NewClientInterceptor((*chainbudget.Dependency)(dependency(sdk, "plain")))},
			context: func() context.Context { return s.inRequest(sdk) },
		}
	}
	sdkHop := func(s *stage) connect2Way {
		w := sdk(s)
		w.server = []connect.ServerInterceptor{budgetconnect2.NewServerInterceptor((*chainbudget.SDK)(newSDK(catalog)))}
		return w
	}
	bare := func(s *stage) connect2Way { return connect2Way{context: s.serverContext} }
	byHand := func(s *stage) connect2Way {
		breaker := newGoBreaker[struct{}](terms{})
		return connect2Way{context: s.serverContext, around: func(ctx context.Context, op Op) error {
			guarded := func() (struct{}, error) {
				return breaker.Execute(func() (struct{}, error) { return struct{}{}, op() })
			}
			_, err := retried(ctx, guarded, terms{})
			return err
		}}
	}
	return []Subject{
		connected2(client, SDK, sdk), connected2(client, Bare, bare), connected2(client, ByHand, byHand),
		connected2(hop, SDK, sdkHop), connected2(hop, Bare, bare),
	}
}

func connected2(path, who string, way func(*stage) connect2Way) Subject {
	return Subject{Path: path, Who: who, open: func() *stage {
		s := new(stage)
		w := way(s)
		spec := connect.Spec{Procedure: emptyMethod}
		t := s.tally()
		server, mux := connect.NewServer(w.server...), http.NewServeMux()
		server.Register(connect.Method{Spec: spec, Handler: func(_ context.Context, _ connect.Spec, stream connect.ServerStream) error {
			t.hit()
			req := new(emptypb.Empty)
			if err := stream.Receive(req); err != nil {
				return err
			}
			return stream.Send(req)
		}})
		connecthttp.Mount(mux, server)
		client := connect.NewClient(connecthttp.NewTransport(s.loopback(mux), "http://payments"), w.client...)
		s.worker = func() Op {
			ctx := w.context()
			op := func() error { return client.CallUnary(ctx, spec, &emptypb.Empty{}, &emptypb.Empty{}) }
			if w.around == nil {
				return op
			}
			return func() error { return w.around(ctx, op) }
		}
		return s
	}}
}
