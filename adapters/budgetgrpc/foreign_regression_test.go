package budgetgrpc_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// TestRegression_policy_retries_do_not_multiply: four attempts by gRPC's policy times three of ours are what our budget
// allows, and not twelve, however the SDK is installed.
func TestRegression_policy_retries_do_not_multiply(t *testing.T) {
	three := rpctest.Catalog + "  three: {extends: test, retry: {max_attempts: 3}}\n"
	for name, install := range map[string]func(*chainbudget.Dependency) []grpc.DialOption{
		"dial_options": func(d *chainbudget.Dependency) []grpc.DialOption { return budgetgrpc.DialOptions(d, every) },
		"interceptors": func(d *chainbudget.Dependency) []grpc.DialOption {
			return []grpc.DialOption{
				grpc.WithUnaryInterceptor(budgetgrpc.UnaryClientInterceptor(d, every)),
				grpc.WithStreamInterceptor(budgetgrpc.StreamClientInterceptor(d, every)),
				grpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(1 << 20)),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls, streams atomic.Int64
			h := unavailable(&calls)
			h.list = func(*text, grpc.ServerStream) error { streams.Add(1); return down }
			rec, callee := chainbudgettest.New(t, chainbudgettest.Catalog(three)), rpctest.SDK(t, "callee")
			conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(callee.SDK)...),
				append(install(rec.Dependency("callee", "three")), grpc.WithDefaultServiceConfig(policy4))...)
			assert.Equal(t, codes.Unavailable, status.Code(ask(rpctest.Begin(t, rec), conn)))
			assert.EqualValues(t, 3, calls.Load())
			_, err := list(rpctest.Begin(t, rec), conn)
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.EqualValues(t, 3, streams.Load())
			assert.Zero(t, callee.SDK.Totals().Foreign)
		})
	}
}

// TestGRPC_policies_multiply shows what the test above is about, in gRPC alone.
func TestGRPC_policies_multiply(t *testing.T) {
	var calls atomic.Int64
	three := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
		for range 3 {
			if err = invoke(ctx, method, req, reply, cc, opts...); err == nil {
				return nil
			}
		}
		return err
	}
	conn := dial(t, serve(t, unavailable(&calls)), grpc.WithDefaultServiceConfig(policy4), grpc.WithUnaryInterceptor(three))
	require.NoError(t, ask(t.Context(), dial(t, serve(t, &handlers{}))))
	for conn.GetMethodConfig(callMethod).RetryPolicy == nil { // known once the connection is
		calls.Store(0)
		_ = ask(t.Context(), conn)
	}
	calls.Store(0)
	_ = ask(t.Context(), conn)
	assert.EqualValues(t, 12, calls.Load())
}

// TestRegression_a_foreign_client_is_told_to_stop: one that retries by policy calls a hop that has retried already.
func TestRegression_a_foreign_client_is_told_to_stop(t *testing.T) {
	for mode, want := range map[profiles.Mode][2]int64{
		profiles.ModeEnforce: {1, 2}, // the orphan's token is spent next to the cause
		profiles.ModeBudget:  {4, 8}, // ownership is not enforced, and not by this either; each is an orphan with a token
	} {
		t.Run(mode.String(), func(t *testing.T) {
			var hop, leaf atomic.Int64
			last := rpctest.SDK(t, "leaf")
			rec := rpctest.SDK(t, "hop", chainbudgettest.Mode(mode))
			below := dial(t, serve(t, unavailable(&leaf), budgetgrpc.ServerOptions(last.SDK)...), budgetgrpc.DialOptions(rec.Dependency("leaf", "test"), every)...)
			h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
				hop.Add(1)
				return nil, ask(ctx, below)
			}}
			addr := serve(t, h, budgetgrpc.ServerOptions(rec.SDK)...)
			conn := dial(t, addr, grpc.WithDefaultServiceConfig(policy4))
			conn.Connect()
			for conn.GetMethodConfig(callMethod).RetryPolicy == nil {
				_ = conn.Invoke(t.Context(), "/test.Chain/None", say("x"), new(text))
			}
			err := ask(t.Context(), conn)
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.Equal(t, want, [2]int64{hop.Load(), leaf.Load()})
		})
	}
}

