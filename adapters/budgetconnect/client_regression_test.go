package budgetconnect_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// failing is a service without the SDK: what a first attempt carries is lost, and one token is left to the caller. It
// answers so many requests with an error, then echoes, and keeps the headers of all.
type failing struct {
	times int
	err   error
	seen  []http.Header // requests come one after the other
}

func (f *failing) call(_ context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
	f.seen = append(f.seen, req.Header().Clone())
	if len(f.seen) <= f.times {
		return nil, f.err
	}
	return connect.NewResponse(req.Msg), nil
}

// TestRegression_F049_every_attempt_has_a_header_map_of_its_own: one budget header each, and the timeout of its own time.
func TestRegression_F049_every_attempt_has_a_header_map_of_its_own(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{times: 1, err: errDown}
		url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
		rec := rpctest.SDK(t, "caller")
		req := connect.NewRequest(say("x"))
		req.Header().Set("X-Own", "1")
		req.Header().Set("Baggage", "user=ann")
		_, err := p.client(t, url, callProcedure, with(rec.Dependency("callee", "test"), every)).CallUnary(rpctest.Begin(t, rec), req)
		require.NoError(t, err)
		require.Len(t, f.seen, 2)
		nonces := map[otelprop.Nonce]bool{}
		for i, h := range f.seen {
			assert.Equal(t, []string{"1"}, h["X-Own"])
			require.Len(t, h[otelprop.HTTPRequestHeader], 1, "attempt %d", i+1)
			require.Len(t, h[otelprop.HTTPBaggageHeader], 1, "attempt %d", i+1)
			assert.Contains(t, h[otelprop.HTTPBaggageHeader][0], "user=ann")
			wire, _ := otelprop.ReadRequest(h[otelprop.HTTPBaggageHeader], h[otelprop.HTTPRequestHeader], 99)
			assert.EqualValues(t, i+1, wire.Attempt)
			nonces[wire.Nonce] = true
			assert.Len(t, append(h["Connect-Timeout-Ms"], h["Grpc-Timeout"]...), 1, "attempt %d", i+1)
		}
		assert.Len(t, nonces, 2)
		for _, ours := range []string{otelprop.HTTPRequestHeader, "Connect-Timeout-Ms", "Grpc-Timeout"} {
			assert.NotContains(t, req.Header(), ours, "the caller's own map is not written")
		}
		assert.Equal(t, []string{"user=ann"}, req.Header()["Baggage"])
	})
}

// TestRegression_F049_no_stale_timeout: an attempt without a limit of its own does not keep the one of an attempt before,
// or of the call before that used the same request.
func TestRegression_F049_no_stale_timeout(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{}
		url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
		rec := rpctest.SDK(t, "caller")
		client := p.client(t, url, callProcedure, with(rec.Dependency("callee", "endless"), every))
		req := connect.NewRequest(say("x"))
		req.Header().Set("Connect-Timeout-Ms", "7")
		req.Header().Set("Grpc-Timeout", "7m")
		_, err := client.CallUnary(rpctest.Begin(t, rec), req)
		require.NoError(t, err)
		assert.NotContains(t, f.seen[0], "Connect-Timeout-Ms")
		assert.NotContains(t, f.seen[0], "Grpc-Timeout")
	})
}

// TestRegression_F006_servers_that_are_not_trailers_only_are_retried: gRPC's own retries never happen against connect.
func TestRegression_F006_servers_that_are_not_trailers_only_are_retried(t *testing.T) {
	f := &failing{times: 1, err: errDown}
	url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
	rec := rpctest.SDK(t, "caller")
	_, err := ask(rpctest.Begin(t, rec), protocols[2].client(t, url, callProcedure, with(rec.Dependency("callee", "test"), every)))
	assert.NoError(t, err)
	assert.Len(t, f.seen, 2)
}

