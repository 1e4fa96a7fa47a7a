package budgetconnect2_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect2"
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
	times   int
	err     error
	trailer http.Header   // of the error
	seen    []http.Header // requests come one after the other
}

func (f *failing) call(ctx context.Context, req *text) (*text, error) {
	if err := f.heard(ctx); err != nil {
		return nil, err
	}
	return req, nil
}

func (f *failing) list(ctx context.Context, req *text, stream connect.ServerStream) error {
	if err := f.heard(ctx); err != nil {
		return err
	}
	return stream.Send(req)
}

func (f *failing) heard(ctx context.Context) error {
	info, _ := connect.CallInfoForServerContext(ctx)
	f.seen = append(f.seen, headers(info.RequestHeader()))
	if len(f.seen) > f.times {
		return nil
	}
	for k, v := range f.trailer {
		info.ResponseTrailer().SetValues(k, v)
	}
	return f.err
}

// TestRegression_F049_every_attempt_has_headers_of_its_own: one budget header each, and the timeout of its own time.
func TestRegression_F049_every_attempt_has_headers_of_its_own(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{times: 1, err: errDown}
		url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
		rec := rpctest.SDK(t, "caller")
		ctx, info := connect.NewClientContext(rpctest.Begin(t, rec))
		info.RequestHeader().Set("X-Own", "1")
		info.RequestHeader().Set("Baggage", "user=ann")
		_, err := ask(ctx, p.client(t, url, with(rec.Dependency("callee", "test"), every)))
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
		assert.Equal(t, http.Header{"X-Own": {"1"}, "Baggage": {"user=ann"}}, headers(info.RequestHeader()), "the caller's own are not written")
	})
}

// TestRegression_F049_no_stale_timeout: an attempt without a limit of its own does not keep the one that another has.
func TestRegression_F049_no_stale_timeout(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{}
		url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
		rec := rpctest.SDK(t, "caller")
		ctx, info := connect.NewClientContext(rpctest.Begin(t, rec))
		info.RequestHeader().Set("Connect-Timeout-Ms", "7")
		info.RequestHeader().Set("Grpc-Timeout", "7m")
		_, err := ask(ctx, p.client(t, url, with(rec.Dependency("callee", "endless"), every)))
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
	_, err := ask(rpctest.Begin(t, rec), protocols[2].client(t, url, with(rec.Dependency("callee", "test"), every)))
	assert.NoError(t, err)
	assert.Len(t, f.seen, 2)
}

// TestRegression_the_callers_call_info_is_of_the_last_attempt, and of none before it.
func TestRegression_the_callers_call_info_is_of_the_last_attempt(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{times: 1, err: errDown, trailer: http.Header{"X-First": {"1"}}}
		url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
		rec := rpctest.SDK(t, "caller")
		ctx, info := connect.NewClientContext(rpctest.Begin(t, rec))
		_, err := ask(ctx, p.client(t, url, with(rec.Dependency("callee", "test"), every)))
		require.NoError(t, err)
		assert.Equal(t, url, "http://"+info.PeerAddr)
		assert.Equal(t, callSpec.Procedure, info.Spec.Procedure)
		assert.Positive(t, info.SendStats.Size)
		assert.Positive(t, info.ReceiveStats.Size)
		assert.False(t, info.ResponseTrailer().Has("X-First"))
		over, ok := info.TransportInfo.(*connecthttp.ClientInfo)
		require.True(t, ok)
		assert.Equal(t, http.StatusOK, over.ResponseStatus())
	})
}

// TestRegression_what_may_not_run_twice_is_sent_once, unless the callee's word or the request's own says that it may.
func TestRegression_what_may_not_run_twice_is_sent_once(t *testing.T) {
	for _, c := range []struct {
		name     string
		attempts int
		level    connect.IdempotencyLevel
		get, key bool
	}{
		{"unknown", 1, connect.IdempotencyUnknown, false, false},
		{"no_side_effects", 2, connect.IdempotencyNoSideEffects, false, false},
		{"idempotent", 2, connect.IdempotencyIdempotent, false, false},
		{"get", 2, connect.IdempotencyNoSideEffects, true, false},
		{"idempotency_key", 2, connect.IdempotencyUnknown, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &failing{times: 9, err: errDown}
			spec := callSpec
			spec.IdempotencyLevel = c.level
			server, mux := connect.NewServer(), http.NewServeMux()
			server.Register(connect.Method{Spec: spec, Handler: unary(f.call)})
			connecthttp.Mount(mux, server)
			var options []connecthttp.Option
			if c.get {
				options = append(options, connecthttp.WithHTTPGet())
			}
			rec := rpctest.SDK(t, "caller")
			ctx, info := connect.NewClientContext(rpctest.Begin(t, rec))
			if c.key {
				info.RequestHeader().Set("Idempotency-Key", "k")
			}
			p := protocol{options: options}
			err := p.client(t, rpctest.Serve(t, mux), with(rec.Dependency("callee", "test"))).CallUnary(ctx, spec, say("x"), new(text))
			assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
			assert.Len(t, f.seen, c.attempts)
		})
	}
}

