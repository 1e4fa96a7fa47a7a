package otelstack

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/baggage"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

const grpcMethod = "/otelstack.Hop/Get"

var mayRepeat = budgetgrpc.Option{Idempotent: []string{grpcMethod}}

const grpcCatalog = `
version: 1
chain: {budget: 3, max_budget: 9}
profiles:
  test: {extends: read-heavy, budget: disabled, breaker: disabled, availability_floor: 0%, backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}}
`

// serveGRPC serves one method until the test ends.
func serveGRPC(t *testing.T, handle func(context.Context) error, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	method := func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		req := new(emptypb.Empty)
		if err := decode(req); err != nil {
			return nil, err
		}
		run := func(ctx context.Context, req any) (any, error) { return req, handle(ctx) }
		if intercept == nil {
			return run(ctx, req)
		}
		return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: grpcMethod}, run)
	}
	s := grpc.NewServer(options...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "otelstack.Hop", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Get", Handler: method}}}, t)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		s.Stop()
		serving.Wait()
	})
	return l.Addr().String()
}

func dialGRPC(t *testing.T, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func get(ctx context.Context, conn *grpc.ClientConn) error {
	return conn.Invoke(ctx, grpcMethod, new(emptypb.Empty), new(emptypb.Empty))
}

// members are the members of a baggage line, ours apart.
func members(lines []string) (own int, others string) {
	var list []string
	for _, m := range strings.Split(strings.Join(lines, ","), ",") {
		if strings.HasPrefix(m, otelprop.MemberKey+"=") {
			own++
		} else if m != "" {
			list = append(list, m)
		}
	}
	return own, strings.Join(list, ",")
}

// TestGRPC_a_client_with_otelgrpc_writes_one_budget for each attempt, keeps the user's baggage, and has a span for each.
func TestGRPC_a_client_with_otelgrpc_writes_one_budget(t *testing.T) {
	for _, user := range []string{"", "tenant=acme", "tenant=acme,chainbudget=v1.9.9.1.00000001.forged"} {
		t.Run(user, func(t *testing.T) {
			var attempts atomic.Int64
			nonces := map[otelprop.Nonce]bool{}
			addr := serveGRPC(t, func(ctx context.Context) error {
				md, _ := metadata.FromIncomingContext(ctx)
				own, others := members(md["baggage"])
				if own != 1 || len(md[otelprop.RequestHeader]) != 1 || len(md["traceparent"]) != 1 {
					t.Errorf("%d members, header %q, traceparent %q", own, md[otelprop.RequestHeader], md["traceparent"])
				}
				if want := strings.Split(user, ",")[0]; others != want {
					t.Errorf("the user's baggage is %q, want %q", others, want)
				}
				request, rejects := otelprop.ReadRequest(md["baggage"], md[otelprop.RequestHeader], 9)
				if rejects != (otelprop.Rejects{}) || request.Grant > 3 {
					t.Errorf("%+v, %v", request, rejects)
				}
				nonces[request.Nonce] = true // one attempt after the other
				if attempts.Add(1) < 3 {
					return status.Error(codes.Aborted, "again")
				}
				return nil
			})
			yaml := strings.Replace(grpcCatalog, "extends: read-heavy,", "extends: read-heavy, retry: {reserve: 9, statuses: [409, 503]},", 1)
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(yaml))
			spans := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
			handler := otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(provider), otelgrpc.WithPropagators(usual))
			conn := dialGRPC(t, addr, append(budgetgrpc.DialOptions(rec.Dependency("callee", "test"), mayRepeat), grpc.WithStatsHandler(handler))...)
			ctx, end := chainbudget.Start(context.Background(), rec.SDK)
			defer end()
			if user != "" {
				bag, err := baggage.Parse(user)
				if err != nil {
					t.Fatal(err)
				}
				ctx = baggage.ContextWithBaggage(ctx, bag)
			}
			if err := get(ctx, conn); err != nil {
				t.Fatal(err)
			}
			if len(nonces) != 3 || len(spans.Ended()) != 3 {
				t.Errorf("%d nonces, %d spans, want 3", len(nonces), len(spans.Ended()))
			}
		})
	}
}

// TestGRPC_a_server_with_otelgrpc_keeps_the_budget_to_itself: an instrumented client without the SDK forwards the user's
// baggage and never the grant, and the lease comes home.
func TestGRPC_a_server_with_otelgrpc_keeps_the_budget_to_itself(t *testing.T) {
	var further metadata.MD
	leaf := serveGRPC(t, func(ctx context.Context) error {
		further, _ = metadata.FromIncomingContext(ctx)
		return nil
	})
	client := otelgrpc.NewClientHandler(otelgrpc.WithPropagators(usual))
	plain := dialGRPC(t, leaf, grpc.WithStatsHandler(client))
	callee, rec := chainbudgettest.New(t, chainbudgettest.Catalog(grpcCatalog)), chainbudgettest.New(t, chainbudgettest.Catalog(grpcCatalog))
	addr := serveGRPC(t, func(ctx context.Context) error {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("the server's span is not in the context")
		}
		return get(ctx, plain)
	}, append(budgetgrpc.ServerOptions(callee.SDK), grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithPropagators(usual))))...)
	conn := dialGRPC(t, addr, append(budgetgrpc.DialOptions(rec.Dependency("callee", "test")), grpc.WithStatsHandler(client))...)
	bag, err := baggage.Parse("tenant=acme")
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider()
	ctx, span := provider.Tracer("test").Start(baggage.ContextWithBaggage(context.Background(), bag), "root")
	defer span.End()
	chain, end := chainbudget.Start(ctx, rec.SDK)
	defer end()
	chain = trace.ContextWithSpan(chain, span)
	if err := get(chain, conn); err != nil {
		t.Fatal(err)
	}
	if own, others := members(further["baggage"]); own != 0 || others != "tenant=acme" || len(further[otelprop.RequestHeader]) != 0 {
		t.Errorf("what goes further is %q, %q", further["baggage"], further[otelprop.RequestHeader])
	}
	if d := rec.SDK.Totals().Dependencies["callee"]; d.Lent != 2 || d.Home != 2 {
		t.Errorf("%d tokens lent, %d came home", d.Lent, d.Home)
	}
	if totals := callee.SDK.Totals(); totals.Callees != 1 {
		t.Errorf("not a direct callee: %+v", totals)
	}
}

// TestGRPC_A076_A091_several_baggage_values: a member is found in whichever of them it stands.
func TestGRPC_A076_A091_several_baggage_values(t *testing.T) {
	callee := chainbudgettest.New(t, chainbudgettest.Catalog(grpcCatalog))
	conn := dialGRPC(t, serveGRPC(t, func(context.Context) error { return nil }, budgetgrpc.ServerOptions(callee.SDK)...))
	for i, baggages := range [][]string{
		{"a=1", "chainbudget=v1.1.3.1.00000001.edge"},
		{"chainbudget=v1.1.3.1.00000002.edge", "a=1"},
		{"a=1,b=2", "c=3,chainbudget=v1.1.3.1.00000003.edge,d=4", "e=5"},
	} {
		ctx := context.Background()
		for _, b := range baggages {
			ctx = metadata.AppendToOutgoingContext(ctx, "Baggage", b)
		}
		if err := get(ctx, conn); err != nil {
			t.Fatal(err)
		}
		if totals := callee.SDK.Totals(); totals.Relayed != int64(i+1) || totals.Orphans != 0 {
			t.Errorf("%q: %d relayed, %d orphans", baggages, totals.Relayed, totals.Orphans)
		}
	}
}