// TestRegression_what_may_not_run_twice_is_sent_once, unless the callee's word or the request's own says that it may.
func TestRegression_what_may_not_run_twice_is_sent_once(t *testing.T) {
	for _, c := range []struct {
		name     string
		attempts int
		options  []connect.ClientOption
		key      bool
	}{
		{"unknown", 1, nil, false},
		{"no_side_effects", 2, []connect.ClientOption{connect.WithIdempotency(connect.IdempotencyNoSideEffects)}, false},
		{"idempotent", 2, []connect.ClientOption{connect.WithIdempotency(connect.IdempotencyIdempotent)}, false},
		{"get", 2, []connect.ClientOption{connect.WithIdempotency(connect.IdempotencyNoSideEffects), connect.WithHTTPGet()}, false},
		{"idempotency_key", 2, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &failing{times: 9, err: errDown}
			url := rpctest.Serve(t, (&procedures{call: f.call}).mux(connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
			rec := rpctest.SDK(t, "caller")
			req := connect.NewRequest(say("x"))
			if c.key {
				req.Header().Set("Idempotency-Key", "k")
			}
			client := protocols[0].client(t, url, callProcedure, append(c.options, with(rec.Dependency("callee", "test")))...)
			_, err := client.CallUnary(rpctest.Begin(t, rec), req)
			assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
			assert.Len(t, f.seen, c.attempts)
		})
	}
}

// TestRegression_the_error_is_the_last_attempts_own: code, message, details, metadata, and who said so.
func TestRegression_the_error_is_the_last_attempts_own(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		e := connect.NewError(connect.CodeUnavailable, errors.New("no room"))
		e.Meta().Set("X-Why", "full")
		own, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "FULL", Domain: "shop"})
		require.NoError(t, err)
		e.AddDetail(own)
		callee, rec := rpctest.SDK(t, "callee"), rpctest.SDK(t, "caller")
		f := &failing{times: 9, err: e}
		url := server(t, &procedures{call: f.call}, callee)
		_, err = ask(rpctest.Begin(t, rec), p.client(t, url, callProcedure, with(rec.Dependency("callee", "twice"), every)))
		got, ok := errors.AsType[*connect.Error](err)
		require.True(t, ok)
		assert.True(t, connect.IsWireError(err))
		assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
		assert.Equal(t, "no room", got.Message())
		assert.Equal(t, "full", got.Meta().Get("X-Why"))
		assert.NotContains(t, got.Meta(), otelprop.HTTPReturnHeader, "I6")
		require.NotEmpty(t, got.Details())
		value, err := got.Details()[0].Value()
		require.NoError(t, err)
		assert.True(t, proto.Equal(&errdetails.ErrorInfo{Reason: "FULL", Domain: "shop"}, value))
		_, err = ask(rpctest.Begin(t, rec), p.client(t, url, callProcedure, with(rec.Dependency("callee", "twice"), every)))
		denied, ok := errors.AsType[*chainbudget.DeniedError](err)
		require.True(t, ok)
		assert.Equal(t, 2, denied.Attempts)
		assert.Len(t, e.Details(), 1, "the handler's error, which many requests may share, is not written")
	})
}

// TestRegression_hints: each is a lower bound, the longest counts; never wins, and a claim says more than a pushback.
func TestRegression_hints(t *testing.T) {
	for _, c := range []struct {
		name     string
		code     connect.Code
		info     time.Duration
		pushback string
		after    string
		attempts int
		reason   ownership.Reason
	}{
		{"none", connect.CodeUnavailable, -1, "", "", 2, ownership.ReasonMaxAttempts},
		{"exhausted_says_nothing", connect.CodeResourceExhausted, -1, "", "", 1, ownership.ReasonNotRetryable},
		{"exhausted_says_when", connect.CodeResourceExhausted, 0, "", "", 2, ownership.ReasonMaxAttempts},
		{"exhausted_by_retry_after", connect.CodeResourceExhausted, -1, "", "0", 2, ownership.ReasonMaxAttempts},
		{"never", connect.CodeUnavailable, 0, "-1", "", 1, ownership.ReasonPushback},
		{"garbage", connect.CodeUnavailable, -1, "soon", "", 1, ownership.ReasonPushback},
		{"beyond_the_cap", connect.CodeUnavailable, 0, "0", "3600", 1, ownership.ReasonPushback},
		{"pushback_within", connect.CodeUnavailable, -1, "0", "", 2, ownership.ReasonMaxAttempts},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, p protocol) {
				e := connect.NewError(c.code, errors.New("not now"))
				if c.info >= 0 {
					d, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(c.info)})
					require.NoError(t, err)
					e.AddDetail(d)
				}
				if c.pushback != "" {
					e.Meta().Set("Grpc-Retry-Pushback-Ms", c.pushback)
				}
				if c.after != "" {
					e.Meta().Set("Retry-After", c.after)
				}
				f := &failing{times: 9, err: e}
				url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
				rec := rpctest.SDK(t, "caller")
				_, err := ask(rpctest.Begin(t, rec), p.client(t, url, callProcedure, with(rec.Dependency("callee", "twice"), every)))
				denied, ok := errors.AsType[*chainbudget.DeniedError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, c.reason, denied.Reason)
				assert.Len(t, f.seen, c.attempts)
			})
		})
	}
}

