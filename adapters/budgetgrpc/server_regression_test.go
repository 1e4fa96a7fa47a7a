package budgetgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
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

const wire = "v1.2.3.1.9f86d081.edge"

// direct is the context of a caller that writes the wire by hand.
func direct(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, append([]string{"chainbudget", wire, "baggage", "chainbudget=" + wire + ",user=1"}, pairs...)...)
}

// exchange makes one call by hand, and returns the trailer.
func exchange(t *testing.T, ctx context.Context, conn *grpc.ClientConn) (metadata.MD, error) {
	t.Helper()
	var trailer, header metadata.MD
	err := ask(ctx, conn, grpc.Trailer(&trailer), grpc.Header(&header))
	assert.NotContains(t, header, otelprop.ReturnHeader)
	return trailer, err
}

// TestRegression_I6_a_handler_sees_nothing_that_it_could_forward, in metadata as in the context's baggage.
func TestRegression_I6_a_handler_sees_nothing_that_it_could_forward(t *testing.T) {
	for mode := profiles.ModeBypass; mode <= profiles.ModeEnforce; mode++ {
		for _, entry := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v_%v", mode, entry), func(t *testing.T) {
				look := func(ctx context.Context) {
					md, ok := metadata.FromIncomingContext(ctx)
					assert.True(t, ok)
					assert.NotContains(t, md, "chainbudget")
					assert.NotContains(t, md, "chainbudget-return")
					assert.Equal(t, []string{"user=1"}, md["baggage"])
					assert.Equal(t, []string{"acme"}, md["tenant"])
					assert.Empty(t, metadata.ValueFromIncomingContext(ctx, "chainbudget"))
					assert.Empty(t, baggage.FromContext(ctx).Member("chainbudget").Key())
					assert.Equal(t, "1", baggage.FromContext(ctx).Member("user").Value())
				}
				h := &handlers{
					call: func(ctx context.Context, m *text) (*text, error) { look(ctx); return m, nil },
					list: func(_ *text, s grpc.ServerStream) error { look(s.Context()); return nil },
				}
				withBaggage := func(ctx context.Context) context.Context {
					b, err := baggage.Parse("chainbudget=" + wire + ",user=1")
					assert.NoError(t, err)
					return baggage.ContextWithBaggage(ctx, b)
				}
				rec := rpctest.SDK(t, "callee", chainbudgettest.Mode(mode))
				options := append([]grpc.ServerOption{
					grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
						return handle(withBaggage(ctx), req)
					}),
					grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
						return handle(srv, &streamWith{s, withBaggage(s.Context())})
					}),
				}, budgetgrpc.ServerOptions(rec.SDK, budgetgrpc.Option{Entry: entry})...)
				conn := dial(t, serve(t, h, options...))
				ctx := direct(t.Context(), "tenant", "acme", "chainbudget-return", "v1.1.1.c.9f86d081.-")
				trailer, err := exchange(t, ctx, conn)
				require.NoError(t, err)
				_, err = list(ctx, conn)
				require.NoError(t, err)
				if entry || mode == profiles.ModeBypass {
					assert.NotContains(t, trailer, otelprop.ReturnHeader, "nobody above waits")
				} else {
					assert.Equal(t, []string{"v1.2.0.n.9f86d081.l"}, trailer[otelprop.ReturnHeader])
				}
			})
		}
	}
}

type streamWith struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamWith) Context() context.Context { return s.ctx }

