package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/examples/page"
)

// A grpcSide is one column of a page about gRPC: how services make their connections and servers.
type grpcSide struct {
	dial   func(addr string, options ...grpc.DialOption) (*grpc.ClientConn, error)
	server func(entry bool) *grpc.Server
}

func grpcSides(t *testing.T, catalog string, before func(string, ...grpc.DialOption) (*grpc.ClientConn, error),
	after func(string, *chainbudget.SDK, ...grpc.DialOption) (*grpc.ClientConn, error)) [2]func() grpcSide {
	return [2]func() grpcSide{
		func() grpcSide {
			return grpcSide{before, func(bool) *grpc.Server { return grpc.NewServer() }}
		},
		func() grpcSide {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(catalog), chainbudgettest.Sleep())
			return grpcSide{
				dial: func(addr string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
					return after(addr, rec.SDK, options...)
				},
				server: func(entry bool) *grpc.Server {
					return grpc.NewServer(budgetgrpc.ServerOptions(rec.SDK, budgetgrpc.Option{Entry: entry})...)
				},
			}
		},
	}
}

func measureGRPC(t *testing.T, both [2]func() grpcSide) (rows []page.Row) {
	for _, q := range grpcQuestions {
		var cells [2]string
		for i, side := range both {
			synctest.Test(t, func(t *testing.T) { cells[i] = q.ask(t, side) })
		}
		rows = append(rows, page.Row{What: q.what, Before: cells[0], After: cells[1]})
	}
	return rows
}

func TestGRPCMiddlewarePage(t *testing.T) {
	p := readPage(t, "grpcmiddleware")
	p.Compare(t, measureGRPC(t, grpcSides(t, p.Catalog, connWithGRPCMiddleware, connAfterGRPCMiddleware)))
}

func TestServiceConfigPage(t *testing.T) {
	p := readPage(t, "serviceconfig")
	p.Compare(t, measureGRPC(t, grpcSides(t, p.Catalog, connWithServiceConfig, connAfterServiceConfig)))
}

// A pipeListener hands out connections inside the process, so that a test with both ends can be in virtual time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(ctx context.Context, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A shop is a service with three methods. Both streams and calls are counted.
type shop struct {
	attempts int
	call     func(context.Context) error
	list     func(grpc.ServerStream) error
}

func (s *shop) description() *grpc.ServiceDesc {
	unary := func(name string) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.Int32Value)
			if err := decode(in); err != nil {
				return nil, err
			}
			handler := func(ctx context.Context, _ any) (any, error) {
				s.attempts++
				return wrapperspb.Int32(1), s.call(ctx)
			}
			if intercept == nil {
				return handler(ctx, in)
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/shop.Catalog/" + name}, handler)
		}}
	}
	return &grpc.ServiceDesc{
		ServiceName: "shop.Catalog",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{unary("GetItem"), unary("Buy")},
		Streams: []grpc.StreamDesc{{StreamName: "ListItems", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			if err := stream.RecvMsg(new(wrapperspb.Int32Value)); err != nil {
				return err
			}
			s.attempts++
			return s.list(stream)
		}}},
	}
}

// serve returns a connection to the shop, made by the given side. The server is one with the SDK where the side has it.
func (s *shop) serve(t *testing.T, side grpcSide, entry bool, dial func(string, ...grpc.DialOption) (*grpc.ClientConn, error)) *grpc.ClientConn {
	t.Helper()
	listener := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	server := side.server(entry)
	server.RegisterService(s.description(), struct{}{})
	go func() { _ = server.Serve(listener) }()
	conn, err := dial("passthrough:///shop.internal:443", grpc.WithContextDialer(listener.dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
	})
	return conn
}

// ask makes one call of a method within a request of a user, and returns its error.
func ask(t *testing.T, side func() grpcSide, s *shop, work func(context.Context, *grpc.ClientConn) error) (err error) {
	caller := side()
	conn := s.serve(t, side(), false, caller.dial)
	entry := &shop{call: func(ctx context.Context) error {
		err = work(ctx, conn)
		return nil
	}}
	_ = get(t.Context(), entry.serve(t, caller, true, plain))
	return err
}

// plain makes a connection without retries: the user's.
func plain(addr string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())...)
}

func get(ctx context.Context, conn *grpc.ClientConn) error {
	return conn.Invoke(ctx, "/shop.Catalog/GetItem", wrapperspb.Int32(7), new(wrapperspb.Int32Value))
}

func buy(ctx context.Context, conn *grpc.ClientConn) error {
	return conn.Invoke(ctx, "/shop.Catalog/Buy", wrapperspb.Int32(7), new(wrapperspb.Int32Value))
}

// list returns the numbers of the items that a stream gave until it ended.
func list(ctx context.Context, conn *grpc.ClientConn) (items []int32, err error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{StreamName: "ListItems", ServerStreams: true}, "/shop.Catalog/ListItems")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.Int32(7)), stream.CloseSend()); err != nil {
		return nil, err
	}
	for {
		item := new(wrapperspb.Int32Value)
		switch err := stream.RecvMsg(item); err {
		case nil:
			items = append(items, item.Value)
		case io.EOF:
			return items, nil
		default:
			return items, err
		}
	}
}

func failing(code codes.Code) *shop {
	return &shop{call: func(context.Context) error { return status.Error(code, "the shelf is empty") }}
}

