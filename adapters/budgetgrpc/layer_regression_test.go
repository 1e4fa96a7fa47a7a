package budgetgrpc_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// TestI7_one_call_has_one_decision_maker, however many layers of the SDK are for the dependency.
func TestI7_one_call_has_one_decision_maker(t *testing.T) {
	for name, layers := range map[string]int{"one": 1, "two": 2, "three": 3} {
		t.Run(name, func(t *testing.T) {
			var calls, streams atomic.Int64
			h := unavailable(&calls)
			h.list = func(*text, grpc.ServerStream) error { streams.Add(1); return down }
			rec, callee := rpctest.SDK(t, "caller"), rpctest.SDK(t, "callee")
			dep := rec.Dependency("callee", "test")
			var options []grpc.DialOption
			for range layers {
				options = append(options, budgetgrpc.DialOptions(dep, every)...)
			}
			conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(callee.SDK)...), options...)
			assert.Equal(t, codes.Unavailable, status.Code(ask(rpctest.Begin(t, rec), conn)))
			assert.EqualValues(t, 4, calls.Load(), "three tokens: %v", rec.Reasons())
			_, err := list(rpctest.Begin(t, rec), conn)
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.EqualValues(t, 4, streams.Load())
			totals := rec.SDK.Totals()
			assert.Zero(t, totals.Lost)
			assert.EqualValues(t, 2, totals.Dependencies["callee"].Calls)
			assert.Zero(t, callee.SDK.Totals().Rejects["duplicate"])
		})
	}
	t.Run("Do_around_it", func(t *testing.T) {
		var calls atomic.Int64
		rec, callee := rpctest.SDK(t, "caller"), rpctest.SDK(t, "callee")
		dep := rec.Dependency("callee", "test")
		conn := dial(t, serve(t, unavailable(&calls), budgetgrpc.ServerOptions(callee.SDK)...), budgetgrpc.DialOptions(dep, every)...)
		err := chainbudget.Do(rpctest.Begin(t, rec), dep, func(ctx context.Context) error { return chainbudget.Retryable(ask(ctx, conn)) }, chainbudget.Idempotent())
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.EqualValues(t, 4, calls.Load(), "%v", rec.Reasons())
		assert.Zero(t, rec.SDK.Totals().Lost)
		denied := new(chainbudget.DeniedError)
		require.ErrorAs(t, err, &denied)
		assert.Equal(t, "callee", denied.Owner)
	})
	t.Run("servers", func(t *testing.T) {
		rec := rpctest.SDK(t, "callee")
		h := &handlers{list: func(*text, grpc.ServerStream) error { return nil }}
		conn := dial(t, serve(t, h, append(budgetgrpc.ServerOptions(rec.SDK), budgetgrpc.ServerOptions(rec.SDK)...)...))
		trailer, err := exchange(t, direct(t.Context()), conn)
		require.NoError(t, err)
		assert.Equal(t, []string{"v1.2.0.n.9f86d081.l"}, trailer[otelprop.ReturnHeader])
		_, err = list(t.Context(), conn)
		require.NoError(t, err)
		assert.EqualValues(t, 1, rec.SDK.Totals().Callees)
		assert.EqualValues(t, 1, rec.SDK.Totals().Orphans)
	})
}

// TestRegression_an_interceptor_that_panics_settles_the_attempt, and so does one that ends its goroutine.
func TestRegression_an_interceptor_that_panics_settles_the_attempt(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  narrow: {extends: test, breaker: {max_in_flight: 1}}\n"))
			var broken atomic.Bool
			unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if broken.Load() {
					leave()
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			stream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				if broken.Load() {
					leave()
				}
				return open(ctx, desc, cc, method, opts...)
			}
			h := &handlers{list: func(*text, grpc.ServerStream) error { return nil }}
			options := append(budgetgrpc.DialOptions(rec.Dependency("callee", "narrow")), grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream))
			conn := dial(t, serve(t, h), options...)
			for range 3 {
				broken.Store(true)
				for _, call := range []func(){func() { _ = ask(rpctest.Begin(t, rec), conn) }, func() { _, _ = list(rpctest.Begin(t, rec), conn) }} {
					var wg sync.WaitGroup
					wg.Go(func() {
						defer func() { _ = recover() }()
						call()
						t.Error("it returned")
					})
					wg.Wait()
				}
				broken.Store(false)
				assert.NoError(t, ask(rpctest.Begin(t, rec), conn), "the permit is back")
				_, err := list(rpctest.Begin(t, rec), conn)
				assert.NoError(t, err)
			}
		})
	}
}

// TestRegression_nothing_goes_outside: neither to a dependency that is declared external, nor to a target outside.
func TestRegression_nothing_goes_outside(t *testing.T) {
	yaml := rpctest.Catalog + "dependencies:\n  partner: {profile: test, external: true}\n  inside: {profile: test}\n"
	for name, c := range map[string]struct {
		dependency string
		written    bool
	}{"partner": {"partner", false}, "inside": {"inside", true}} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			h := &handlers{call: func(ctx context.Context, m *text) (*text, error) {
				md, _ := metadata.FromIncomingContext(ctx)
				assert.Equal(t, c.written, len(md["chainbudget"]) == 1)
				if !c.written {
					assert.Equal(t, []string{"user=1"}, md["baggage"])
				}
				if calls.Add(1) == 1 {
					assert.NoError(t, grpc.SetTrailer(ctx, metadata.Pairs(otelprop.ReturnHeader, "v1.1.1.s.00000000.-")))
					return nil, down
				}
				return m, nil
			}}
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(yaml))
			conn := dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency(c.dependency, "test"), every)...)
			ctx := metadata.AppendToOutgoingContext(rpctest.Begin(t, rec), "baggage", "user=1,chainbudget=v1.1.1.1.00000000.x")
			require.NoError(t, ask(ctx, conn), "a foreign return is not believed")
			assert.EqualValues(t, 2, calls.Load())
		})
	}
}

