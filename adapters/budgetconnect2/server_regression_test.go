package budgetconnect2_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectinprocess"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect2"
	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// wire is a request's, by hand.
var wire = otelprop.Request{Grant: 2, Limit: 3, Hop: 1, Nonce: 0xabc, Entry: "gateway", Attempt: 1}

// lent is what a call came to that carried the wire, without the SDK.
type lent struct {
	info *connect.CallInfo
	err  error
}

func lend(t testing.TB, p protocol, url string, more ...string) lent {
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set(otelprop.HTTPRequestHeader, wire.Header())
	info.RequestHeader().Set(otelprop.HTTPBaggageHeader, wire.Member())
	for i := 0; i < len(more); i += 2 {
		info.RequestHeader().Set(more[i], more[i+1])
	}
	_, err := ask(ctx, p.client(t, url))
	return lent{info, err}
}

// lines are the returns that came with the answer: what came without a message is in both.
func (l lent) lines() []string {
	header, trailer := l.info.ResponseHeader().Values(otelprop.ReturnHeader), l.info.ResponseTrailer().Values(otelprop.ReturnHeader)
	if l.err != nil && len(trailer) > 0 {
		return trailer
	}
	return append(header, trailer...)
}

// returned reads the return that came with the answer.
func (l lent) returned(t testing.TB) otelprop.Return {
	t.Helper()
	ret, ok, _ := otelprop.ReadReturn(l.lines(), wire.Nonce, int(wire.Grant))
	require.True(t, ok, "%v", l.lines())
	return ret
}

// failure is the answer's error.
func (l lent) failure(t testing.TB) *connect.Error {
	t.Helper()
	e, ok := errors.AsType[*connect.Error](l.err)
	require.True(t, ok, "%v", l.err)
	require.True(t, e.IsRemote(), "%v", l.err)
	return e
}

// TestRegression_F048_the_return_is_where_the_protocol_has_it: a unary answer of the Connect protocol has headers only, gRPC
// has trailers; of an error the details have it once more.
func TestRegression_F048_the_return_is_where_the_protocol_has_it(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		f := &failing{}
		url := serve(t, &procedures{call: f.call}, rpctest.SDK(t, "callee"))
		l := lend(t, p, url)
		require.NoError(t, l.err)
		in, out := l.info.ResponseHeader(), l.info.ResponseTrailer()
		if strings.HasPrefix(p.name, "grpc") {
			in, out = out, in
		}
		assert.True(t, in.Has(otelprop.ReturnHeader))
		assert.False(t, out.Has(otelprop.ReturnHeader))
		assert.Equal(t, otelprop.Return{Returned: 2, Claim: ownership.ClaimNone, Nonce: wire.Nonce, Leaf: true}, l.returned(t))
		for _, h := range f.seen {
			assert.NotContains(t, h, otelprop.HTTPRequestHeader, "I6")
			assert.NotContains(t, h, otelprop.HTTPBaggageHeader, "I6")
		}

		f.times, f.err = 9, errDown
		l = lend(t, p, url)
		assert.Equal(t, ownership.ClaimClaimed, l.returned(t).Claim)
		require.Len(t, l.failure(t).Details(), 1)
		value, err := connectproto.UnmarshalErrorDetail(l.failure(t).Details()[0])
		require.NoError(t, err)
		info, ok := value.(*errdetails.ErrorInfo)
		require.True(t, ok)
		assert.Equal(t, otelprop.ErrorDomain, info.GetDomain())
		assert.Equal(t, l.lines(), []string{info.GetMetadata()[otelprop.ReturnHeader]})
	})
}

// TestRegression_F047_a_claim_over_three_hops: the hop's own claim comes in the place of its callee's.
func TestRegression_F047_a_claim_over_three_hops(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		leaf := &failing{times: 99, err: errDown}
		bottom := serve(t, &procedures{call: leaf.call}, rpctest.SDK(t, "leaf"))
		middle := rpctest.SDK(t, "middle")
		client := p.client(t, bottom, with(middle.Dependency("leaf", "twice"), every))
		url := serve(t, &procedures{call: func(ctx context.Context, _ *text) (*text, error) {
			res, err := ask(ctx, client)
			return res, hop(err)
		}}, middle)
		rec := rpctest.SDK(t, "caller")
		_, err := ask(rpctest.Begin(t, rec), p.client(t, url, with(rec.Dependency("middle", "test"), every)))
		denied, ok := errors.AsType[*chainbudget.DeniedError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, ownership.ReasonUnclaimed, denied.Reason)
		assert.Equal(t, "leaf", denied.Owner)
		assert.Len(t, leaf.seen, 2)
		e, _ := errors.AsType[*connect.Error](err)
		assert.Equal(t, "down", e.Message())
		assert.Len(t, e.Details(), 1, "the callee's own return goes no further")
	})
}

