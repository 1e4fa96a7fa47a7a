package subject

import (
	"context"
	"errors"
	"net"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// connectWay is one way to make calls of connect: what stands in the client and in the handler, and the context of each
// worker's calls.
type connectWay struct {
	client, handler connect.Interceptor
	context         func() context.Context
}

// connects are calls of a unary procedure that succeed at the first attempt, over net/http on the loopback
// interface. No library of retries has an interceptor of connect to compare with, so that people put one together.
func connects() []Subject {
	const client, hop = "connect/first_attempt", "connect/full_hop"
	sdk := func(s *stage) connectWay {
		sdk := newSDK(catalog)
		s.client = sdk
		return connectWay{
			client:  budgetconnect.NewClientInterceptor((*chainbudget.Dependency)(dependency(sdk, "plain"))),
			context: func() context.Context { return s.inRequest(sdk) },
		}
	}
	sdkHop := func(s *stage) connectWay {
		w := sdk(s)
		w.handler = budgetconnect.NewHandlerInterceptor((*chainbudget.SDK)(newSDK(catalog)))
		return w
	}
	bare := func(s *stage) connectWay { return connectWay{context: s.serverContext} }
	byHand := func(s *stage) connectWay {
		breaker := newGoBreaker[connect.AnyResponse](terms{})
		return connectWay{context: s.serverContext, client: connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				guarded := func() (connect.AnyResponse, error) {
					return breaker.Execute(func() (connect.AnyResponse, error) { return next(ctx, req) })
				}
				return retried(ctx, guarded, terms{})
			}
		})}
	}
	return []Subject{
		connected(client, SDK, sdk), connected(client, Bare, bare), connected(client, ByHand, byHand),
		connected(hop, SDK, sdkHop), connected(hop, Bare, bare),
	}
}

func connected(path, who string, way func(*stage) connectWay) Subject {
	return Subject{Path: path, Who: who, open: func() *stage {
		s := new(stage)
		w := way(s)
		client := s.connectClient(w)
		s.worker = func() Op {
			ctx := w.context()
			return func() error {
				_, err := client.CallUnary(ctx, connect.NewRequest(&emptypb.Empty{}))
				return err
			}
		}
		return s
	}}
}

// connectClient starts a server and returns a client of it, until the stage ends.
func (s *stage) connectClient(w connectWay) *connect.Client[emptypb.Empty, emptypb.Empty] {
	t := s.tally()
	client := s.loopback(connect.NewUnaryHandler(emptyMethod, func(_ context.Context, req *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
		t.hit()
		return connect.NewResponse(req.Msg), nil
	}, connect.WithInterceptors(w.handler)))
	return connect.NewClient[emptypb.Empty, emptypb.Empty](client, "http://payments"+emptyMethod, connect.WithInterceptors(w.client))
}

// loopback serves a handler and returns a client whose requests all go there, until the stage ends.
func (s *stage) loopback(h http.Handler) *http.Client {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // net/http's server cancels requests over connections that are none
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	pool := &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		},
	}
	s.atEnd(func() {
		pool.CloseIdleConnections()
		server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	})
	return &http.Client{Transport: pool}
}
