package budgetconnect_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect"
	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// wire is a request's, by hand.
var wire = otelprop.Request{Grant: 2, Limit: 3, Hop: 1, Nonce: 0xabc, Entry: "gateway", Attempt: 1}

// lend makes a call that carries the wire, without the SDK.
func lend(t testing.TB, p protocol, url string, client ...connect.ClientOption) (*connect.Response[text], error) {
	req := connect.NewRequest(say("x"))
	req.Header().Set(otelprop.HTTPRequestHeader, wire.Header())
	req.Header().Set(otelprop.HTTPBaggageHeader, wire.Member())
	return p.client(t, url, callProcedure, client...).CallUnary(t.Context(), req)
}

// returned reads the return that came with an answer, and from where.
func returned(t testing.TB, h http.Header) otelprop.Return {
	t.Helper()
	ret, ok, _ := otelprop.ReadReturn(h[otelprop.HTTPReturnHeader], wire.Nonce, int(wire.Grant))
	require.True(t, ok, "%v", h)
	return ret
}

// TestRegression_F048_the_return_is_where_the_protocol_has_it: a unary answer of the Connect protocol has headers only, gRPC
// has trailers; of an error the metadata is both, and the details have it once more.
func TestRegression_F048_the_return_is_where_the_protocol_has_it(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{}
		url := server(t, &procedures{call: f.call}, rpctest.SDK(t, "callee"))
		resp, err := lend(t, p, url)
		require.NoError(t, err)
		in, out := resp.Header(), resp.Trailer()
		if strings.HasPrefix(p.name, "grpc") {
			in, out = out, in
		}
		assert.Equal(t, otelprop.Return{Returned: 2, Claim: ownership.ClaimNone, Nonce: wire.Nonce, Leaf: true}, returned(t, in))
		assert.NotContains(t, out, otelprop.HTTPReturnHeader)
		for _, h := range f.seen {
			assert.NotContains(t, h, otelprop.HTTPRequestHeader, "I6")
			assert.NotContains(t, h, otelprop.HTTPBaggageHeader, "I6")
		}

		f.times, f.err = 9, errDown
		_, err = lend(t, p, url)
		e, _ := errors.AsType[*connect.Error](err)
		require.NotNil(t, e)
		assert.Equal(t, ownership.ClaimClaimed, returned(t, e.Meta()).Claim)
		require.Len(t, e.Details(), 1)
		info := detail(t, e, 0)
		assert.Equal(t, otelprop.ErrorDomain, info.GetDomain())
		assert.Equal(t, e.Meta()[otelprop.HTTPReturnHeader], []string{info.GetMetadata()[otelprop.ReturnHeader]})
	})
}

// detail is the nth detail of an error, which is an ErrorInfo.
func detail(t testing.TB, e *connect.Error, n int) *errdetails.ErrorInfo {
	t.Helper()
	value, err := e.Details()[n].Value()
	require.NoError(t, err)
	info, ok := value.(*errdetails.ErrorInfo)
	require.True(t, ok)
	return info
}

