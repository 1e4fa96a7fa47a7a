package budgetgrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/sabotage"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// shape is one of gRPC's kinds of call that can be repeated.
type shape struct {
	stream bool
	broken sabotage.Sabotage // nothing, but in the tests of the suite itself
}

// adapter describes the package to the conformance suite.
func (s shape) adapter() chainbudgettest.Adapter {
	a := chainbudgettest.Adapter{
		Name: "budgetgrpc, unary calls",
		Lacks: map[chainbudgettest.Capability]string{
			chainbudgettest.Bodies:          "a failure in gRPC is a status, without messages of its own",
			chainbudgettest.NetHTTP:         "it is not an adapter of net/http",
			chainbudgettest.Upgrades:        "a connection of HTTP/2 is shared, so nobody can take it over",
			chainbudgettest.Bases:           "a call in gRPC returns an error or nothing: there is no both and no neither",
			chainbudgettest.ReturnsInHeader: "a header on an error switches other clients' own retries off, so the return is a trailer",
		},
		Serve: s.serve, Dial: s.dial,
	}
	if s.stream {
		a.Name = "budgetgrpc, server streams"
		a.Lacks[chainbudgettest.Operations] = "what a stream asks is in messages that are sent after it has begun"
	} else {
		a.Lacks[chainbudgettest.Streams] = "the answer to a unary call is one message"
	}
	return a
}

const (
	suiteService = "suite.Suite"
	suiteRead    = "/suite.Suite/Read"   // unary, may run twice
	suiteWrite   = "/suite.Suite/Write"  // unary
	suiteList    = "/suite.Suite/List"   // a server stream, may run twice
	suiteChange  = "/suite.Suite/Change" // a server stream
	suiteUpload  = "/suite.Suite/Upload" // a client stream, which nobody can send again
)

var readers = budgetgrpc.Option{Idempotent: []string{suiteRead, suiteList, suiteUpload}}

// suite serves one handler of the suite under every method.
type suite struct{ handle chainbudgettest.Handler }

// answer runs the handler.
func (s *suite) answer(ctx context.Context, body string, w chainbudgettest.Reply) error {
	md, _ := metadata.FromIncomingContext(ctx)
	w.Header = func(name, value string) { _ = grpc.SetHeader(ctx, metadata.Pairs(name, value)) }
	err := s.handle(ctx, chainbudgettest.Received{Header: http.Header(md), Body: body}, w)
	failure, ok := err.(*chainbudgettest.Failure)
	if !ok {
		return err
	}
	code := codes.Unknown
	if failure.Status == http.StatusServiceUnavailable {
		code = codes.Unavailable
	}
	st := status.New(code, failure.Text)
	if failure.After > 0 {
		delay := durationpb.New(time.Duration(failure.After) * time.Second)
		if st, err = st.WithDetails(&errdetails.RetryInfo{RetryDelay: delay}); err != nil {
			return err
		}
	}
	return st.Err()
}

func (s *suite) unary(name string) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := new(text)
			if err := decode(req); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, req any) (any, error) {
				var whole strings.Builder
				err := s.answer(ctx, req.(*text).GetValue(), chainbudgettest.Reply{
					Return: func(line string) { _ = grpc.SetTrailer(ctx, metadata.Pairs(otelprop.ReturnHeader, line)) },
					Send: func(message string) error {
						whole.WriteString(message)
						return nil
					},
				})
				if err != nil {
					return nil, err
				}
				return say(whole.String()), nil
			}
			info := &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + suiteService + "/" + name}
			if intercept == nil {
				return handle(ctx, req)
			}
			return intercept(ctx, req, info, handle)
		},
	}
}

func (s *suite) stream(name string, fromClient bool) grpc.StreamDesc {
	return grpc.StreamDesc{
		StreamName: name, ServerStreams: !fromClient, ClientStreams: fromClient,
		Handler: func(_ any, stream grpc.ServerStream) error {
			req := new(text)
			if err := stream.RecvMsg(req); err != nil {
				return err
			}
			return s.answer(stream.Context(), req.GetValue(), chainbudgettest.Reply{
				Return: func(line string) { stream.SetTrailer(metadata.Pairs(otelprop.ReturnHeader, line)) },
				Send:   func(message string) error { return stream.SendMsg(say(message)) },
			})
		},
	}
}