// TestRegression_the_error_is_the_last_attempts_own: code, message, details, metadata, and who said so.
func TestRegression_the_error_is_the_last_attempts_own(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		own, err := connectproto.NewErrorDetail(&errdetails.ErrorInfo{Reason: "FULL", Domain: "shop"})
		require.NoError(t, err)
		e := connect.NewError(connect.CodeUnavailable, "no room").WithDetail(own)
		callee, rec := rpctest.SDK(t, "callee"), rpctest.SDK(t, "caller")
		f := &failing{times: 9, err: e, trailer: http.Header{"X-Why": {"full"}}}
		url := serve(t, &procedures{call: f.call}, callee)
		ctx, info := connect.NewClientContext(rpctest.Begin(t, rec))
		_, err = ask(ctx, p.client(t, url, with(rec.Dependency("callee", "twice"), every)))
		got, ok := errors.AsType[*connect.Error](err)
		require.True(t, ok)
		assert.True(t, got.IsRemote())
		assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
		assert.Equal(t, "no room", got.Message())
		assert.Equal(t, "full", info.ResponseTrailer().Get("X-Why"))
		assert.False(t, info.ResponseHeader().Has(otelprop.ReturnHeader), "I6")
		assert.False(t, info.ResponseTrailer().Has(otelprop.ReturnHeader), "I6")
		require.NotEmpty(t, got.Details())
		value, err := connectproto.UnmarshalErrorDetail(got.Details()[0])
		require.NoError(t, err)
		assert.True(t, proto.Equal(&errdetails.ErrorInfo{Reason: "FULL", Domain: "shop"}, value))
		_, err = ask(rpctest.Begin(t, rec), p.client(t, url, with(rec.Dependency("callee", "twice"), every)))
		denied, ok := errors.AsType[*chainbudget.DeniedError](err)
		require.True(t, ok)
		assert.Equal(t, 2, denied.Attempts)
	})
}

// TestRegression_hints: each is a lower bound, the longest counts; never wins, and a claim says more than a pushback.
func TestRegression_hints(t *testing.T) {
	for _, c := range []struct {
		name     string
		code     connect.Code
		info     time.Duration
		trailer  http.Header
		attempts int
		reason   ownership.Reason
	}{
		{"none", connect.CodeUnavailable, -1, nil, 2, ownership.ReasonMaxAttempts},
		{"exhausted_says_nothing", connect.CodeResourceExhausted, -1, nil, 1, ownership.ReasonNotRetryable},
		{"exhausted_says_when", connect.CodeResourceExhausted, 0, nil, 2, ownership.ReasonMaxAttempts},
		{"exhausted_by_retry_after", connect.CodeResourceExhausted, -1, http.Header{"Retry-After": {"0"}}, 2, ownership.ReasonMaxAttempts},
		{"never", connect.CodeUnavailable, 0, http.Header{"Grpc-Retry-Pushback-Ms": {"-1"}}, 1, ownership.ReasonPushback},
		{"garbage", connect.CodeUnavailable, -1, http.Header{"Grpc-Retry-Pushback-Ms": {"soon"}}, 1, ownership.ReasonPushback},
		{"beyond_the_cap", connect.CodeUnavailable, 0, http.Header{"Grpc-Retry-Pushback-Ms": {"0"}, "Retry-After": {"3600"}}, 1, ownership.ReasonPushback},
		{"pushback_within", connect.CodeUnavailable, -1, http.Header{"Grpc-Retry-Pushback-Ms": {"0"}}, 2, ownership.ReasonMaxAttempts},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, p protocol) {
				e := connect.NewError(c.code, "not now")
				if c.info >= 0 {
					d, err := connectproto.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(c.info)})
					require.NoError(t, err)
					e = e.WithDetail(d)
				}
				f := &failing{times: 9, err: e, trailer: c.trailer}
				url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
				rec := rpctest.SDK(t, "caller")
				_, err := ask(rpctest.Begin(t, rec), p.client(t, url, with(rec.Dependency("callee", "twice"), every)))
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
				_, err := ask(rpctest.Begin(t, rec), p.client(t, url, with(rec.Dependency("callee", "test"), every)))
				e, ok := errors.AsType[*connect.Error](err)
				require.True(t, ok, "%v", err)
				assert.False(t, e.IsRemote())
				assert.EqualValues(t, c.attempts, calls.Load(), "%v", err)
			})
		})
	}
}