// TestRegression_F047_a_claim_over_three_hops: connect takes the metadata off an error that a hop passes on. The hop's own
// claim comes in its place; through a hop without the SDK nothing does, because what the detail says is another hop's.
func TestRegression_F047_a_claim_over_three_hops(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		leaf := &failing{times: 99, err: errDown}
		bottom := server(t, &procedures{call: leaf.call}, rpctest.SDK(t, "leaf"))
		for name, c := range map[string]struct {
			middle   bool
			leafSees int
			reason   ownership.Reason
		}{
			"with_the_SDK":    {true, 2, ownership.ReasonUnclaimed},
			"without_the_SDK": {false, 2, ownership.ReasonChainExhausted},
		} {
			t.Run(name, func(t *testing.T) {
				leaf.seen = nil
				middle := rpctest.SDK(t, "middle")
				var url string
				if c.middle {
					client := p.client(t, bottom, callProcedure, with(middle.Dependency("leaf", "twice"), every))
					url = server(t, &procedures{call: func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
						return ask(ctx, client)
					}}, middle)
				} else {
					client := p.plain(t, bottom)
					url = rpctest.Serve(t, (&procedures{call: func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
						passed := connect.NewRequest(req.Msg)
						passed.Header().Set("Baggage", req.Header().Get("Baggage")) // as instrumentation does
						return client.CallUnary(ctx, passed)
					}}).mux())
				}
				rec := rpctest.SDK(t, "caller")
				_, err := ask(rpctest.Begin(t, rec), p.client(t, url, callProcedure, with(rec.Dependency("middle", "test"), every)))
				denied, ok := errors.AsType[*chainbudget.DeniedError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, c.reason, denied.Reason)
				assert.Len(t, leaf.seen, c.leafSees)
				e, _ := errors.AsType[*connect.Error](err)
				assert.Equal(t, "down", e.Message())
				if c.middle {
					assert.Equal(t, "leaf", denied.Owner)
					assert.Len(t, e.Details(), 1, "the callee's own return goes no further")
				}
			})
		}
	})
}

// TestRegression_hints_of_others_go_no_further: when to ask again is known next to the cause.
func TestRegression_hints_of_others_go_no_further(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		e := connect.NewError(connect.CodeUnavailable, errors.New("later"))
		d, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
		require.NoError(t, err)
		e.AddDetail(d)
		leaf := &failing{times: 99, err: e}
		leafURL := server(t, &procedures{call: leaf.call}, rpctest.SDK(t, "leaf"))
		_, err = lend(t, p, leafURL)
		got, _ := errors.AsType[*connect.Error](err)
		require.Len(t, got.Details(), 2, "its own hint goes out")

		middle := rpctest.SDK(t, "middle")
		client := p.client(t, leafURL, callProcedure, with(middle.Dependency("leaf", "twice"), every))
		url := server(t, &procedures{call: func(ctx context.Context, _ *connect.Request[text]) (*connect.Response[text], error) {
			_, err := ask(ctx, client)
			below, _ := errors.AsType[*connect.Error](err)
			again := connect.NewError(below.Code(), err) // not a wire error: connect would send its metadata
			for k, v := range below.Meta() {
				again.Meta()[k] = v
			}
			again.Meta().Set("X-Own", "1")
			again.Meta().Set("Grpc-Retry-Pushback-Ms", "5")
			again.Meta().Set(otelprop.HTTPReturnHeader, "v1.9.0.n.00000abc.-")
			for _, d := range below.Details() {
				again.AddDetail(d)
			}
			return nil, again
		}}, middle)
		_, err = lend(t, p, url)
		got, _ = errors.AsType[*connect.Error](err)
		require.Len(t, got.Details(), 1)
		assert.Equal(t, ownership.ClaimUnclaimed, returned(t, got.Meta()).Claim)
		assert.Equal(t, "1", got.Meta().Get("X-Own"))
		if strings.HasPrefix(p.name, "grpc") {
			assert.Equal(t, []string{"-1"}, got.Meta()["Grpc-Retry-Pushback-Ms"], "callers without the SDK are told, too")
		} else {
			assert.NotContains(t, got.Meta(), "Grpc-Retry-Pushback-Ms")
		}
	})
}

