package subject

import (
	"context"
	"math/rand/v2"
	"net/http"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

func newTransport(base http.RoundTripper, dep *engine.Dependency) http.RoundTripper {
	return budgethttp.NewTransport(base, (*chainbudget.Dependency)(dep))
}

// wrapper puts one library around a handler.
type wrapper func(http.Handler) http.Handler

func noWrapper(h http.Handler) http.Handler { return h }

func sdkHandler(h http.Handler) http.Handler {
	return budgethttp.NewHandler(h, (*chainbudget.SDK)(newSDK(catalog)))
}

func otelHandler(h http.Handler) http.Handler {
	return otelhttp.NewHandler(h, "charge", otelOptions()...)
}

func failsafeHandler(h http.Handler) http.Handler {
	return failsafehttp.NewHandler(h, circuitbreaker.NewBuilder[*http.Response]().WithFailureRateThreshold(0.5, 20, 10e9).Build())
}

// handlers serve requests that bring a trace, a foreign baggage member and a lease. Every request has a nonce of its
// own, or it would be a repetition.
func handlers() []Subject {
	handler := func(who string, wrap wrapper) Subject {
		return Subject{Path: "handler", Who: who, open: func() *stage {
			s := new(stage)
			h := wrap(s.served())
			s.worker = func() Op {
				ctx := s.serverContext()
				return func() error {
					w := newResponse()
					h.ServeHTTP(w, serverRequest(ctx, inboundHeader()))
					return wantStatus(w.status, http.StatusOK)
				}
			}
			return s
		}}
	}
	return []Subject{
		handler(SDK, sdkHandler),
		handler(Bare, noWrapper),
		handler(OTelHTTP, otelHandler),
		handler(Failsafe, failsafeHandler),
	}
}

func inboundHeader() http.Header {
	r := otelprop.Request{
		Grant: 2, Limit: 3, Hop: 1, Nonce: otelprop.Nonce(rand.Uint32()), Entry: "storefront",
		Caller: "cart", Attempt: 1, Profile: "write-path", Digest: "1a2b3c4d",
	}
	var buf [otelprop.MaxHeader + otelprop.MaxMember]byte
	b, member := r.AppendWire(buf[:0])
	wire := string(b)
	return http.Header{
		otelprop.HTTPRequestHeader: {wire[len(otelprop.MemberKey)+1:]},
		otelprop.HTTPBaggageHeader: {wire[:member] + "," + oneMember},
		"Traceparent":              {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	}
}

// wire is the network between a client and a handler: it makes a server's request of a client's, and a response of what
// the handler wrote.
type wire struct {
	ctx     context.Context // of the server
	handler http.Handler
}

// RoundTrip implements [http.RoundTripper].
func (n *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w := newResponse()
	n.handler.ServeHTTP(w, serverRequest(n.ctx, req.Header.Clone()))
	return &http.Response{
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: http.NoBody, Request: req,
	}, nil
}

// hops are calls from one service to another: client, wire, handler. The second kind carries three foreign members, in the
// request's header and in the context, and each attempt has a limit that the callee's context gets as well.
func hops() []Subject {
	const plain, foreign = "full_hop", "full_hop/foreign_baggage"
	hop := func(path, who, members string, wrap wrapper, open func(*stage) layer) Subject {
		return Subject{Path: path, Who: who, open: func() *stage {
			s := new(stage)
			l := open(s)
			h := wrap(s.served())
			bag := parseBaggage(members)
			s.worker = func() Op {
				rt := l.wrap(&wire{ctx: s.serverContext(), handler: h})
				ctx := withBaggage(l.context(), bag)
				return func() error {
					var header http.Header
					if members != "" {
						header = http.Header{otelprop.HTTPBaggageHeader: {members}}
					}
					return get(ctx, rt, header)
				}
			}
			return s
		}}
	}
	return []Subject{
		hop(plain, SDK, "", sdkHandler, sdk("plain")),
		hop(plain, Bare, "", noWrapper, bare),
		hop(plain, Failsafe, "", failsafeHandler, failsafeOn(terms{})),
		hop(plain, OTelHTTP, "", otelHandler, otelBeside),

		hop(foreign, SDK, threeMembers, sdkHandler, sdk("limited")),
		hop(foreign, Bare, threeMembers, noWrapper, bare),
		hop(foreign, Failsafe, threeMembers, failsafeHandler, failsafeOn(terms{limit: limit})),
		hop(foreign, OTelHTTP, threeMembers, otelHandler, func(s *stage) layer { return s.otel(parseBaggage("")) }),
	}
}