// TestRegression_an_error_as_it_came_is_internal, by connect's own rule, and its claim is not lost.
func TestRegression_an_error_as_it_came_is_internal(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		secret, err := connectproto.NewErrorDetail(&errdetails.DebugInfo{Detail: "a stack"})
		require.NoError(t, err)
		leaf := &failing{times: 99, err: errDown.WithDetail(secret)}
		bottom := serve(t, &procedures{call: leaf.call}, rpctest.SDK(t, "leaf"))
		for _, plain := range []bool{false, true} {
			middle := rpctest.SDK(t, "middle")
			dep := middle.Dependency("leaf", "twice")
			if plain {
				dep = nil
			}
			client := p.client(t, bottom, with(dep, every))
			l := lend(t, p, serve(t, &procedures{call: func(ctx context.Context, _ *text) (*text, error) { return ask(ctx, client) }}, middle))
			e := l.failure(t)
			assert.Equal(t, connect.CodeInternal, e.Code())
			assert.Empty(t, e.Message())
			assert.Len(t, e.Details(), 1)
			want := otelprop.Return{Returned: 1, Retries: 1, Claim: ownership.ClaimUnclaimed, Nonce: wire.Nonce, Owner: "leaf", Depth: 1}
			if plain { // nobody knows of a call
				want = otelprop.Return{Returned: 2, Claim: ownership.ClaimClaimed, Nonce: wire.Nonce, Leaf: true, Owner: "middle"}
			}
			assert.Equal(t, want, l.returned(t))
		}
	})
}

// TestRegression_an_error_without_a_code says no more than connect would say of it.
func TestRegression_an_error_without_a_code(t *testing.T) {
	for want, err := range map[connect.Code]error{
		connect.CodeUnknown:          errors.New("a secret"),
		connect.CodeDeadlineExceeded: context.DeadlineExceeded,
		connect.CodeCanceled:         context.Canceled,
	} {
		url := serve(t, &procedures{call: func(context.Context, *text) (*text, error) { return nil, err }}, rpctest.SDK(t, "callee"))
		e := lend(t, protocols[0], url).failure(t)
		assert.Equal(t, want, e.Code())
		assert.Empty(t, e.Message())
	}
}

// TestRegression_hints_of_others_go_no_further: when to ask again is known next to the cause.
func TestRegression_hints_of_others_go_no_further(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		d, err := connectproto.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
		require.NoError(t, err)
		leaf := &failing{times: 99, err: connect.NewError(connect.CodeUnavailable, "later").WithDetail(d)}
		leafURL := serve(t, &procedures{call: leaf.call}, rpctest.SDK(t, "leaf"))
		assert.Len(t, lend(t, p, leafURL).failure(t).Details(), 2, "its own hint goes out")

		middle := rpctest.SDK(t, "middle")
		client := p.client(t, leafURL, with(middle.Dependency("leaf", "twice"), every))
		url := serve(t, &procedures{call: func(ctx context.Context, _ *text) (*text, error) {
			_, err := ask(ctx, client)
			below, _ := errors.AsType[*connect.Error](err)
			again := connect.NewError(below.Code(), "the leaf is down").WithCause(err)
			for _, d := range below.Details() {
				again = again.WithDetail(d)
			}
			info, _ := connect.CallInfoForServerContext(ctx)
			info.ResponseTrailer().Set("X-Own", "1")
			info.ResponseTrailer().Set("Grpc-Retry-Pushback-Ms", "5")
			info.ResponseTrailer().Set(otelprop.ReturnHeader, "v1.9.0.n.00000abc.-")
			return nil, again
		}}, middle)
		l := lend(t, p, url)
		assert.Len(t, l.failure(t).Details(), 1)
		assert.Equal(t, ownership.ClaimUnclaimed, l.returned(t).Claim)
		assert.Equal(t, "1", l.info.ResponseTrailer().Get("X-Own"))
		if strings.HasPrefix(p.name, "grpc") {
			assert.Equal(t, []string{"-1"}, l.info.ResponseTrailer().Values("Grpc-Retry-Pushback-Ms"), "callers without the SDK are told, too")
		} else {
			assert.False(t, l.info.ResponseTrailer().Has("Grpc-Retry-Pushback-Ms"))
		}
	})
}