// TestRegression_nothing_listens: a call that never left may be repeated whatever it is, and its lease comes home.
func TestRegression_nothing_listens(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		rec := rpctest.SDK(t, "caller")
		_, err := ask(rpctest.Begin(t, rec), p.client(t, "http://127.0.0.1:1", with(rec.Dependency("callee", "test"))))
		assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
		denied, ok := errors.AsType[*chainbudget.DeniedError](err)
		require.True(t, ok)
		assert.Equal(t, 4, denied.Attempts)
		assert.Zero(t, rec.SDK.Totals().Lost)
	})
}

// TestRegression_an_attempt_that_cannot_be_opened is one of the call's, whoever says so.
func TestRegression_an_attempt_that_cannot_be_opened(t *testing.T) {
	for _, spec := range []connect.Spec{callSpec, listSpec} {
		t.Run(spec.StreamType.String(), func(t *testing.T) {
			f := &failing{}
			url := rpctest.Serve(t, (&procedures{call: f.call, list: f.list}).mux())
			var opened int
			broken := func(next connect.ClientFunc) connect.ClientFunc {
				return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
					if opened++; opened == 1 {
						return nil, connect.NewError(connect.CodeUnavailable, "no token to be had")
					}
					return next(ctx, spec)
				}
			}
			rec := rpctest.SDK(t, "caller")
			client := protocols[0].client(t, url, with(rec.Dependency("callee", "test"), every), broken)
			var err error
			if spec.StreamType == connect.StreamTypeUnary {
				_, err = ask(rpctest.Begin(t, rec), client)
			} else {
				_, err = list(rpctest.Begin(t, rec), client)
			}
			assert.NoError(t, err)
			assert.Len(t, f.seen, 1)
			assert.EqualValues(t, 2, rec.SDK.Totals().Dependencies["callee"].Attempts)
		})
	}
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
	_, err := ask(rpctest.Begin(t, rec), protocols[0].client(t, url, with(rec.Dependency("callee", "test"), every)))
	assert.NoError(t, err)
	assert.EqualValues(t, 2, calls.Load())
}

// hanging is a callee whose first answer does not come. asked is told of it.
func hanging(asked chan<- struct{}) *procedures {
	var calls atomic.Int64
	return &procedures{call: func(ctx context.Context, req *text) (*text, error) {
		if calls.Add(1) == 1 {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return req, nil
	}}
}

// TestRegression_attempt_timeout: an attempt that hangs is given up, its lease is lost, and the next one has a time of its
// own. A caller that cancels, or closes the stream, is no failure.
func TestRegression_attempt_timeout(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		rec := rpctest.SDK(t, "caller")
		url := rpctest.Serve(t, hanging(make(chan struct{})).mux())
		_, err := ask(rpctest.Begin(t, rec), p.client(t, url, with(rec.Dependency("callee", "hasty"), every)))
		assert.NoError(t, err)
		totals := rec.SDK.Totals()
		assert.EqualValues(t, 2, totals.Dependencies["callee"].Attempts)
		assert.EqualValues(t, 2, totals.Lost)

		for _, how := range []string{"cancels", "closes"} {
			asked := make(chan struct{})
			url := rpctest.Serve(t, hanging(asked).mux())
			rec := rpctest.SDK(t, "caller")
			ctx, cancel := context.WithCancel(rpctest.Begin(t, rec))
			var stream connect.ClientStream
			leaves := func(next connect.ClientFunc) connect.ClientFunc {
				return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
					stream, err = next(ctx, spec)
					return stream, err
				}
			}
			client := p.client(t, url, leaves, with(rec.Dependency("callee", "endless"), every))
			go func() {
				<-asked
				if how == "cancels" {
					cancel()
				} else {
					stream.Close()
				}
			}()
			_, err := ask(ctx, client)
			assert.Equal(t, connect.CodeCanceled, connect.CodeOf(err), "%s: %v", how, err)
			assert.ErrorIs(t, err, context.Canceled, how)
			assert.EqualValues(t, 1, rec.SDK.Totals().Dependencies["callee"].Attempts, how)
			assert.Empty(t, rec.SDK.Totals().Dependencies["callee"].Claims, how)
			cancel()
		}
	})
}

// TestRegression_an_unused_call_sends_nothing: connect sends a request when a stream that was never used is closed.
func TestRegression_an_unused_call_sends_nothing(t *testing.T) {
	for _, spec := range []connect.Spec{callSpec, listSpec, uploadSpec, chatSpec} {
		t.Run(spec.StreamType.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent roundTrips
				rec := rpctest.SDK(t, "caller")
				open := budgetconnect2.NewClientInterceptor(rec.Dependency("callee", "test"))(
					connecthttp.NewTransport(&http.Client{Transport: &sent}, "http://callee").NewClientStream)
				stream, err := open(rpctest.Begin(t, rec), spec)
				require.NoError(t, err)
				assert.NoError(t, stream.Close())
				assert.NoError(t, stream.Close())
				synctest.Wait()
				assert.Zero(t, sent.n.Load())
				assert.Zero(t, rec.SDK.Totals().Dependencies["callee"].Attempts)
			})
		})
	}
}