// TestRegression_the_answer_keeps_code_message_and_details, and carries the return twice.
func TestRegression_the_answer_keeps_code_message_and_details(t *testing.T) {
	user, err := status.New(codes.Unavailable, "schön, 100 % down\n").WithDetails(&errdetails.QuotaFailure{}, &errdetails.RetryInfo{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		err  error
		code codes.Code
		text string
		own  int
		line string
	}{
		"a_status":      {user.Err(), codes.Unavailable, user.Message(), 2, "v1.2.0.c.9f86d081.l.callee"},
		"wrapped":       {fmt.Errorf("x: %w", user.Err()), codes.Unavailable, "x: " + user.Err().Error(), 2, "v1.2.0.c.9f86d081.l.callee"},
		"plain":         {errors.New("boom"), codes.Unknown, "boom", 0, "v1.2.0.c.9f86d081.l.callee"},
		"a_deadline":    {context.DeadlineExceeded, codes.DeadlineExceeded, context.DeadlineExceeded.Error(), 0, "v1.2.0.c.9f86d081.l.callee"},
		"the_callers":   {status.Error(codes.InvalidArgument, "no"), codes.InvalidArgument, "no", 0, "v1.2.0.n.9f86d081.l"},
		"canceled":      {context.Canceled, codes.Canceled, context.Canceled.Error(), 0, "v1.2.0.n.9f86d081.l"},
		"a_nil_denied":  {fmt.Errorf("x: %w", (*chainbudget.DeniedError)(nil)), codes.Unknown, "x: chainbudget: no failure", 0, "v1.2.0.c.9f86d081.l.callee"},
		"a_code_of_17":  {status.Error(17, "new"), 17, "new", 0, "v1.2.0.c.9f86d081.l.callee"},
		"unimplemented": {status.Error(codes.Unimplemented, "no"), codes.Unimplemented, "no", 0, "v1.2.0.c.9f86d081.l.callee"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := rpctest.SDK(t, "callee")
			h := &handlers{
				call: func(context.Context, *text) (*text, error) { return nil, c.err },
				list: func(*text, grpc.ServerStream) error { return c.err },
			}
			conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(rec.SDK)...))
			trailer, err := exchange(t, direct(t.Context()), conn)
			check := func(err error) {
				st := status.Convert(err)
				assert.Equal(t, c.code, st.Code())
				assert.Equal(t, c.text, st.Message())
				require.Len(t, st.Details(), c.own+1)
				info := st.Details()[c.own].(*errdetails.ErrorInfo)
				assert.Equal(t, c.line, info.GetMetadata()[otelprop.ReturnHeader])
				assert.Equal(t, "chainbudget", info.GetDomain())
			}
			check(err)
			assert.Equal(t, []string{c.line}, trailer[otelprop.ReturnHeader])
			assert.NotContains(t, trailer, "grpc-retry-pushback-ms")
			metadataOnly := metadata.AppendToOutgoingContext(t.Context(), "chainbudget", "v1.2.3.1.9f86d081.edge")
			_, err = list(metadataOnly, conn)
			if c.code != codes.OK {
				st := status.Convert(err)
				assert.Equal(t, c.code, st.Code())
				assert.Len(t, st.Details(), c.own+1)
			}
		})
	}
}

// TestRegression_a_failed_call_without_a_status_is_not_UNKNOWN: of HTTP, or of a function.
func TestRegression_a_failed_call_without_a_status_is_not_UNKNOWN(t *testing.T) {
	denied := func(f chainbudget.DeniedError) error {
		f.Dependency, f.Owner, f.OwnerDepth, f.Claim = "db", "db", 1, ownership.ClaimUnclaimed
		return fmt.Errorf("balance: %w", &f)
	}
	for name, c := range map[string]struct {
		err  error
		code codes.Code
	}{
		"of_a_function":  {denied(chainbudget.DeniedError{Err: errors.New("broken pipe")}), codes.Unavailable},
		"of_HTTP":        {denied(chainbudget.DeniedError{Status: 502}), codes.Unavailable},
		"out_of_time":    {denied(chainbudget.DeniedError{Status: 504}), codes.DeadlineExceeded},
		"timed_out":      {denied(chainbudget.DeniedError{Err: context.DeadlineExceeded}), codes.DeadlineExceeded},
		"with_a_status":  {denied(chainbudget.DeniedError{Err: status.Error(codes.Internal, "bug")}), codes.Internal},
		"other_failures": {errors.New("boom"), codes.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			rec := rpctest.SDK(t, "callee")
			h := &handlers{call: func(context.Context, *text) (*text, error) { return nil, c.err }}
			conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(rec.SDK)...))
			trailer, err := exchange(t, direct(t.Context()), conn)
			assert.Equal(t, c.code, status.Code(err))
			assert.Equal(t, c.err.Error(), status.Convert(err).Message())
			if c.code != codes.Unknown {
				assert.Equal(t, []string{"v1.2.0.u.9f86d081.lA.db"}, trailer[otelprop.ReturnHeader])
			}
			assert.Equal(t, c.code, status.Code(ask(t.Context(), conn)), "a caller that waits for no return, too")
		})
	}
}

