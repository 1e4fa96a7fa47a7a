package budgetconnect2_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect2"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text is what all test procedures take and give.
type text = wrapperspb.StringValue

func say(s string) *text { return wrapperspb.String(s) }

// procedures are those of the test service; a nil one answers with what it was asked.
type procedures struct {
	call   func(context.Context, *text) (*text, error)
	list   func(context.Context, *text, connect.ServerStream) error
	upload func(context.Context, connect.ServerStream) (*text, error)
	chat   func(context.Context, connect.ServerStream) error
}

var (
	callSpec   = connect.Spec{Procedure: "/test.Chain/Call"}
	listSpec   = connect.Spec{Procedure: "/test.Chain/List", StreamType: connect.StreamTypeServer}
	uploadSpec = connect.Spec{Procedure: "/test.Chain/Upload", StreamType: connect.StreamTypeClient}
	chatSpec   = connect.Spec{Procedure: "/test.Chain/Chat", StreamType: connect.StreamTypeBidi}
)

// every says that all test procedures may run twice.
var every = budgetconnect2.Option{Idempotent: []string{"/test.Chain/*"}}

// unary makes a function the handler of a unary procedure, as generated code does.
func unary(call func(context.Context, *text) (*text, error)) connect.ServerFunc {
	return func(ctx context.Context, _ connect.Spec, stream connect.ServerStream) error {
		var req text
		if err := stream.Receive(&req); err != nil {
			return err
		}
		res, err := call(ctx, &req)
		if err != nil {
			return err
		}
		return stream.Send(res)
	}
}

// server is a server of the test service.
func (p *procedures) server(interceptors ...connect.ServerInterceptor) *connect.Server {
	s := connect.NewServer(interceptors...)
	call := p.call
	if call == nil {
		call = func(_ context.Context, req *text) (*text, error) { return req, nil }
	}
	s.Register(connect.Method{Spec: callSpec, Handler: unary(call)})
	if p.list != nil {
		s.Register(connect.Method{Spec: listSpec, Handler: func(ctx context.Context, _ connect.Spec, stream connect.ServerStream) error {
			var req text
			if err := stream.Receive(&req); err != nil {
				return err
			}
			return p.list(ctx, &req, stream)
		}})
	}
	if p.upload != nil {
		s.Register(connect.Method{Spec: uploadSpec, Handler: func(ctx context.Context, _ connect.Spec, stream connect.ServerStream) error {
			res, err := p.upload(ctx, stream)
			if err != nil {
				return err
			}
			return stream.Send(res)
		}})
	}
	if p.chat != nil {
		s.Register(connect.Method{Spec: chatSpec, Handler: func(ctx context.Context, _ connect.Spec, stream connect.ServerStream) error {
			return p.chat(ctx, stream)
		}})
	}
	return s
}

// mux routes the test service's procedures.
func (p *procedures) mux(interceptors ...connect.ServerInterceptor) *http.ServeMux {
	mux := http.NewServeMux()
	connecthttp.Mount(mux, p.server(interceptors...))
	return mux
}

// serve serves the test service with an SDK.
func serve(t testing.TB, p *procedures, rec *chainbudgettest.Recorder, options ...budgetconnect2.Option) string {
	t.Helper()
	return rpctest.Serve(t, p.mux(budgetconnect2.NewServerInterceptor(rec.SDK, options...)))
}

// protocol is one of the three, over one version of HTTP.
type protocol struct {
	name    string
	http2   bool
	options []connecthttp.Option
}

var protocols = []protocol{
	{"connect_http1", false, nil},
	{"connect_http2", true, nil},
	{"grpc", true, []connecthttp.Option{connecthttp.WithGRPC()}},
	{"grpcweb", false, []connecthttp.Option{connecthttp.WithGRPCWeb()}},
}

// eachProtocol runs a test for each protocol.
func eachProtocol(t *testing.T, test func(*testing.T, protocol)) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) { test(t, p) })
	}
}

// client is a client of the service at a URL.
func (p protocol) client(t testing.TB, url string, interceptors ...connect.ClientInterceptor) *connect.Client {
	return connect.NewClient(connecthttp.NewTransport(rpctest.Client(t, p.http2), url, p.options...), interceptors...)
}

// with makes calls those of a dependency.
func with(dep *chainbudget.Dependency, options ...budgetconnect2.Option) connect.ClientInterceptor {
	return budgetconnect2.NewClientInterceptor(dep, options...)
}

// ask makes one unary call.
func ask(ctx context.Context, c *connect.Client) (*text, error) {
	res := new(text)
	if err := c.CallUnary(ctx, callSpec, say("x"), res); err != nil {
		return nil, err
	}
	return res, nil
}

// list opens a server stream and reads it to its end.
func list(ctx context.Context, c *connect.Client) ([]string, error) {
	stream, err := c.CallServerStream(ctx, listSpec, say("x"))
	if err != nil {
		return nil, err
	}
	return read(stream)
}

// read reads a stream to its end.
func read(stream connect.ClientStream) (got []string, err error) {
	for {
		var m text
		switch err := stream.Receive(&m); {
		case errors.Is(err, io.EOF):
			return got, stream.Close()
		case err != nil:
			stream.Close()
			return got, err
		}
		got = append(got, m.GetValue())
	}
}
