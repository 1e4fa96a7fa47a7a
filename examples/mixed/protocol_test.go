package mixed

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	connect2 "connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect"
	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect2"
	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask makes one call of a hop to the next: nil, or the error that the hop returns if the call's failure is its own.
type ask func(context.Context) error

// protocol is what a hop speaks to its callers.
type protocol struct {
	name string
	// serve runs a service until the test ends, and returns its address. handle is the user's code, d what requests pass
	// before they come to the SDK: nil = nothing.
	serve func(t *testing.T, d *door, sdk *chainbudget.SDK, entry bool, handle ask) (address string)
	// dial makes calls of a service, as those of a dependency; with nil as those of somebody without the SDK.
	dial func(t *testing.T, address string, dep *chainbudget.Dependency) ask
}

var (
	overHTTP     = protocol{"http", serveHTTP, dialHTTP}
	overGRPC     = protocol{"grpc", serveGRPC, dialGRPC}
	overConnect  = protocol{"connect", serveConnect, dialConnect()}
	connectGRPC  = protocol{"connect_grpc", serveConnect, dialConnect(connect.WithGRPC())}
	connectWeb   = protocol{"connect_grpcweb", serveConnect, dialConnect(connect.WithGRPCWeb())}
	overConnect2 = protocol{"connect2", serveConnect2, dialConnect2()}
	connect2GRPC = protocol{"connect2_grpc", serveConnect2, dialConnect2(connecthttp.WithGRPC())}
	connect2Web  = protocol{"connect2_grpcweb", serveConnect2, dialConnect2(connecthttp.WithGRPCWeb())}
	// One version of a library, asked by the other.
	connectByConnect2 = protocol{"connect_asked_by_connect2", serveConnect, dialConnect2()}
	connect2ByConnect = protocol{"connect2_asked_by_connect", serveConnect2, dialConnect()}
	// The gRPC of one library, asked by the other's.
	connectByGRPC = protocol{"connect_asked_by_grpc", serveConnect, dialGRPC}
	grpcByConnect = protocol{"grpc_asked_by_connect", serveGRPC, dialConnect(connect.WithGRPC())}
)

const procedure = "/mixed.Chain/Call"

type text = wrapperspb.StringValue

func serveHTTP(t *testing.T, d *door, sdk *chainbudget.SDK, entry bool, handle ask) string {
	var options []budgethttp.HandlerOption
	if entry {
		options = append(options, budgethttp.Entry())
	}
	return listen(t, d, budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		err := handle(r.Context())
		switch denied := (*chainbudget.DeniedError)(nil); {
		case err == nil:
			return nil
		case errors.As(err, &denied):
			return &httpError{err}
		default: // to a HandlerFunc an error that wraps no call is the hop's own; a plain handler says no such thing
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return nil
		}
	}), sdk, options...))
}

// httpError is an error with a status.
type httpError struct{ error }

func (e *httpError) Unwrap() error   { return e.error }
func (e *httpError) HTTPStatus() int { return http.StatusServiceUnavailable }

// listen serves HTTP/1 and cleartext HTTP/2.
func listen(t *testing.T, d *door, h http.Handler) string {
	s := httptest.NewUnstartedServer(d.outside(h))
	s.Listener = d.listener(s.Listener)
	if d != nil { // which panics on purpose, and net/http writes each down
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
	}
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func dialHTTP(t *testing.T, address string, dep *chainbudget.Dependency) ask {
	pool := &http.Transport{MaxIdleConnsPerHost: 256} // else a soak runs out of ports
	t.Cleanup(pool.CloseIdleConnections)
	client := &http.Client{Transport: budgethttp.NewTransport(pool, dep)}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+procedure, nil)
		if err != nil {
			return err
		}
		if tag := tagOf(ctx); tag != "" {
			req.Header.Set(tagHeader, tag)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		switch denied := budgethttp.Denied(resp); {
		case resp.StatusCode == http.StatusOK:
			return nil
		case denied != nil:
			return denied
		default:
			return errors.New(resp.Status)
		}
	}
}

func serveGRPC(t *testing.T, d *door, sdk *chainbudget.SDK, entry bool, handle ask) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = d.listener(l)
	s := grpc.NewServer(append(d.interceptors(), budgetgrpc.ServerOptions(sdk, budgetgrpc.Option{Entry: entry})...)...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "mixed.Chain", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Call",
		Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := new(text)
			if err := decode(req); err != nil {
				return nil, err
			}
			return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: procedure}, func(ctx context.Context, req any) (any, error) {
				if err := handle(ctx); err != nil {
					return nil, &grpcError{err}
				}
				return req, nil
			})
		},
	}}}, nil)
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