// TestRegression_what_a_callee_said_goes_no_further: neither its return nor the delay that it asked for.
func TestRegression_what_a_callee_said_goes_no_further(t *testing.T) {
	asIs := func(err error) error { return err }
	for name, c := range map[string]struct {
		leaf  error
		pass  func(error) error
		claim string
	}{
		"as_it_is":       {retryAfter(codes.Unavailable, time.Millisecond), asIs, "u"},
		"its_status":     {retryAfter(codes.Unavailable, time.Millisecond), func(err error) error { return status.Convert(err).Err() }, "u"},
		"wrapped":        {retryAfter(codes.Unavailable, time.Millisecond), func(err error) error { return fmt.Errorf("x: %w", err) }, "u"},
		"of_the_request": {retryAfter(codes.Aborted, time.Millisecond), asIs, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			leafSDK, rec := rpctest.SDK(t, "leaf"), rpctest.SDK(t, "hop")
			leaf := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
				assert.NoError(t, grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "7", "shard", "3")))
				return nil, c.leaf
			}}
			below := dial(t, serve(t, leaf, budgetgrpc.ServerOptions(leafSDK.SDK)...), budgetgrpc.DialOptions(rec.Dependency("leaf", "test"), every)...)
			h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
				var trailer metadata.MD
				err := ask(ctx, below, grpc.Trailer(&trailer))
				assert.NotContains(t, trailer, otelprop.ReturnHeader)
				assert.NoError(t, grpc.SetTrailer(ctx, trailer)) // what a proxy does
				return nil, c.pass(err)
			}}
			trailer, err := exchange(t, direct(t.Context()), dial(t, serve(t, h, budgetgrpc.ServerOptions(rec.SDK)...)))
			assert.Equal(t, status.Code(c.leaf), status.Code(err))
			details := status.Convert(err).Details()
			require.Len(t, details, 1, "%v", details)
			line := details[0].(*errdetails.ErrorInfo).GetMetadata()[otelprop.ReturnHeader]
			require.Len(t, trailer[otelprop.ReturnHeader], 1)
			assert.Equal(t, trailer[otelprop.ReturnHeader][0], line)
			assert.Contains(t, line, "."+c.claim+".9f86d081.")
			assert.Equal(t, []string{"3"}, trailer["shard"])
			if c.claim == "u" {
				assert.Len(t, trailer["grpc-retry-pushback-ms"], 2, "two values are no retry")
			}
		})
	}
}

// TestRegression_a_copied_return_does_not_go_out, from a stream that copies all trailers.
func TestRegression_a_copied_return_does_not_go_out(t *testing.T) {
	rec := rpctest.SDK(t, "hop")
	h := &handlers{list: func(_ *text, s grpc.ServerStream) error {
		s.SetTrailer(metadata.Pairs(otelprop.ReturnHeader, "v1.2.0.c.9f86d081.-.evil", "a", "b"))
		return nil
	}}
	conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(rec.SDK)...))
	s, err := conn.NewStream(direct(t.Context()), &serviceDesc.Streams[0], listMethod)
	require.NoError(t, err)
	require.NoError(t, s.SendMsg(say("x")))
	require.NoError(t, s.CloseSend())
	assert.Error(t, s.RecvMsg(new(text)))
	assert.Equal(t, []string{"v1.2.0.n.9f86d081.l"}, s.Trailer()[otelprop.ReturnHeader])
	assert.Equal(t, []string{"b"}, s.Trailer()["a"])
}