// TestRegression_a_copied_return_goes_nowhere, whether a message follows or not.
func TestRegression_a_copied_return_goes_nowhere(t *testing.T) {
	copies := func(ctx context.Context) {
		info, _ := connect.CallInfoForServerContext(ctx)
		for _, h := range []*connect.Header{info.ResponseHeader(), info.ResponseTrailer()} {
			h.Set(otelprop.ReturnHeader, "v1.9.0.n.00000abc.-")
		}
	}
	eachProtocol(t, func(t *testing.T, p protocol) {
		url := serve(t, &procedures{call: func(ctx context.Context, req *text) (*text, error) {
			copies(ctx)
			return req, nil
		}, list: func(ctx context.Context, req *text, stream connect.ServerStream) error {
			copies(ctx)
			return errors.Join(stream.SendHeaders(), stream.Send(req))
		}}, rpctest.SDK(t, "callee"))
		l := lend(t, p, url)
		require.NoError(t, l.err)
		assert.Len(t, l.lines(), 1)
		assert.EqualValues(t, 2, l.returned(t).Returned)

		ctx, info := connect.NewClientContext(t.Context())
		again := wire
		again.Nonce++
		info.RequestHeader().Set(otelprop.RequestHeader, again.Header())
		_, err := list(ctx, p.client(t, url))
		require.NoError(t, err)
		assert.False(t, info.ResponseHeader().Has(otelprop.ReturnHeader))
		_, ok, _ := otelprop.ReadReturn(info.ResponseTrailer().Values(otelprop.ReturnHeader), again.Nonce, 2)
		assert.True(t, ok)
	})
}

// TestRegression_an_error_of_many_requests_is_not_written: it is a variable of the package, more often than not.
func TestRegression_an_error_of_many_requests_is_not_written(t *testing.T) {
	d, err := connectproto.NewErrorDetail(&errdetails.ErrorInfo{Reason: "CLOSED", Domain: "shop"})
	require.NoError(t, err)
	shared := connect.NewError(connect.CodeUnavailable, "closed").WithDetail(d)
	url := serve(t, &procedures{call: func(context.Context, *text) (*text, error) { return nil, shared }}, rpctest.SDK(t, "callee"))
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

// TestRegression_a_panic_closes_the_purse: an interceptor further out answers, and the return is there.
func TestRegression_a_panic_closes_the_purse(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		callee := rpctest.SDK(t, "callee")
		mux := (&procedures{call: func(context.Context, *text) (*text, error) { panic("broken") }}).
			mux(recovers, budgetconnect2.NewServerInterceptor(callee.SDK))
		ret := lend(t, p, rpctest.Serve(t, mux)).returned(t)
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
		url := serve(t, &procedures{call: func(ctx context.Context, _ *text) (*text, error) {
			info, _ := connect.CallInfoForServerContext(ctx)
			info.ResponseTrailer().Set("X-Long", strings.Repeat("x", c.size))
			return nil, errDown
		}}, rpctest.SDK(t, "callee"))
		base := rpctest.Client(t, true)
		base.Transport.(*http.Transport).MaxResponseHeaderBytes = 8 << 10
		client := connect.NewClient(connecthttp.NewTransport(base, url, connecthttp.WithGRPC()))
		ctx, info := connect.NewClientContext(t.Context())
		info.RequestHeader().Set(otelprop.RequestHeader, wire.Header())
		_, err := ask(ctx, client)
		e := lent{info, err}.failure(t)
		assert.Equal(t, connect.CodeUnavailable, e.Code(), "%d bytes: %v", c.size, err)
		assert.Equal(t, c.told, info.ResponseTrailer().Has(otelprop.ReturnHeader), "%d bytes", c.size)
		assert.Len(t, e.Details(), c.details, "%d bytes", c.size)
	}
}

// TestRegression_health_checks carry no budget and teach nothing, at either side.
func TestRegression_health_checks(t *testing.T) {
	spec := connect.Spec{Procedure: probeName}
	f := &failing{}
	rec := rpctest.SDK(t, "service")
	server, mux := connect.NewServer(budgetconnect2.NewServerInterceptor(rec.SDK)), http.NewServeMux()
	server.Register(connect.Method{Spec: spec, Handler: unary(f.call)})
	connecthttp.Mount(mux, server)
	client := protocols[2].client(t, rpctest.Serve(t, mux), with(rec.Dependency("service", "test")))
	require.NoError(t, client.CallUnary(rpctest.Begin(t, rec), spec, say("x"), new(text)))
	assert.NotContains(t, f.seen[0], otelprop.HTTPRequestHeader)
	assert.Zero(t, rec.SDK.Totals().Orphans)
	assert.Zero(t, rec.SDK.Totals().Dependencies["service"].Calls)
}

