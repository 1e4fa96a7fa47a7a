package proxies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// grpc is the block of the document for gRPC.
func (p proxy) grpc(t *testing.T) string {
	t.Helper()
	blocks := documentBlocks(t, p.block)
	if len(blocks) < 2 {
		t.Fatalf("docs/proxies.md has no configuration of %s for gRPC", p.name)
	}
	return blocks[1]
}

// orders is a service of one unary method and one that sends three messages and then ends in the same way.
type orders struct {
	arrived atomic.Int64
	lines   atomic.Pointer[metadata.MD]
	end     func() error
}

func (o *orders) note(ctx context.Context) {
	o.arrived.Add(1)
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		o.lines.CompareAndSwap(nil, &md)
	}
}

var ordersDesc = grpc.ServiceDesc{
	ServiceName: "shop.Orders",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Get",
		Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := new(wrapperspb.StringValue)
			if err := decode(req); err != nil {
				return nil, err
			}
			o := srv.(*orders)
			o.note(ctx) // before the interceptor strips it
			return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/shop.Orders/Get"}, func(context.Context, any) (any, error) {
				return req, o.end()
			})
		},
	}},
	Streams: []grpc.StreamDesc{{StreamName: "List", ServerStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
		o := srv.(*orders)
		o.arrived.Add(1)
		req := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(req); err != nil {
			return err
		}
		for range 3 {
			if err := stream.SendMsg(req); err != nil {
				return err
			}
		}
		return o.end()
	}}},
}

// serveOrders runs the service behind a proxy until the test ends.
func serveOrders(t *testing.T, o *orders) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(budgetgrpc.ServerOptions(newSDK(t, "ledger").SDK)...)
	s.RegisterService(&ordersDesc, o)
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

// dialOrders connects an entry to a proxy; its chain begins here.
func dialOrders(t *testing.T, address string, more ...string) (context.Context, *chainbudgettest.Recorder, *grpc.ClientConn) {
	t.Helper()
	rec := newSDK(t, "shop", more...)
	options := budgetgrpc.DialOptions(rec.Dependency("ledger", steady), budgetgrpc.Option{Idempotent: []string{"/shop.Orders/*"}})
	conn, err := grpc.NewClient("passthrough:///"+address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, end := chainbudget.Start(t.Context(), rec.SDK)
	t.Cleanup(end)
	return ctx, rec, conn
}

func eachGRPC(t *testing.T, test func(t *testing.T, p proxy, s setting)) {
	for _, p := range allProxies {
		for _, s := range settings {
			t.Run(p.name+"/"+s.String(), func(t *testing.T) {
				t.Parallel()
				test(t, p, s)
			})
		}
	}
}

// gRPC's metadata and trailer cross every proxy: the lease of a unary call and of a stream comes home.
func TestTrailersCrossProxies(t *testing.T) {
	eachGRPC(t, func(t *testing.T, p proxy, s setting) {
		service := &orders{end: func() error { return nil }}
		ctx, rec, conn := dialOrders(t, p.start(t, p.snippet(t, p.grpc(t), s, serveOrders(t, service))))
		ctx = metadata.AppendToOutgoingContext(ctx, otelprop.BaggageHeader, "tenant=acme")
		if err := get(ctx, conn); err != nil {
			t.Fatal(err)
		}
		md := *service.lines.Load()
		core, _, _ := strings.Cut(fmt.Sprint(md[otelprop.RequestHeader]), ";")
		if want := "[" + otelprop.MemberKey + "=" + strings.TrimPrefix(core, "[") + ",tenant=acme]"; fmt.Sprint(md[otelprop.BaggageHeader]) != want {
			t.Errorf("baggage %v, want %s", md[otelprop.BaggageHeader], want)
		}
		if n, err := list(ctx, conn); err != nil || n != 3 {
			t.Errorf("the stream brought %d messages and ended with %v", n, err)
		}
		if got := rec.SDK.Totals(); got.Lost != 0 || got.Dependencies["ledger"].Lent != 4 || got.Dependencies["ledger"].Home != 4 {
			t.Errorf("lost %d, lent %d, home %d; want 0 and both leases of 2", got.Lost, got.Dependencies["ledger"].Lent, got.Dependencies["ledger"].Home)
		}
	})
}

// An error's claim comes with the trailer, its code and its text are the callee's.
func TestClaimsCrossProxiesInTrailers(t *testing.T) {
	eachGRPC(t, func(t *testing.T, p proxy, s setting) {
		service := &orders{end: func() error { return status.Error(codes.Unavailable, "no room") }}
		ctx, rec, conn := dialOrders(t, p.start(t, p.snippet(t, p.grpc(t), s, serveOrders(t, service))))
		err := get(ctx, conn)
		if got := status.Convert(err); got.Code() != codes.Unavailable || !strings.Contains(got.Message(), "no room") {
			t.Errorf("the call ends with %v", err)
		}
		if n := service.arrived.Load(); n != 4 {
			t.Errorf("%d attempts arrived, want 4: an answer with a status of gRPC is nothing that a proxy repeats", n)
		}
		if got := rec.SDK.Totals(); got.Lost != 0 {
			t.Errorf("%d tokens are lost", got.Lost)
		}
		checkClaims(t, rec, ownership.ClaimClaimed)
		for _, event := range rec.Events() {
			if event.Owner != "ledger" {
				t.Errorf("attempt %d failed with owner %q", event.Attempt, event.Owner)
			}
		}
	})
}

// What the proxy answers itself is no answer of gRPC. The client takes it for UNAVAILABLE, and the lease is lost.
func TestAnswersOfProxiesCostTheLeaseOfGRPC(t *testing.T) {
	eachGRPC(t, func(t *testing.T, p proxy, s setting) {
		ctx, rec, conn := dialOrders(t, p.start(t, p.snippet(t, p.grpc(t), s, freeAddress(t))))
		if err := get(ctx, conn); status.Code(err) != codes.Unavailable {
			t.Errorf("the call ends with %v", err)
		}
		got := rec.SDK.Totals()
		if d := got.Dependencies["ledger"]; got.Lost != 2 || d.Lent != 2 || d.Attempts != 2 {
			t.Errorf("lost %d of %d lent in %d attempts; want 2 of 2 in 2", got.Lost, d.Lent, d.Attempts)
		}
		checkClaims(t, rec, ownership.ClaimMissing)
	})
}

func get(ctx context.Context, conn grpc.ClientConnInterface) error {
	return conn.Invoke(ctx, "/shop.Orders/Get", wrapperspb.String("1"), new(wrapperspb.StringValue))
}

// list reads a stream to its end and returns how many messages it brought.
func list(ctx context.Context, conn grpc.ClientConnInterface) (int, error) {
	stream, err := conn.NewStream(ctx, &ordersDesc.Streams[0], "/shop.Orders/List")
	if err != nil {
		return 0, err
	}
	if err := stream.SendMsg(wrapperspb.String("1")); err != nil {
		return 0, err
	}
	if err := stream.CloseSend(); err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		if err := stream.RecvMsg(new(wrapperspb.StringValue)); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}