// grpcError is an error with a status.
type grpcError struct{ error }

func (e *grpcError) Unwrap() error              { return e.error }
func (e *grpcError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, "down") }

func dialGRPC(t *testing.T, address string, dep *chainbudget.Dependency) ask {
	options := budgetgrpc.DialOptions(dep, budgetgrpc.Option{Idempotent: []string{"/mixed.Chain/*"}})
	conn, err := grpc.NewClient("passthrough:///"+address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context) error {
		if tag := tagOf(ctx); tag != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, tagHeader, tag)
		}
		return conn.Invoke(ctx, procedure, new(text), new(text))
	}
}

func serveConnect(t *testing.T, d *door, sdk *chainbudget.SDK, entry bool, handle ask) string {
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
		if err := handle(ctx); err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, err)
		}
		return connect.NewResponse(req.Msg), nil
	}, connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(sdk, budgetconnect.Option{Entry: entry}))))
	return listen(t, d, mux)
}

func dialConnect(options ...connect.ClientOption) func(*testing.T, string, *chainbudget.Dependency) ask {
	return func(t *testing.T, address string, dep *chainbudget.Dependency) ask {
		interceptor := budgetconnect.NewClientInterceptor(dep, budgetconnect.Option{Idempotent: []string{"/mixed.Chain/*"}})
		client := connect.NewClient[text, text](http2Client(t), "http://"+address+procedure,
			append(options[:len(options):len(options)], connect.WithInterceptors(interceptor))...)
		return func(ctx context.Context) error {
			req := connect.NewRequest(new(text))
			if tag := tagOf(ctx); tag != "" {
				req.Header().Set(tagHeader, tag)
			}
			_, err := client.CallUnary(ctx, req)
			return err
		}
	}
}

func serveConnect2(t *testing.T, d *door, sdk *chainbudget.SDK, entry bool, handle ask) string {
	server := connect2.NewServer(budgetconnect2.NewServerInterceptor(sdk, budgetconnect2.Option{Entry: entry}))
	server.Register(connect2.Method{Spec: connect2.Spec{Procedure: procedure}, Handler: func(ctx context.Context, _ connect2.Spec, stream connect2.ServerStream) error {
		req := new(text)
		if err := stream.Receive(req); err != nil {
			return err
		}
		if err := handle(ctx); err != nil {
			return connect2.NewError(connect2.CodeUnavailable, "down").WithCause(err)
		}
		return stream.Send(req)
	}})
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server)
	return listen(t, d, mux)
}

func dialConnect2(options ...connecthttp.Option) func(*testing.T, string, *chainbudget.Dependency) ask {
	return func(t *testing.T, address string, dep *chainbudget.Dependency) ask {
		interceptor := budgetconnect2.NewClientInterceptor(dep, budgetconnect2.Option{Idempotent: []string{"/mixed.Chain/*"}})
		client := connect2.NewClient(connecthttp.NewTransport(http2Client(t), "http://"+address, options...), interceptor)
		return func(ctx context.Context) error {
			ctx, info := connect2.NewClientContext(ctx)
			if tag := tagOf(ctx); tag != "" {
				info.RequestHeader().Set(tagHeader, tag)
			}
			return client.CallUnary(ctx, connect2.Spec{Procedure: procedure}, new(text), new(text))
		}
	}
}

// http2Client speaks cleartext HTTP/2 until the test ends.
func http2Client(t *testing.T) *http.Client {
	pool := &http.Transport{Protocols: new(http.Protocols)}
	pool.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(pool.CloseIdleConnections)
	return &http.Client{Transport: pool}
}

// order is which protocol each hop of a chain speaks, the entry first.
type order []protocol

var orders = []order{
	{overHTTP, overGRPC, overConnect},
	{overConnect, overGRPC, overHTTP},
	{connectGRPC, overHTTP, connectWeb, grpcByConnect, connectByGRPC},
	{overConnect2, connectByConnect2, connect2GRPC, overHTTP, connect2Web, connect2ByConnect},
}

func (o order) String() string {
	names := make([]string, len(o))
	for i, p := range o {
		names[i] = p.name
	}
	return strings.Join(names, "_")
}

func (o order) at(hop int) protocol { return o[hop%len(o)] }