// TestRegression_unknown_procedures_are_one_route: their names are whatever clients call them.
func TestRegression_unknown_procedures_are_one_route(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		if p.name == "grpcweb" {
			return // connect takes them for streams both ways, which HTTP/1 has not
		}
		callee := rpctest.SDK(t, "callee")
		leaf := &failing{times: 99, err: errDown}
		client := p.client(t, rpctest.Serve(t, (&procedures{call: leaf.call}).mux()), with(callee.Dependency("leaf", "single"), every))
		server := (&procedures{}).server(budgetconnect2.NewServerInterceptor(callee.SDK))
		server.SetUnknownHandler(func(ctx context.Context, _ connect.Spec, stream connect.ServerStream) error {
			_, err := ask(ctx, client)
			return hop(err)
		})
		mux := http.NewServeMux()
		connecthttp.Mount(mux, server)
		url := rpctest.Serve(t, mux)
		for _, name := range []string{"/test.Chain/A", "/test.Chain/B"} {
			ctx, info := connect.NewClientContext(t.Context())
			again := wire
			again.Nonce = otelprop.Nonce(0xdef0 + len(leaf.seen))
			info.RequestHeader().Set(otelprop.RequestHeader, again.Header())
			err := p.client(t, url).CallUnary(ctx, connect.Spec{Procedure: name}, say("x"), new(text))
			assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
			lines := lent{info, err}.lines()
			_, ok, _ := otelprop.ReadReturn(lines, again.Nonce, 2)
			assert.True(t, ok, "%v", lines)
		}
		for _, edge := range callee.SDK.Edges() {
			assert.Equal(t, "another procedure", edge.Operation)
		}
	})
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
			f := &failing{}
			mux := (&procedures{call: func(ctx context.Context, req *text) (*text, error) {
				found = baggage.FromContext(ctx)
				return f.call(ctx, req)
			}}).mux(instrumented, budgetconnect2.NewServerInterceptor(rec.SDK))
			require.NoError(t, lend(t, protocols[0], rpctest.Serve(t, mux)).err)
			assert.Equal(t, "user=ann", found.String())
			assert.NotContains(t, f.seen[0], otelprop.HTTPRequestHeader)
		})
	}
}

// TestRegression_foreign_counters: what something between the hops has repeated gets no tokens.
func TestRegression_foreign_counters(t *testing.T) {
	for name, value := range map[string]string{"X-Envoy-Attempt-Count": "2", "Grpc-Previous-Rpc-Attempts": "1"} {
		rec := rpctest.SDK(t, "callee")
		l := lend(t, protocols[0], serve(t, &procedures{}, rec), name, value)
		require.NoError(t, l.err)
		assert.Zero(t, l.returned(t).Returned, name)
		assert.EqualValues(t, 1, rec.SDK.Totals().Foreign, name)
	}
}

// TestRegression_inside_budgethttp_the_outermost_decides, and hears which call caused the failure.
func TestRegression_inside_budgethttp_the_outermost_decides(t *testing.T) {
	leaf := &failing{times: 99, err: errDown}
	bottom := serve(t, &procedures{call: leaf.call}, rpctest.SDK(t, "leaf"))
	middle := rpctest.SDK(t, "middle")
	client := protocols[0].client(t, bottom, with(middle.Dependency("leaf", "twice"), every))
	mux := (&procedures{call: func(ctx context.Context, _ *text) (*text, error) {
		_, err := ask(ctx, client)
		return nil, hop(err)
	}}).mux(budgetconnect2.NewServerInterceptor(middle.SDK))
	ret := lend(t, protocols[0], rpctest.Serve(t, budgethttp.NewHandler(mux, middle.SDK))).returned(t)
	assert.Equal(t, ownership.ClaimUnclaimed, ret.Claim)
	assert.Equal(t, "leaf", ret.Owner)
}

// TestRegression_calls_within_the_process carry a budget as any other, and a callee of the same SDK is a hop of its own.
func TestRegression_calls_within_the_process(t *testing.T) {
	for _, shared := range []bool{true, false} {
		leaf := &failing{times: 1, err: errDown}
		caller := rpctest.SDK(t, "caller")
		callee := caller
		if !shared {
			callee = rpctest.SDK(t, "callee")
		}
		server := (&procedures{call: leaf.call}).server(budgetconnect2.NewServerInterceptor(callee.SDK))
		client := connect.NewClient(connectinprocess.New(server), with(caller.Dependency("callee", "test"), every))
		res, err := ask(rpctest.Begin(t, caller), client)
		require.NoError(t, err)
		assert.Equal(t, "x", res.GetValue())
		assert.Len(t, leaf.seen, 2)
		totals := caller.SDK.Totals()
		assert.Zero(t, totals.Lost)
		assert.EqualValues(t, 1, totals.Dependencies["callee"].Retries)
		assert.Zero(t, callee.SDK.Totals().Orphans)
	}
}