// TestRegression_mesh_and_modes_are_as_over_HTTP
func TestRegression_mesh_and_modes_are_as_over_HTTP(t *testing.T) {
	yaml := rpctest.Catalog + "dependencies:\n  meshed: {profile: test, mesh: envoy}\n"
	var calls atomic.Int64
	h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
		calls.Add(1)
		md, _ := metadata.FromIncomingContext(ctx)
		assert.Equal(t, []string{"0"}, md["x-envoy-max-retries"])
		return nil, down
	}}
	callee := rpctest.SDK(t, "callee")
	addr := serve(t, h, budgetgrpc.ServerOptions(callee.SDK)...)
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(yaml))
	_ = ask(rpctest.Begin(t, rec), dial(t, addr, budgetgrpc.DialOptions(rec.Dependency("meshed", "test"), every)...))
	assert.EqualValues(t, 4, calls.Load())

	plain := serve(t, unavailable(&calls))
	for mode, want := range map[profiles.Mode]int64{profiles.ModeBypass: 1, profiles.ModeObserve: 4} {
		calls.Store(0)
		rec := rpctest.SDK(t, "caller", chainbudgettest.Mode(mode))
		err := ask(rpctest.Begin(t, rec), dial(t, plain, budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...))
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, want, calls.Load(), mode)
	}
}

// TestRegression_two_orders_are_no_loop: requests of one method that differ are different requests.
func TestRegression_two_orders_are_no_loop(t *testing.T) {
	yaml := rpctest.Catalog + "  strict: {extends: single, retry: {repeats: refuse}}\n"
	var calls atomic.Int64
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(yaml))
	conn := dial(t, serve(t, unavailable(&calls)), budgetgrpc.DialOptions(rec.Dependency("callee", "strict"))...)
	ctx := rpctest.Begin(t, rec)
	for _, order := range []string{"1", "2", "1", "2", "3"} {
		_ = conn.Invoke(ctx, callMethod, say(order), new(text))
	}
	assert.EqualValues(t, 3, calls.Load())
	assert.EqualValues(t, 2, rec.SDK.Totals().Dependencies["callee"].RepeatedCalls)
	assert.Contains(t, rec.Reasons(), ownership.ReasonMaxAttempts)
}

// TestRegression_each_message_of_a_long_stream_is_a_chain_of_its_own
func TestRegression_each_message_of_a_long_stream_is_a_chain_of_its_own(t *testing.T) {
	var calls atomic.Int64
	leafSDK, rec := rpctest.SDK(t, "leaf"), rpctest.SDK(t, "hop")
	below := dial(t, serve(t, unavailable(&calls), budgetgrpc.ServerOptions(leafSDK.SDK)...), budgetgrpc.DialOptions(rec.Dependency("leaf", "test"), every)...)
	h := &handlers{chat: func(s grpc.ServerStream) error {
		for {
			m := new(text)
			if err := s.RecvMsg(m); err != nil {
				return nil
			}
			ctx, end := chainbudget.Start(s.Context(), rec.SDK)
			err := ask(ctx, below)
			end()
			if e := s.SendMsg(say(status.Code(err).String())); e != nil {
				return e
			}
		}
	}}
	conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(rec.SDK)...))
	s, err := conn.NewStream(direct(t.Context()), &serviceDesc.Streams[2], chatMethod)
	require.NoError(t, err)
	for n := int64(1); n <= 5; n++ {
		require.NoError(t, s.SendMsg(say("x")))
		m := new(text)
		require.NoError(t, s.RecvMsg(m))
		assert.Equal(t, "Unavailable", m.GetValue())
		assert.EqualValues(t, 4*n, calls.Load(), "each has three tokens")
	}
	require.NoError(t, s.CloseSend())
	assert.Error(t, s.RecvMsg(new(text)))
	assert.Equal(t, []string{"v1.2.0.n.9f86d081.l"}, s.Trailer()[otelprop.ReturnHeader], "the stream's own tokens go home")
}

// TestRegression_a_profile_that_hedges_lends_over_gRPC, where nothing is hedged.
func TestRegression_a_profile_that_hedges_lends_over_gRPC(t *testing.T) {
	rec, callee := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  hedged: {extends: test, hedge: {after: 1ms, max: 1}}\n")), rpctest.SDK(t, "callee")
	conn := dial(t, serve(t, &handlers{}, budgetgrpc.ServerOptions(callee.SDK)...), budgetgrpc.DialOptions(rec.Dependency("callee", "hedged"), every)...)
	require.NoError(t, ask(rpctest.Begin(t, rec), conn))
	d := rec.SDK.Totals().Dependencies["callee"]
	assert.EqualValues(t, 1, d.Attempts)
	assert.EqualValues(t, 2, d.Lent)
}

// TestRegression_a_mode_without_ownership_does_not_get_it_by_pushback: the callee's -1 says what its claim says.
func TestRegression_a_mode_without_ownership_does_not_get_it_by_pushback(t *testing.T) {
	for mode, want := range map[profiles.Mode]int64{profiles.ModeBudget: 4, profiles.ModeEnforce: 1} {
		var calls atomic.Int64
		h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
			calls.Add(1)
			ownership.Overloaded(ctx)
			return nil, down
		}}
		rec, callee := rpctest.SDK(t, "caller", chainbudgettest.Mode(mode)), rpctest.SDK(t, "callee")
		conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(callee.SDK)...), budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...)
		assert.Equal(t, codes.Unavailable, status.Code(ask(rpctest.Begin(t, rec), conn)))
		assert.Equal(t, want, calls.Load(), mode)
	}
}