// TestRegression_a_foreign_counter_sets_the_grant_to_0
func TestRegression_a_foreign_counter_sets_the_grant_to_0(t *testing.T) {
	for name, c := range map[string]struct {
		key, value string
		foreign    bool
	}{
		"policy_retry":       {"grpc-previous-rpc-attempts", "1", true},
		"first_by_policy":    {"grpc-previous-rpc-attempts", "0", false},
		"envoy_second":       {"x-envoy-attempt-count", "2", true},
		"envoy_first":        {"x-envoy-attempt-count", "1", false},
		"envoy_nonsense":     {"x-envoy-attempt-count", "two", false},
		"a_layer_outside_us": {"x-retry-attempt", "1", false}, // a call of its own, with a lease of its own
	} {
		t.Run(name, func(t *testing.T) {
			rec, callee := rpctest.SDK(t, "caller"), rpctest.SDK(t, "callee")
			conn := dial(t, serve(t, &handlers{}, budgetgrpc.ServerOptions(callee.SDK)...), budgetgrpc.DialOptions(rec.Dependency("callee", "test"))...)
			require.NoError(t, ask(metadata.AppendToOutgoingContext(rpctest.Begin(t, rec), c.key, c.value), conn))
			assert.Equal(t, c.foreign, callee.SDK.Totals().Foreign == 1)
			d := rec.SDK.Totals().Dependencies["callee"]
			assert.EqualValues(t, 2, d.Lent)
			if c.foreign {
				assert.Zero(t, d.Home)
			} else {
				assert.EqualValues(t, 2, d.Home)
			}
		})
	}
}

// overHTTP serves gRPC through net/http, whose answers are never Trailers-Only.
func overHTTP(t *testing.T, h *handlers, options ...grpc.ServerOption) (addr string, dialed grpc.DialOption) {
	gs := grpc.NewServer(options...)
	gs.RegisterService(&serviceDesc, h)
	s := httptest.NewUnstartedServer(http.HandlerFunc(gs.ServeHTTP))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.Close(); gs.Stop() })
	config := s.Client().Transport.(*http.Transport).TLSClientConfig
	creds := credentials.NewTLS(&tls.Config{RootCAs: config.RootCAs, ServerName: "example.com"})
	return s.Listener.Addr().String(), grpc.WithTransportCredentials(creds)
}

// TestRegression_behind_net_http_the_SDK_retries_where_gRPC_does_not
func TestRegression_behind_net_http_the_SDK_retries_where_gRPC_does_not(t *testing.T) {
	var calls atomic.Int64
	h := &handlers{
		call: func(_ context.Context, m *text) (*text, error) {
			if calls.Add(1) < 3 {
				return nil, down
			}
			return m, nil
		},
		list: func(_ *text, s grpc.ServerStream) error {
			if calls.Add(1) < 3 {
				return down
			}
			return s.SendMsg(say("1"))
		},
	}
	callee := rpctest.SDK(t, "callee")
	addr, creds := overHTTP(t, h, budgetgrpc.ServerOptions(callee.SDK)...)
	rec := rpctest.SDK(t, "caller")
	connect := func(options ...grpc.DialOption) *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:///"+addr, append(options, creds)...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		return conn
	}
	conn := connect(budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...)
	require.NoError(t, ask(rpctest.Begin(t, rec), conn))
	assert.EqualValues(t, 3, calls.Load())
	calls.Store(0)
	got, err := list(rpctest.Begin(t, rec), conn)
	require.NoError(t, err)
	assert.Equal(t, []string{"1"}, got)
	assert.EqualValues(t, 3, calls.Load())
	assert.Zero(t, rec.SDK.Totals().Lost, "the trailer brings the return")

	calls.Store(0)
	assert.Equal(t, codes.Unavailable, status.Code(ask(t.Context(), connect(grpc.WithDefaultServiceConfig(policy4)))))
	assert.EqualValues(t, 1, calls.Load(), "gRPC alone")
}

