package budgetgrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text is what all test methods take and give.
type text = wrapperspb.StringValue

func say(s string) *text { return wrapperspb.String(s) }

// handlers are the methods of the test service; a nil one answers with what it was asked.
type handlers struct {
	call   func(context.Context, *text) (*text, error)
	list   func(*text, grpc.ServerStream) error
	upload func(grpc.ServerStream) error
	chat   func(grpc.ServerStream) error
}

const (
	callMethod   = "/test.Chain/Call"
	listMethod   = "/test.Chain/List"
	uploadMethod = "/test.Chain/Upload"
	chatMethod   = "/test.Chain/Chat"
)

// every says that all test methods may run twice.
var every = budgetgrpc.Option{Idempotent: []string{"/test.Chain/*"}}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: "test.Chain",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Call",
		Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := new(text)
			if err := decode(req); err != nil {
				return nil, err
			}
			h := srv.(*handlers)
			handle := func(ctx context.Context, req any) (any, error) {
				if h.call == nil {
					return req, nil
				}
				return h.call(ctx, req.(*text))
			}
			if intercept == nil {
				return handle(ctx, req)
			}
			return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: callMethod}, handle)
		},
	}},
	Streams: []grpc.StreamDesc{
		{StreamName: "List", ServerStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
			req := new(text)
			if err := stream.RecvMsg(req); err != nil {
				return err
			}
			return srv.(*handlers).list(req, stream)
		}},
		{StreamName: "Upload", ClientStreams: true, Handler: func(srv any, stream grpc.ServerStream) error { return srv.(*handlers).upload(stream) }},
		{StreamName: "Chat", ServerStreams: true, ClientStreams: true, Handler: func(srv any, stream grpc.ServerStream) error { return srv.(*handlers).chat(stream) }},
	},
}

// serve runs a server on the loopback interface until the test ends, and returns its address.
func serve(t testing.TB, h *handlers, options ...grpc.ServerOption) string {
	t.Helper()
	return serveWith(t, h, func(*grpc.Server) {}, options...)
}

// serveWith is serve with services beside the test service.
func serveWith(t testing.TB, h *handlers, register func(*grpc.Server), options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(options...)
	s.RegisterService(&serviceDesc, h)
	register(s)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// nowhere is an address at which nobody listens: no system hands this port out. One that was given back may be another
// test's a moment later.
const nowhere = "127.0.0.1:1"

// dial connects to an address until the test ends.
func dial(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// ask makes one unary call.
func ask(ctx context.Context, conn grpc.ClientConnInterface, options ...grpc.CallOption) error {
	return conn.Invoke(ctx, callMethod, say("x"), new(text), options...)
}

// list opens a server stream and reads it to its end.
func list(ctx context.Context, conn grpc.ClientConnInterface) (got []string, err error) {
	stream, err := conn.NewStream(ctx, &serviceDesc.Streams[0], listMethod)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(say("x")); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	for {
		m := new(text)
		if err := stream.RecvMsg(m); err == io.EOF {
			return got, nil
		} else if err != nil {
			return got, err
		}
		got = append(got, m.GetValue())
	}
}