// TestRegression_a_client_with_8_KiB_of_headers_still_sees_the_status, whatever the handler's answer leaves free.
func TestRegression_a_client_with_8_KiB_of_headers_still_sees_the_status(t *testing.T) {
	rec := rpctest.SDK(t, "callee")
	var size atomic.Int64
	h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
		n := int(size.Load())
		switch n % 3 {
		case 0:
			return nil, status.Error(codes.Unavailable, strings.Repeat("x", n))
		case 1:
			st, err := status.New(codes.Unavailable, "down").WithDetails(&errdetails.DebugInfo{Detail: strings.Repeat("x", n*3/4)})
			require.NoError(t, err)
			return nil, st.Err()
		default:
			require.NoError(t, grpc.SetTrailer(ctx, metadata.Pairs("big", strings.Repeat("x", n))))
			return nil, down
		}
	}}
	conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(rec.SDK)...), grpc.WithMaxHeaderListSize(8192))
	with, without := 0, 0
	for n := int64(6900); n < 7700; n += 7 {
		size.Store(n)
		trailer, err := exchange(t, direct(t.Context()), conn)
		require.Equal(t, codes.Unavailable, status.Code(err), "%d: %v", n, err)
		if len(trailer[otelprop.ReturnHeader]) > 0 {
			with++
		} else {
			without++
		}
	}
	assert.Positive(t, with)
	assert.Positive(t, without)
	size.Store(20001)
	conn = dial(t, conn.Target()[len("passthrough:///"):])
	trailer, err := exchange(t, direct(t.Context()), conn)
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Len(t, trailer[otelprop.ReturnHeader], 1, "a client with more room gets everything")
}

// TestRegression_a_panic_closes_the_purse, and the return is set before it goes on.
func TestRegression_a_panic_closes_the_purse(t *testing.T) {
	rec := rpctest.SDK(t, "callee")
	recovers := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = status.Errorf(codes.Internal, "panic: %v", p)
				}
			}()
			return handle(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = status.Errorf(codes.Internal, "panic: %v", p)
				}
			}()
			return handle(srv, s)
		}),
	}
	h := &handlers{
		call: func(context.Context, *text) (*text, error) { panic("boom") },
		list: func(*text, grpc.ServerStream) error { panic("boom") },
	}
	conn := dial(t, serve(t, h, append(recovers, budgetgrpc.ServerOptions(rec.SDK)...)...))
	trailer, err := exchange(t, direct(t.Context()), conn)
	assert.Equal(t, "panic: boom", status.Convert(err).Message())
	assert.Equal(t, []string{"v1.2.0.c.9f86d081.l.callee"}, trailer[otelprop.ReturnHeader])
	_, err = list(direct(t.Context()), conn)
	assert.Equal(t, codes.Internal, status.Code(err))
	assert.Equal(t, map[string]int64{"claimed": 2}, nonZero(rec.SDK.Totals().ClaimsSent))
}

// TestRegression_a_panic_is_the_services_own_failure, whatever calls had failed before it.
func TestRegression_a_panic_is_the_services_own_failure(t *testing.T) {
	var calls atomic.Int64
	rec := rpctest.SDK(t, "callee")
	below := dial(t, serve(t, unavailable(&calls)), budgetgrpc.DialOptions(rec.Dependency("leaf", "test"), every)...)
	h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) { panic(ask(ctx, below)) }}
	recovers := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if recover() != nil {
				err = status.Error(codes.Internal, "panic")
			}
		}()
		return handle(ctx, req)
	})
	trailer, err := exchange(t, direct(t.Context()), dial(t, serve(t, h, append([]grpc.ServerOption{recovers}, budgetgrpc.ServerOptions(rec.SDK)...)...)))
	assert.Equal(t, codes.Internal, status.Code(err))
	require.Len(t, trailer[otelprop.ReturnHeader], 1)
	assert.True(t, strings.HasSuffix(trailer[otelprop.ReturnHeader][0], ".callee"), "%q", trailer)
}

