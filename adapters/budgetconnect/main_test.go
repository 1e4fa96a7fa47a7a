package budgetconnect_test

import (
	"context"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect"
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
	call   func(context.Context, *connect.Request[text]) (*connect.Response[text], error)
	list   func(context.Context, *connect.Request[text], *connect.ServerStream[text]) error
	upload func(context.Context, *connect.ClientStream[text]) (*connect.Response[text], error)
	chat   func(context.Context, *connect.BidiStream[text, text]) error
}

const (
	callProcedure   = "/test.Chain/Call"
	listProcedure   = "/test.Chain/List"
	uploadProcedure = "/test.Chain/Upload"
	chatProcedure   = "/test.Chain/Chat"
)

// every says that all test procedures may run twice.
var every = budgetconnect.Option{Idempotent: []string{"/test.Chain/*"}}

// mux routes the test service's procedures.
func (p *procedures) mux(options ...connect.HandlerOption) *http.ServeMux {
	mux := http.NewServeMux()
	call := p.call
	if call == nil {
		call = func(_ context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
			return connect.NewResponse(req.Msg), nil
		}
	}
	mux.Handle(callProcedure, connect.NewUnaryHandler(callProcedure, call, options...))
	if p.list != nil {
		mux.Handle(listProcedure, connect.NewServerStreamHandler(listProcedure, p.list, options...))
	}
	if p.upload != nil {
		mux.Handle(uploadProcedure, connect.NewClientStreamHandler(uploadProcedure, p.upload, options...))
	}
	if p.chat != nil {
		mux.Handle(chatProcedure, connect.NewBidiStreamHandler(chatProcedure, p.chat, options...))
	}
	return mux
}

// server serves the test service with an SDK.
func server(t testing.TB, p *procedures, rec *chainbudgettest.Recorder, options ...budgetconnect.Option) string {
	t.Helper()
	return rpctest.Serve(t, p.mux(connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(rec.SDK, options...))))
}

// protocol is one of the three, over one version of HTTP.
type protocol struct {
	name    string
	http2   bool
	options []connect.ClientOption
}

var protocols = []protocol{
	{"connect_http1", false, nil},
	{"connect_http2", true, nil},
	{"grpc", true, []connect.ClientOption{connect.WithGRPC()}},
	{"grpcweb", false, []connect.ClientOption{connect.WithGRPCWeb()}},
}

// eachProtocol runs a test for each protocol.
func eachProtocol(t *testing.T, test func(*testing.T, protocol)) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) { test(t, p) })
	}
}

// client is a client of one procedure.
func (p protocol) client(t testing.TB, url, procedure string, options ...connect.ClientOption) *connect.Client[text, text] {
	return connect.NewClient[text, text](rpctest.Client(t, p.http2), url+procedure, append(options, p.options...)...)
}

// plain is a client of the unary procedure without the SDK.
func (p protocol) plain(t testing.TB, url string) *connect.Client[text, text] {
	return p.client(t, url, callProcedure)
}

// with is the client option that makes calls those of a dependency.
func with(dep *chainbudget.Dependency, options ...budgetconnect.Option) connect.ClientOption {
	return connect.WithInterceptors(budgetconnect.NewClientInterceptor(dep, options...))
}

// ask makes one unary call.
func ask(ctx context.Context, c *connect.Client[text, text]) (*connect.Response[text], error) {
	return c.CallUnary(ctx, connect.NewRequest(say("x")))
}

// list opens a server stream and reads it to its end.
func list(ctx context.Context, c *connect.Client[text, text]) (got []string, err error) {
	stream, err := c.CallServerStream(ctx, connect.NewRequest(say("x")))
	if err != nil {
		return nil, err
	}
	for stream.Receive() {
		got = append(got, stream.Msg().GetValue())
	}
	err = stream.Err()
	if closed := stream.Close(); err == nil {
		err = closed
	}
	return got, err
}