// TestRegression_the_server_sets_no_header_on_errors: one would switch the retries of callers without the SDK off.
func TestRegression_the_server_sets_no_header_on_errors(t *testing.T) {
	var calls atomic.Int64
	callee := rpctest.SDK(t, "callee")
	addr := serve(t, answers(&calls, down, nil), budgetgrpc.ServerOptions(callee.SDK)...)
	conn := dial(t, addr, grpc.WithDefaultServiceConfig(policy4))
	conn.Connect()
	for conn.GetMethodConfig(callMethod).RetryPolicy == nil {
		_ = conn.Invoke(t.Context(), "/test.Chain/None", say("x"), new(text))
	}
	assert.NoError(t, ask(t.Context(), conn), "claimed by the callee: its first caller may retry")
	assert.EqualValues(t, 2, calls.Load())
}

// TestRegression_interceptors_inside_run_for_each_attempt
func TestRegression_interceptors_inside_run_for_each_attempt(t *testing.T) {
	var calls, inside, outside atomic.Int64
	count := func(n *atomic.Int64) grpc.UnaryClientInterceptor {
		return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			n.Add(1)
			if a, ok := chainbudget.AttemptFromContext(ctx); ok {
				assert.EqualValues(t, n.Load(), a.Number)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}
	}
	rec := rpctest.SDK(t, "caller")
	callee := rpctest.SDK(t, "callee")
	options := append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(count(&outside))}, budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...)
	conn := dial(t, serve(t, answers(&calls, down, down), budgetgrpc.ServerOptions(callee.SDK)...), append(options, grpc.WithChainUnaryInterceptor(count(&inside)))...)
	require.NoError(t, ask(rpctest.Begin(t, rec), conn))
	assert.EqualValues(t, 1, outside.Load())
	assert.EqualValues(t, 3, inside.Load())
}

// TestRegression_a_retry_layer_below_brings_no_lease_twice: its repetition is stopped, and decided about here.
func TestRegression_a_retry_layer_below_brings_no_lease_twice(t *testing.T) {
	again := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
		for range 3 {
			if err = invoke(ctx, method, req, reply, cc, opts...); err == nil {
				return nil
			}
		}
		return err
	}
	for name, c := range map[string]struct {
		first error
		calls int64
		code  codes.Code
	}{
		"after_a_failure":   {down, 1, codes.Unavailable},
		"after_a_challenge": {status.Error(codes.Unauthenticated, "expired"), 2, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			rec := rpctest.SDK(t, "caller")
			options := append(budgetgrpc.DialOptions(rec.Dependency("callee", "test")), grpc.WithChainUnaryInterceptor(again))
			conn := dial(t, serve(t, answers(&calls, c.first)), options...)
			err := ask(rpctest.Begin(t, rec), conn)
			assert.Equal(t, c.code, status.Code(err), "%v", err)
			assert.Equal(t, c.calls, calls.Load())
			if c.code != codes.OK {
				assert.Equal(t, "down", status.Convert(err).Message(), "what the callee said, not what stopped the repetition")
				assert.Equal(t, []ownership.Reason{ownership.ReasonNotIdempotent}, rec.Reasons())
				assert.Positive(t, rec.SDK.Totals().HiddenRepeats)
			}
		})
	}
}

// TestRegression_the_callers_own_credentials_stay
func TestRegression_the_callers_own_credentials_stay(t *testing.T) {
	h := &handlers{call: func(ctx context.Context, m *text) (*text, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		assert.Equal(t, []string{"Bearer x"}, md["authorization"])
		return m, nil
	}}
	rec, callee := rpctest.SDK(t, "caller"), rpctest.SDK(t, "callee")
	conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(callee.SDK)...), budgetgrpc.DialOptions(rec.Dependency("callee", "test"))...)
	require.NoError(t, ask(rpctest.Begin(t, rec), conn, grpc.PerRPCCredentials(bearer{})))
	err := ask(rpctest.Begin(t, rec), conn, grpc.PerRPCCredentials(bearer{fails: true}))
	assert.Equal(t, codes.Unauthenticated, status.Code(err))
	assert.Zero(t, rec.SDK.Totals().Lost, "nothing was sent")
}

type bearer struct{ fails bool }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if b.fails {
		return nil, status.Error(codes.Unauthenticated, "no token")
	}
	return map[string]string{"authorization": "Bearer x"}, nil
}
func (bearer) RequireTransportSecurity() bool { return false }