// TestRegression_a_copied_return_goes_nowhere: neither in a response that a handler passes on, nor in what it sets itself.
func TestRegression_a_copied_return_goes_nowhere(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		url := server(t, &procedures{call: func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
			resp := connect.NewResponse(req.Msg)
			info, _ := connect.CallInfoForHandlerContext(ctx)
			for _, h := range []http.Header{resp.Header(), resp.Trailer(), info.ResponseHeader(), info.ResponseTrailer()} {
				h.Set(otelprop.ReturnHeader, "v1.9.0.n.00000abc.-")
			}
			return resp, nil
		}}, rpctest.SDK(t, "callee"))
		resp, err := lend(t, p, url)
		require.NoError(t, err)
		lines := append(resp.Header()[otelprop.HTTPReturnHeader], resp.Trailer()[otelprop.HTTPReturnHeader]...)
		require.Len(t, lines, 1)
		assert.EqualValues(t, 2, returned(t, http.Header{otelprop.HTTPReturnHeader: lines}).Returned)
	})
}

// TestRegression_an_error_of_many_requests_is_not_written: it is a variable of the package, more often than not.
func TestRegression_an_error_of_many_requests_is_not_written(t *testing.T) {
	shared := connect.NewError(connect.CodeUnavailable, errors.New("closed"))
	shared.AddDetail(mustDetail(t))
	url := server(t, &procedures{call: func(context.Context, *connect.Request[text]) (*connect.Response[text], error) { return nil, shared }}, rpctest.SDK(t, "callee"))
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 20 {
				lend(t, protocols[1], url)
			}
		}()
	}
	for range 8 {
		<-done
	}
	assert.Len(t, shared.Details(), 1)
}

func mustDetail(t testing.TB) *connect.ErrorDetail {
	d, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "CLOSED", Domain: "shop"})
	require.NoError(t, err)
	return d
}

// TestRegression_a_panic_closes_the_purse: an interceptor further out answers, and the return is there.
func TestRegression_a_panic_closes_the_purse(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		callee := rpctest.SDK(t, "callee")
		recovers := connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error { return errDown })
		mux := (&procedures{call: func(context.Context, *connect.Request[text]) (*connect.Response[text], error) { panic("broken") }}).
			mux(recovers, connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(callee.SDK)))
		_, err := lend(t, p, rpctest.Serve(t, mux))
		e, _ := errors.AsType[*connect.Error](err)
		require.NotNil(t, e)
		ret := returned(t, e.Meta())
		assert.EqualValues(t, 2, ret.Returned)
		assert.Equal(t, ownership.ClaimClaimed, ret.Claim)
	})
}

// TestRegression_a_long_error_stays_readable: a gRPC client that takes 8 KiB of headers sees the error itself, and the
// return only where it has room.
func TestRegression_a_long_error_stays_readable(t *testing.T) {
	for _, c := range []struct {
		size    int
		told    bool // by the trailer
		details int
	}{{100, true, 1}, {7600, true, 0}, {7800, false, 0}} {
		e := connect.NewError(connect.CodeUnavailable, errors.New("down"))
		e.Meta().Set("X-Long", strings.Repeat("x", c.size))
		url := server(t, &procedures{call: func(context.Context, *connect.Request[text]) (*connect.Response[text], error) { return nil, e }}, rpctest.SDK(t, "callee"))
		p := protocols[2]
		client := rpctest.Client(t, p.http2)
		client.Transport.(*http.Transport).MaxResponseHeaderBytes = 8 << 10
		req := connect.NewRequest(say("x"))
		req.Header().Set(otelprop.HTTPRequestHeader, wire.Header())
		_, err := connect.NewClient[text, text](client, url+callProcedure, p.options...).CallUnary(t.Context(), req)
		assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%d bytes: %v", c.size, err)
		assert.True(t, connect.IsWireError(err), "%d bytes: %v", c.size, err)
		got, _ := errors.AsType[*connect.Error](err)
		_, told := got.Meta()[otelprop.HTTPReturnHeader]
		assert.Equal(t, c.told, told, "%d bytes", c.size)
		assert.Len(t, got.Details(), c.details, "%d bytes", c.size)
	}
}