func nonZero(m map[string]int64) map[string]int64 {
	for k, v := range m {
		if v == 0 {
			delete(m, k)
		}
	}
	return m
}

// TestRegression_the_callers_time_bounds_the_handlers
func TestRegression_the_callers_time_bounds_the_handlers(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		most   time.Duration // 0 = no deadline
		entry  bool
	}{
		"says_nothing": {wire, 0, false},
		"says_so":      {wire + ";timeout=300", 300 * time.Millisecond, false},
		"at_an_entry":  {wire + ";timeout=300", 0, true},
		"nonsense":     {wire + ";timeout=-5", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &handlers{call: func(ctx context.Context, m *text) (*text, error) {
				deadline, ok := ctx.Deadline()
				assert.Equal(t, c.most > 0, ok)
				assert.LessOrEqual(t, time.Until(deadline), c.most)
				return m, nil
			}}
			rec := rpctest.SDK(t, "callee")
			conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(rec.SDK, budgetgrpc.Option{Entry: c.entry})...))
			require.NoError(t, ask(metadata.AppendToOutgoingContext(t.Context(), "chainbudget", c.header), conn))
		})
	}
}

// TestRegression_probes_carry_nothing_and_teach_nothing
func TestRegression_probes_carry_nothing_and_teach_nothing(t *testing.T) {
	callee, rec := rpctest.SDK(t, "callee"), rpctest.SDK(t, "caller")
	conn := dial(t, serveHealth(t, budgetgrpc.ServerOptions(callee.SDK, budgetgrpc.Option{Entry: true})...), budgetgrpc.DialOptions(rec.Dependency("callee", "test"))...)
	client := healthpb.NewHealthClient(conn)
	_, err := client.Check(direct(rpctest.Begin(t, rec)), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(rpctest.Begin(t, rec))
	watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = watch.Recv()
	require.NoError(t, err)
	cancel()
	totals := callee.SDK.Totals()
	assert.Zero(t, totals.Entries+totals.Callees+totals.Orphans)
	assert.Zero(t, rec.SDK.Totals().Dependencies["callee"].Calls)
}

// TestRegression_hostile_metadata_fails_no_request
func TestRegression_hostile_metadata_fails_no_request(t *testing.T) {
	rec := rpctest.SDK(t, "callee")
	var calls atomic.Int64
	conn := dial(t, serve(t, answers(&calls), budgetgrpc.ServerOptions(rec.SDK)...))
	n := int64(0)
	for _, header := range []string{"", "x", "v1", "v9.1.1.1.9f86d081.x", "v1.-1.3.1.9f86d081.x", "v1.99999999999.3.1.9f86d081.x", strings.Repeat("v1.", 2000), "v1.2.3.1.9f86d081.edge,v1.2.3.1.9f86d081.edge", "v1.2.3.1.9f86d081.edge;timeout=0;timeout=99999999999999;attempt=-1"} {
		for _, line := range []string{"", ",,,", "chainbudget", "chainbudget=" + header, strings.Repeat("a=b,", 2000)} {
			n++
			ctx := metadata.AppendToOutgoingContext(t.Context(), "chainbudget", header, "chainbudget", header, "baggage", line, "baggage", line,
				"x-envoy-attempt-count", "-7", "grpc-previous-rpc-attempts", strings.Repeat("9", 400), "chainbudget-return", header)
			require.NoError(t, ask(ctx, conn), "%.40q %.40q", header, line)
		}
	}
	assert.Equal(t, n, calls.Load())
	assert.Zero(t, rec.SDK.Totals().Orphans, "what cannot be read is no reason to mint")
}

// TestRegression_a_repeated_grant_is_worth_nothing
func TestRegression_a_repeated_grant_is_worth_nothing(t *testing.T) {
	rec := rpctest.SDK(t, "callee")
	conn := dial(t, serve(t, &handlers{}, budgetgrpc.ServerOptions(rec.SDK)...))
	for _, want := range []string{"v1.2.0.n.9f86d081.l", "v1.0.0.n.9f86d081.l"} {
		trailer, err := exchange(t, direct(t.Context()), conn)
		require.NoError(t, err)
		assert.Equal(t, []string{want}, trailer[otelprop.ReturnHeader])
	}
	assert.EqualValues(t, 1, rec.SDK.Totals().RepeatedGrants)
}

// TestRegression_an_overloaded_server_says_stop_to_everybody
func TestRegression_an_overloaded_server_says_stop_to_everybody(t *testing.T) {
	rec := rpctest.SDK(t, "callee")
	h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
		ownership.Overloaded(ctx)
		return nil, down
	}}
	conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(rec.SDK)...))
	trailer, err := exchange(t, direct(t.Context()), conn)
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Equal(t, []string{"v1.2.0.s.9f86d081.l.callee"}, trailer[otelprop.ReturnHeader])
	assert.Equal(t, []string{"-1"}, trailer["grpc-retry-pushback-ms"])
	trailer, _ = exchange(t, t.Context(), conn)
	assert.NotContains(t, trailer, otelprop.ReturnHeader)
	assert.Equal(t, []string{"-1"}, trailer["grpc-retry-pushback-ms"])
}