// TestRegression_what_does_not_speak_the_protocol_counts_by_its_status: connect makes 429 unavailable, like 503.
func TestRegression_what_does_not_speak_the_protocol_counts_by_its_status(t *testing.T) {
	for _, c := range []struct{ status, attempts int }{{502, 2}, {503, 2}, {504, 2}, {429, 1}, {500, 1}, {404, 1}} {
		t.Run(http.StatusText(c.status), func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, p protocol) {
				var calls atomic.Int64
				url := rpctest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					calls.Add(1)
					http.Error(w, "a proxy's words", c.status)
				}))
				rec := rpctest.SDK(t, "caller")
				_, err := ask(rpctest.Begin(t, rec), p.client(t, url, callProcedure, with(rec.Dependency("callee", "test"), every)))
				assert.Error(t, err)
				assert.False(t, connect.IsWireError(err))
				assert.EqualValues(t, c.attempts, calls.Load(), "%v", err)
			})
		})
	}
}

// TestRegression_nothing_listens: a call that never left may be repeated whatever it is, and its lease comes home.
func TestRegression_nothing_listens(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		gone := httptest.NewServer(nil)
		gone.Close()
		rec := rpctest.SDK(t, "caller")
		_, err := ask(rpctest.Begin(t, rec), p.client(t, gone.URL, callProcedure, with(rec.Dependency("callee", "test"))))
		assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
		denied, ok := errors.AsType[*chainbudget.DeniedError](err)
		require.True(t, ok)
		assert.Equal(t, 4, denied.Attempts)
		assert.Zero(t, rec.SDK.Totals().Lost)
	})
}

// TestRegression_a_reset_connection_is_no_cancellation, although connect calls it one.
func TestRegression_a_reset_connection_is_no_cancellation(t *testing.T) {
	var calls atomic.Int64
	url := rpctest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		(&procedures{}).mux().ServeHTTP(w, r)
	}))
	rec := rpctest.SDK(t, "caller")
	_, err := ask(rpctest.Begin(t, rec), protocols[0].client(t, url, callProcedure, with(rec.Dependency("callee", "test"), every)))
	assert.NoError(t, err)
	assert.EqualValues(t, 2, calls.Load())
}

// TestRegression_attempt_timeout: an attempt that hangs is given up, its lease is lost, and the next one has a time of its
// own. The caller's cancellation is no failure.
func TestRegression_attempt_timeout(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		var calls atomic.Int64
		hangs := &procedures{call: func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
			if calls.Add(1) == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return connect.NewResponse(req.Msg), nil
		}}
		url := rpctest.Serve(t, hangs.mux())
		rec := rpctest.SDK(t, "caller")
		client := p.client(t, url, callProcedure, with(rec.Dependency("callee", "hasty"), every))
		_, err := ask(rpctest.Begin(t, rec), client)
		assert.NoError(t, err)
		assert.EqualValues(t, 2, calls.Load())
		assert.EqualValues(t, 2, rec.SDK.Totals().Lost)

		calls.Store(0)
		ctx, cancel := context.WithCancel(rpctest.Begin(t, rec))
		go func() {
			for calls.Load() == 0 { // polled: the request has to be there
				if ctx.Err() != nil {
					return
				}
			}
			cancel()
		}()
		_, err = ask(ctx, client)
		assert.Equal(t, connect.CodeCanceled, connect.CodeOf(err), "%v", err)
		assert.ErrorIs(t, err, context.Canceled)
		cancel()
	})
}