// TestRegression_health_checks carry no budget and teach nothing, at either side.
func TestRegression_health_checks(t *testing.T) {
	const check = "/grpc.health.v1.Health/Check"
	var seen []http.Header
	rec := rpctest.SDK(t, "service")
	mux := http.NewServeMux()
	mux.Handle(check, connect.NewUnaryHandler(check, func(_ context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
		seen = append(seen, req.Header().Clone())
		return connect.NewResponse(req.Msg), nil
	}, connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(rec.SDK))))
	url := rpctest.Serve(t, mux)
	_, err := ask(rpctest.Begin(t, rec), protocols[2].client(t, url, check, with(rec.Dependency("service", "test"))))
	require.NoError(t, err)
	assert.NotContains(t, seen[0], otelprop.HTTPRequestHeader)
	assert.Zero(t, rec.SDK.Totals().Orphans)
	assert.Zero(t, rec.SDK.Totals().Dependencies["service"].Calls)
}

// TestRegression_nothing_of_a_grant_stays_in_the_context: I6, also where instrumentation has put it into the baggage.
func TestRegression_nothing_of_a_grant_stays_in_the_context(t *testing.T) {
	for _, mode := range []string{"enforce", "bypass"} {
		t.Run(mode, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog("version: 1\nchain: {mode: "+mode+"}\n"))
			instrumented := outside(func(ctx context.Context, _ http.Header) context.Context {
				bag, err := baggage.Parse(wire.Member() + ",user=ann")
				assert.NoError(t, err)
				return baggage.ContextWithBaggage(ctx, bag)
			})
			var found baggage.Baggage
			mux := (&procedures{call: func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
				found = baggage.FromContext(ctx)
				assert.NotContains(t, req.Header(), otelprop.HTTPRequestHeader)
				return connect.NewResponse(req.Msg), nil
			}}).mux(connect.WithInterceptors(instrumented, budgetconnect.NewHandlerInterceptor(rec.SDK)))
			_, err := lend(t, protocols[0], rpctest.Serve(t, mux))
			require.NoError(t, err)
			assert.Equal(t, "user=ann", found.String())
		})
	}
}

// TestRegression_foreign_counters: what something between the hops has repeated gets no tokens.
func TestRegression_foreign_counters(t *testing.T) {
	for name, value := range map[string]string{"X-Envoy-Attempt-Count": "2", "Grpc-Previous-Rpc-Attempts": "1"} {
		rec := rpctest.SDK(t, "callee")
		url := server(t, &procedures{}, rec)
		req := connect.NewRequest(say("x"))
		req.Header().Set(otelprop.HTTPRequestHeader, wire.Header())
		req.Header().Set(name, value)
		resp, err := protocols[0].plain(t, url).CallUnary(t.Context(), req)
		require.NoError(t, err)
		assert.Zero(t, returned(t, resp.Header()).Returned, name)
		assert.EqualValues(t, 1, rec.SDK.Totals().Foreign, name)
	}
}

// TestRegression_inside_budgethttp_the_outermost_decides, and hears which call caused the failure.
func TestRegression_inside_budgethttp_the_outermost_decides(t *testing.T) {
	leaf := &failing{times: 99, err: errDown}
	bottom := server(t, &procedures{call: leaf.call}, rpctest.SDK(t, "leaf"))
	middle := rpctest.SDK(t, "middle")
	client := protocols[0].client(t, bottom, callProcedure, with(middle.Dependency("leaf", "twice"), every))
	mux := (&procedures{call: func(ctx context.Context, _ *connect.Request[text]) (*connect.Response[text], error) {
		return ask(ctx, client)
	}}).mux(connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(middle.SDK)))
	url := rpctest.Serve(t, budgethttp.NewHandler(mux, middle.SDK))
	_, err := lend(t, protocols[0], url)
	e, _ := errors.AsType[*connect.Error](err)
	require.NotNil(t, e)
	ret := returned(t, e.Meta())
	assert.Equal(t, ownership.ClaimUnclaimed, ret.Claim)
	assert.Equal(t, "leaf", ret.Owner)
}