func (s shape) serve(t testing.TB, server chainbudgettest.Server) (address string) {
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
			defer recovered(&err)
			return handle(seen(server, ctx), req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
			defer recovered(&err)
			return handle(srv, &streamOf{ServerStream: stream, ctx: seen(server, stream.Context())})
		}),
	}
	if server.SDK != nil {
		options = append(options, grpc.ChainUnaryInterceptor(sabotagedServer(s.broken)))
	}
	for range server.Layers + 1 {
		options = append(options, budgetgrpc.ServerOptions(server.SDK, budgetgrpc.Option{Entry: server.Entry})...)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gs := grpc.NewServer(options...)
	h := &suite{handle: server.Handle}
	gs.RegisterService(&grpc.ServiceDesc{
		ServiceName: suiteService, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{h.unary("Read"), h.unary("Write")},
		Streams: []grpc.StreamDesc{h.stream("List", false), h.stream("Change", false), h.stream("Upload", true)},
	}, h)
	grpc_health_v1.RegisterHealthServer(gs, health.NewServer())
	var serving sync.WaitGroup
	serving.Go(func() { _ = gs.Serve(l) })
	t.Cleanup(func() {
		gs.Stop()
		serving.Wait()
	})
	return l.Addr().String()
}

// seen is what the suite installs outside.
func seen(server chainbudgettest.Server, ctx context.Context) context.Context {
	if server.Outside == nil {
		return ctx
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return server.Outside(ctx, http.Header(md))
}

func recovered(err *error) {
	if recover() != nil {
		*err = status.Error(codes.Internal, "the handler panicked")
	}
}

type streamOf struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamOf) Context() context.Context { return s.ctx }

func (s shape) dial(t testing.TB, l chainbudgettest.Link) chainbudgettest.Client {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if l.Dependency == nil {
		options = append(options, grpc.WithDisableRetry())
	}
	for range l.Layers + 1 {
		options = append(options, budgetgrpc.DialOptions(l.Dependency, readers)...)
	}
	options = append(options, grpc.WithChainUnaryInterceptor(sabotaged(s.broken)))
	conn, err := grpc.NewClient("passthrough:///"+l.Address, options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context, r chainbudgettest.Request) (a chainbudgettest.Answer) {
		if r.Header != nil {
			ctx = metadata.NewOutgoingContext(ctx, metadata.MD(r.Header))
		}
		var header, trailer metadata.MD
		collect := []grpc.CallOption{grpc.Header(&header), grpc.Trailer(&trailer)}
		switch {
		case r.Probe:
			a.Err = conn.Invoke(ctx, grpc_health_v1.Health_Check_FullMethodName, &grpc_health_v1.HealthCheckRequest{}, &grpc_health_v1.HealthCheckResponse{}, collect...)
		case r.Once, s.stream:
			a.Err = s.read(ctx, conn, r, &a, collect)
		default:
			method, reply := suiteRead, new(text)
			if r.Write {
				method = suiteWrite
			}
			a.Err = conn.Invoke(ctx, method, say(r.Operation+r.Body), reply, collect...)
			a.Body = reply.GetValue()
		}
		a.Responded = a.Err == nil
		a.Header = http.Header(metadata.Join(header, trailer))
		if a.Err == nil {
			a.Status = http.StatusOK
			return a
		}
		if denied, ok := errors.AsType[*chainbudget.DeniedError](a.Err); ok {
			a.Denied = denied
		}
		st := status.Convert(a.Err)
		if a.Body == "" {
			a.Body = st.Message()
		}
		switch st.Code() {
		case codes.Unavailable:
			a.Status = http.StatusServiceUnavailable
		case codes.DeadlineExceeded:
			a.Status = http.StatusGatewayTimeout
		case codes.Internal, codes.Unknown:
			a.Status = http.StatusInternalServerError
		}
		return a
	}
}

// read makes a call over a stream, and reads it to its end.
func (s shape) read(ctx context.Context, conn *grpc.ClientConn, r chainbudgettest.Request, a *chainbudgettest.Answer, collect []grpc.CallOption) error {
	desc, method := grpc.StreamDesc{ServerStreams: true}, suiteList
	switch {
	case r.Once:
		desc, method = grpc.StreamDesc{ClientStreams: true}, suiteUpload
	case r.Write:
		method = suiteChange
	}
	stream, err := conn.NewStream(ctx, &desc, method, collect...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(say(r.Operation + r.Body)); err != nil && err != io.EOF {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		m := new(text)
		if err := stream.RecvMsg(m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		a.Body += m.GetValue()
		if r.Each != nil {
			r.Each(m.GetValue())
		}
		if r.Once {
			return nil
		}
	}
}

func TestConformance(t *testing.T) {
	t.Run("unary", func(t *testing.T) { chainbudgettest.Conform(t, shape{}.adapter()) })
	t.Run("server_stream", func(t *testing.T) { chainbudgettest.Conform(t, shape{stream: true}.adapter()) })
}