// TestRegression_no_dependency_and_no_SDK: everything passes.
func TestRegression_no_dependency_and_no_SDK(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{}
		for _, sdk := range []*chainbudget.SDK{nil, {}} {
			mux := (&procedures{call: f.call}).mux(connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(sdk)))
			resp, err := ask(t.Context(), p.client(t, rpctest.Serve(t, mux), callProcedure, with(nil)))
			require.NoError(t, err)
			assert.Equal(t, "x", resp.Msg.GetValue())
			assert.NotContains(t, f.seen[len(f.seen)-1], otelprop.HTTPRequestHeader)
			assert.NotContains(t, resp.Header(), otelprop.HTTPReturnHeader)
		}
	})
}

// TestRegression_an_option_that_cannot_be_read is left out and warned of; where warnings are errors every call says so.
func TestRegression_an_option_that_cannot_be_read(t *testing.T) {
	f := &failing{}
	url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
	rec := rpctest.SDK(t, "caller") // strict
	bad := budgetconnect.Option{Idempotent: []string{"shop[/x"}}
	_, err := ask(rpctest.Begin(t, rec), protocols[0].client(t, url, callProcedure, with(rec.Dependency("callee", "test"), bad)))
	assert.Equal(t, connect.CodeInternal, connect.CodeOf(err))
	assert.ErrorContains(t, err, `"shop[/x" in Idempotent is no pattern`)
	assert.Empty(t, f.seen)
}

// TestRegression_nothing_of_the_budget_leaves_the_fleet: a host outside gets none of it, and is not believed.
func TestRegression_nothing_of_the_budget_leaves_the_fleet(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{}
		url := rpctest.Serve(t, (&procedures{call: f.call, list: echoes(f)}).mux())
		rec := rpctest.SDK(t, "caller")
		dep := rec.Dependency("partner", profiles.ThirdParty)
		_, err := ask(rpctest.Begin(t, rec), p.client(t, url, callProcedure, with(dep)))
		require.NoError(t, err)
		_, err = list(rpctest.Begin(t, rec), p.client(t, url, listProcedure, with(dep)))
		require.NoError(t, err)
		require.Len(t, f.seen, 2)
		for _, h := range f.seen {
			assert.NotContains(t, h, otelprop.HTTPRequestHeader)
			assert.NotContains(t, h, otelprop.HTTPBaggageHeader)
		}
	})
}

// echoes is a server stream that keeps the headers of its requests.
func echoes(f *failing) func(context.Context, *connect.Request[text], *connect.ServerStream[text]) error {
	return func(_ context.Context, req *connect.Request[text], stream *connect.ServerStream[text]) error {
		f.seen = append(f.seen, req.Header().Clone())
		return stream.Send(req.Msg)
	}
}

// TestRegression_a_profile_that_hedges_lends_over_connect, where nothing is hedged.
func TestRegression_a_profile_that_hedges_lends_over_connect(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		rec := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  hedged: {extends: test, hedge: {after: 1ms, max: 1}}\n"))
		url := server(t, &procedures{}, rpctest.SDK(t, "callee"))
		_, err := ask(rpctest.Begin(t, rec), p.client(t, url, callProcedure, with(rec.Dependency("callee", "hedged"), every)))
		require.NoError(t, err)
		d := rec.SDK.Totals().Dependencies["callee"]
		assert.EqualValues(t, 1, d.Attempts)
		assert.EqualValues(t, 2, d.Lent)
	})
}

// TestRegression_a_callee_that_ends_a_stream_at_its_deadline_is_late: its reset may be here before the attempt's own timer has
// gone off. It is no cancellation.
func TestRegression_a_callee_that_ends_a_stream_at_its_deadline_is_late(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			rec := rpctest.SDK(t, "caller")
			dep := with(rec.Dependency("callee", "hasty"), every)
			client := connect.NewClient[text, text](&http.Client{Transport: rpctest.LateReset{}}, "http://callee"+callProcedure, append(p.options, dep)...)
			for range 50 { // the timer comes first in some
				_, err := ask(rpctest.Begin(t, rec), client)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err), "%v", err)
			}
		})
	})
}