// TestRegression_routes_of_the_catalog_are_POSTs_to_the_method
func TestRegression_routes_of_the_catalog_are_POSTs_to_the_method(t *testing.T) {
	yaml := rpctest.Catalog + "services:\n  callee: {routes: {\"POST /test.Chain/Call\": {budget: 7}}, failure_statuses: [404]}\n"
	var minted int
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(yaml), chainbudgettest.Service("callee"))
	h := &handlers{call: func(ctx context.Context, m *text) (*text, error) {
		minted = chainbudget.Keep(ctx, 99)
		return nil, status.Error(codes.NotFound, "no")
	}}
	conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(rec.SDK, budgetgrpc.Option{Entry: true})...))
	assert.Equal(t, codes.NotFound, status.Code(ask(t.Context(), conn)))
	assert.Equal(t, 7, minted)
	edges := rec.SDK.Edges()
	assert.Empty(t, edges)
}

// TestRegression_nothing_of_an_SDK_is_nothing
func TestRegression_nothing_of_an_SDK_is_nothing(t *testing.T) {
	for _, sdk := range []*chainbudget.SDK{nil, new(chainbudget.SDK)} {
		assert.Empty(t, budgetgrpc.ServerOptions(sdk))
		assert.Empty(t, budgetgrpc.DialOptions(nil))
		h := &handlers{list: func(*text, grpc.ServerStream) error { return nil }}
		conn := dial(t, serve(t, h, grpc.UnaryInterceptor(budgetgrpc.UnaryServerInterceptor(sdk)), grpc.StreamInterceptor(budgetgrpc.StreamServerInterceptor(sdk))),
			grpc.WithUnaryInterceptor(budgetgrpc.UnaryClientInterceptor(nil)), grpc.WithStreamInterceptor(budgetgrpc.StreamClientInterceptor(nil)))
		trailer, err := exchange(t, direct(t.Context()), conn)
		assert.NoError(t, err)
		assert.NotContains(t, trailer, otelprop.ReturnHeader)
		_, err = list(direct(t.Context()), conn)
		assert.NoError(t, err)
	}
}

// serveHealth is serve with gRPC's health service.
func serveHealth(t *testing.T, options ...grpc.ServerOption) string {
	s := health.NewServer()
	t.Cleanup(s.Shutdown)
	return serveWith(t, &handlers{}, func(g *grpc.Server) { healthpb.RegisterHealthServer(g, s) }, options...)
}
