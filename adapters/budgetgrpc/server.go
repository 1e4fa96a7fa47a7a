package budgetgrpc

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// ServerOptions makes a server take part in chains:
//
//	gs := grpc.NewServer(budgetgrpc.ServerOptions(sdk)...)
//
// Interceptors of server options after these run inside. A nil or zero sdk is no options.
func ServerOptions(sdk *chainbudget.SDK, options ...Option) []grpc.ServerOption {
	if !(*engine.SDK)(sdk).Usable() {
		return nil
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(UnaryServerInterceptor(sdk, options...)),
		grpc.ChainStreamInterceptor(StreamServerInterceptor(sdk, options...)),
	}
}

// UnaryServerInterceptor is what [ServerOptions] installs for unary methods. Within another of the same request and SDK it
// does nothing: the outermost decides.
func UnaryServerInterceptor(sdk *chainbudget.SDK, options ...Option) grpc.UnaryServerInterceptor {
	s := newServer(sdk, options)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
		if s.passes(ctx) {
			return handle(ctx, req)
		}
		generation := s.sdk.Generation()
		if rpc.Probe(info.FullMethod) || generation.Mode() == profiles.ModeBypass {
			return handle(plainContext(ctx), req)
		}
		in := &inbound{sdk: s.sdk, method: info.FullMethod}
		transport := grpc.ServerTransportStreamFromContext(ctx)
		ctx, cancel := s.arrive(in, ctx, generation)
		defer cancel()
		setTrailer := func(md metadata.MD) {
			if transport != nil { // else there is nobody to tell
				_ = transport.SetTrailer(md)
			}
		}
		done := false
		defer func() {
			if !done {
				in.panicked(ctx, setTrailer)
			}
			in.finish()
		}()
		resp, err = handle(ctx, req)
		done = true
		return resp, in.answer(ctx, err, userTrailer(transport), setTrailer)
	}
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streams. A handler of a stream that lives long begins a chain for
// each message with [chainbudget.Start]: the request's tokens go home with the stream's end.
func StreamServerInterceptor(sdk *chainbudget.SDK, options ...Option) grpc.StreamServerInterceptor {
	s := newServer(sdk, options)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		ctx := stream.Context()
		if s.passes(ctx) {
			return handle(srv, stream)
		}
		generation := s.sdk.Generation()
		if rpc.Probe(info.FullMethod) || generation.Mode() == profiles.ModeBypass {
			return handle(srv, &serverStream{ServerStream: stream, ctx: plainContext(ctx)})
		}
		in := &inbound{sdk: s.sdk, method: info.FullMethod}
		if srv == nil { // the handler of unknown services: the name is whatever a client calls it
			in.method = unknownMethod
		}
		ctx, cancel := s.arrive(in, ctx, generation)
		defer cancel()
		wrapped := &serverStream{ServerStream: stream, ctx: ctx, in: in}
		done := false
		defer func() {
			if !done {
				in.panicked(ctx, stream.SetTrailer)
			}
			in.finish()
		}()
		err := handle(srv, wrapped)
		done = true
		return in.answer(ctx, err, wrapped.trailer(), stream.SetTrailer)
	}
}

const unknownMethod = "another method"

// server is what the interceptors need.
type server struct {
	sdk   *engine.SDK // nil: everything passes
	entry bool
}

func newServer(sdk *chainbudget.SDK, options []Option) *server {
	s := &server{}
	if (*engine.SDK)(sdk).Usable() {
		s.sdk = (*engine.SDK)(sdk)
	}
	for _, o := range options {
		s.entry = s.entry || o.Entry
	}
	return s
}

// passes reports whether a request is not this interceptor's: there is no SDK, or an interceptor further out has it.
func (s *server) passes(ctx context.Context) bool {
	if s.sdk == nil {
		return true
	}
	outer, _ := ctx.Value(nestedKey{}).(*inbound)
	// The outermost has stripped the request: one that brings a header was sent since, by a call within this process.
	return outer != nil && outer.sdk == s.sdk && len(incoming(ctx)[otelprop.RequestHeader]) == 0
}

// errCallerGone is the cause when the time that the caller has left runs out.
var errCallerGone = errors.New("chainbudget: the caller's attempt has no time left")

// arrive opens the purse of a request and returns its context.
func (s *server) arrive(in *inbound, ctx context.Context, g *engine.Generation) (context.Context, context.CancelFunc) {
	in.received = incoming(ctx)
	request := in.request(g)
	arrival := s.arrival(ctx, in.received, request, g)
	s.sdk.Arrive(&in.Inbound, arrival)
	in.Route = in
	in.Idempotent = request != nil && g.Local().IdempotentRequest(request)
	ctx = member.Strip(ctx)
	cancel := context.CancelFunc(nothing)
	if limit := arrival.Wire.Timeout; limit > 0 && !s.entry && arrival.Wire.Direct && g.Catalog().Chain.Deadlines == profiles.DeadlinesPropagate {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > limit {
			ctx, cancel = context.WithTimeoutCause(ctx, limit, errCallerGone)
		}
	}
	in.mark = requestContext{Context: in.Context(ctx), in: in}
	return &in.mark, cancel
}

// request is the request as HTTP/2 has it, for the patterns of the catalog: a POST to the method's name. It is nil where
// the catalog has no patterns.
func (in *inbound) request(g *engine.Generation) *http.Request {
	local := g.Local()
	if local == nil || len(local.Routes) == 0 && len(local.Idempotent) == 0 {
		return nil
	}
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: in.method}}
	if authority := in.received[":authority"]; len(authority) > 0 {
		r.Host = authority[0]
	}
	return r
}

// arrival reads what the request brought.
func (s *server) arrival(ctx context.Context, md metadata.MD, r *http.Request, g *engine.Generation) engine.Arrival {
	chain := &g.Catalog().Chain
	if s.entry {
		budget := chain.Budget
		if r != nil {
			if own, ok := g.Local().Budget(r); ok {
				budget = own
			}
		}
		return engine.Arrival{Generation: g, Entry: true, Budget: budget}
	}
	a := engine.Arrival{Generation: g, Foreign: rpc.Above(md["x-envoy-attempt-count"], 1) || rpc.Above(md["grpc-previous-rpc-attempts"], 0)}
	lines := md[otelprop.BaggageHeader]
	if len(lines) == 0 {
		lines = member.Line(ctx) // something further out may have taken the metadata and kept the baggage in the context
	}
	a.Wire, a.Rejects = otelprop.ReadRequest(lines, md[otelprop.RequestHeader], chain.MaxBudget)
	return a
}

// plainContext is the context of a request that the SDK has no part in, without what it brought of ours.
func plainContext(ctx context.Context) context.Context {
	ctx = member.Strip(ctx)
	if md := incoming(ctx); md != nil {
		ctx = metadata.NewIncomingContext(ctx, stripped(md))
	}
	return ctx
}

// userTrailer is the trailer that the handler of a unary method has set so far, as far as that is to be seen.
func userTrailer(transport grpc.ServerTransportStream) metadata.MD {
	if t, ok := transport.(interface{ Trailer() metadata.MD }); ok {
		return t.Trailer()
	}
	return nil
}