// grpcQuestions are the rows of the pages about gRPC.
var grpcQuestions = []struct {
	what string
	ask  func(t *testing.T, side func() grpcSide) string
}{
	{"`GetItem`, always UNAVAILABLE: attempts", func(t *testing.T, side func() grpcSide) string {
		s := failing(codes.Unavailable)
		_ = ask(t, side, s, get)
		return fmt.Sprint(s.attempts)
	}},
	{"two services, one above the other, and below them UNAVAILABLE: attempts there for one request", func(t *testing.T, side func() grpcSide) string {
		s, lower := failing(codes.Unavailable), side()
		below := s.serve(t, side(), false, lower.dial)
		middle := &shop{call: func(ctx context.Context) error { return get(ctx, below) }}
		upper := side()
		conn := middle.serve(t, lower, false, upper.dial)
		top := &shop{call: func(ctx context.Context) error { return get(ctx, conn) }}
		_ = get(t.Context(), top.serve(t, upper, true, plain))
		return fmt.Sprint(s.attempts)
	}},
	{"200 requests, one after another, always UNAVAILABLE: attempts", func(t *testing.T, side func() grpcSide) string {
		s, caller := failing(codes.Unavailable), side()
		conn := s.serve(t, side(), false, caller.dial)
		top := &shop{call: func(ctx context.Context) error { return get(ctx, conn) }}
		user := top.serve(t, caller, true, plain)
		for range 200 {
			_ = get(t.Context(), user)
		}
		return fmt.Sprint(s.attempts)
	}},
	{"`Buy`, which is not idempotent, always UNAVAILABLE: attempts", func(t *testing.T, side func() grpcSide) string {
		s := failing(codes.Unavailable)
		_ = ask(t, side, s, buy)
		return fmt.Sprint(s.attempts)
	}},
	{"`GetItem`, always RESOURCE_EXHAUSTED: attempts", func(t *testing.T, side func() grpcSide) string {
		s := failing(codes.ResourceExhausted)
		_ = ask(t, side, s, get)
		return fmt.Sprint(s.attempts)
	}},
	{"UNAVAILABLE with a RetryInfo of 1 s: at least that between attempts", func(t *testing.T, side func() grpcSide) string {
		var seen []time.Time
		s := &shop{call: func(context.Context) error {
			seen = append(seen, time.Now())
			st, err := status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
			if err != nil {
				t.Error(err)
			}
			return st.Err()
		}}
		_ = ask(t, side, s, get)
		for i := 1; i < len(seen); i++ {
			if seen[i].Sub(seen[i-1]) < time.Second {
				return "no"
			}
		}
		return fmt.Sprintf("yes, %d attempts", len(seen))
	}},
	{"UNAVAILABLE with a pushback of 3 s, and 2 s left: the caller has its answer after", func(t *testing.T, side func() grpcSide) string {
		s := &shop{call: func(ctx context.Context) error {
			if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "3000")); err != nil {
				t.Error(err)
			}
			return status.Error(codes.Unavailable, "the shelf is empty")
		}}
		var took time.Duration
		_ = ask(t, side, s, func(ctx context.Context, conn *grpc.ClientConn) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			begun := time.Now()
			err := get(ctx, conn)
			took = time.Since(begun)
			return err
		})
		return fmt.Sprintf("%v (attempts: %d)", took.Round(time.Second), s.attempts)
	}},
	{"the server sends response headers before it fails: attempts", func(t *testing.T, side func() grpcSide) string {
		s := &shop{call: func(ctx context.Context) error {
			if err := grpc.SendHeader(ctx, metadata.Pairs("shelf", "3")); err != nil {
				t.Error(err)
			}
			return status.Error(codes.Unavailable, "the shelf is empty")
		}}
		_ = ask(t, side, s, get)
		return fmt.Sprint(s.attempts)
	}},
	{"`ListItems` sends 1, 2 and fails, twice, then sends 1, 2, 3: the caller gets", func(t *testing.T, side func() grpcSide) string {
		s := new(shop)
		s.list = func(stream grpc.ServerStream) error {
			for i := range int32(2) {
				if err := stream.SendMsg(wrapperspb.Int32(i + 1)); err != nil {
					return err
				}
			}
			if s.attempts < 3 {
				return status.Error(codes.Unavailable, "the shelf is empty")
			}
			return stream.SendMsg(wrapperspb.Int32(3))
		}
		var items []int32
		err := ask(t, side, s, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
			items, err = list(ctx, conn)
			return err
		})
		return fmt.Sprintf("%v, then %v", items, status.Code(err))
	}},
	{"`status.Code(err)` after the last attempt", func(t *testing.T, side func() grpcSide) string {
		return fmt.Sprint(status.Code(ask(t, side, failing(codes.Unavailable), get)))
	}},
	{"`err.(interface{ GRPCStatus() *status.Status })` works", func(t *testing.T, side func() grpcSide) string {
		_, ok := ask(t, side, failing(codes.Unavailable), get).(interface{ GRPCStatus() *status.Status })
		return fmt.Sprint(ok)
	}},
	{"the status' message after the last attempt", func(t *testing.T, side func() grpcSide) string {
		return fmt.Sprintf("%q", status.Convert(ask(t, side, failing(codes.Unavailable), get)).Message())
	}},
}