// TestRegression_no_dependency_and_no_SDK: everything passes.
func TestRegression_no_dependency_and_no_SDK(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{}
		for _, sdk := range []*chainbudget.SDK{nil, {}} {
			mux := (&procedures{call: f.call}).mux(budgetconnect2.NewServerInterceptor(sdk))
			ctx, info := connect.NewClientContext(t.Context())
			res, err := ask(ctx, p.client(t, rpctest.Serve(t, mux), with(nil)))
			require.NoError(t, err)
			assert.Equal(t, "x", res.GetValue())
			assert.NotContains(t, f.seen[len(f.seen)-1], otelprop.HTTPRequestHeader)
			assert.False(t, info.ResponseHeader().Has(otelprop.ReturnHeader))
		}
	})
}

// TestRegression_an_option_that_cannot_be_read is left out and warned of; where warnings are errors every call says so.
func TestRegression_an_option_that_cannot_be_read(t *testing.T) {
	f := &failing{}
	url := rpctest.Serve(t, (&procedures{call: f.call}).mux())
	rec := rpctest.SDK(t, "caller") // strict
	bad := budgetconnect2.Option{Idempotent: []string{"shop[/x"}}
	_, err := ask(rpctest.Begin(t, rec), protocols[0].client(t, url, with(rec.Dependency("callee", "test"), bad)))
	assert.Equal(t, connect.CodeInternal, connect.CodeOf(err))
	assert.ErrorContains(t, err, `budgetconnect2.Option cannot be read`)
	assert.ErrorContains(t, err, `"shop[/x" in Idempotent is no pattern`)
	assert.Empty(t, f.seen)
}

// TestRegression_nothing_of_the_budget_leaves_the_fleet: a host outside gets none of it, and is not believed.
func TestRegression_nothing_of_the_budget_leaves_the_fleet(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{}
		url := rpctest.Serve(t, (&procedures{call: f.call, list: f.list}).mux())
		rec := rpctest.SDK(t, "caller")
		client := p.client(t, url, with(rec.Dependency("partner", profiles.ThirdParty)))
		_, err := ask(rpctest.Begin(t, rec), client)
		require.NoError(t, err)
		_, err = list(rpctest.Begin(t, rec), client)
		require.NoError(t, err)
		require.Len(t, f.seen, 2)
		for _, h := range f.seen {
			assert.NotContains(t, h, otelprop.HTTPRequestHeader)
			assert.NotContains(t, h, otelprop.HTTPBaggageHeader)
		}
	})
}

// TestRegression_a_host_outside_is_known_by_its_address, before anything is written for it.
func TestRegression_a_host_outside_is_known_by_its_address(t *testing.T) {
	for _, spec := range []connect.Spec{callSpec, listSpec} {
		var seen http.Header
		answers := httptest.NewRecorder()
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			seen = r.Header.Clone()
			return answers.Result(), nil
		})
		rec := rpctest.SDK(t, "caller")
		client := connect.NewClient(connecthttp.NewTransport(&http.Client{Transport: base}, "https://api.partner.example"), with(rec.Dependency("callee", "single")))
		var err error
		if spec.StreamType == connect.StreamTypeUnary {
			_, err = ask(rpctest.Begin(t, rec), client)
		} else {
			_, err = list(rpctest.Begin(t, rec), client)
		}
		assert.Error(t, err) // it is no answer
		assert.NotEmpty(t, seen)
		assert.NotContains(t, seen, otelprop.HTTPRequestHeader)
		assert.NotContains(t, seen, otelprop.HTTPBaggageHeader)
	}
}

// TestRegression_a_profile_that_hedges_lends_over_connect, where nothing is hedged.
func TestRegression_a_profile_that_hedges_lends_over_connect(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		rec := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  hedged: {extends: test, hedge: {after: 1ms, max: 1}}\n"))
		url := serve(t, &procedures{}, rpctest.SDK(t, "callee"))
		_, err := ask(rpctest.Begin(t, rec), p.client(t, url, with(rec.Dependency("callee", "hedged"), every)))
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
			client := connect.NewClient(connecthttp.NewTransport(&http.Client{Transport: rpctest.LateReset{}}, "http://callee", p.options...),
				with(rec.Dependency("callee", "hasty"), every))
			for range 50 { // the timer comes first in some
				_, err := ask(rpctest.Begin(t, rec), client)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err), "%v", err)
			}
		})
	})
}
