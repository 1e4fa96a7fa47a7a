package budgetgrpc

import (
	"context"
	"net/http"

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
		generation := s.SDK.Generation()
		if rpc.Probe(info.FullMethod) || generation.Mode() == profiles.ModeBypass {
			return handle(plainContext(ctx), req)
		}
		in := &inbound{method: info.FullMethod}
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
			rpc.Finish(&in.Inbound, in.status())
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
		generation := s.SDK.Generation()
		if rpc.Probe(info.FullMethod) || generation.Mode() == profiles.ModeBypass {
			return handle(srv, &serverStream{ServerStream: stream, ctx: plainContext(ctx)})
		}
		in := &inbound{method: info.FullMethod}
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
			rpc.Finish(&in.Inbound, in.status())
		}()
		err := handle(srv, wrapped)
		done = true
		return in.answer(ctx, err, wrapped.trailer(), stream.SetTrailer)
	}
}

const unknownMethod = "another method"

// server is what the interceptors need.
type server struct{ rpc.Server }

func newServer(sdk *chainbudget.SDK, options []Option) *server {
	entry := false
	for _, o := range options {
		entry = entry || o.Entry
	}
	return &server{rpc.NewServer((*engine.SDK)(sdk), entry)}
}

// passes reports whether a request is not this interceptor's: there is no SDK, or an interceptor further out has it.
func (s *server) passes(ctx context.Context) bool {
	if s.SDK == nil {
		return true
	}
	outer, _ := ctx.Value(nestedKey{}).(*inbound)
	// The outermost has stripped the request: one that brings a header was sent since, by a call within this process.
	return outer != nil && outer.SDK() == s.SDK && len(incoming(ctx)[otelprop.RequestHeader]) == 0
}

// arrive opens the purse of a request and returns its context.
func (s *server) arrive(in *inbound, ctx context.Context, g *engine.Generation) (context.Context, context.CancelFunc) {
	md := incoming(ctx)
	in.received = md
	ctx, cancel := s.Arrive(ctx, &in.Inbound, g, &rpc.Request{
		Method:    http.MethodPost, // as HTTP/2 has it
		Procedure: in.method,
		Host:      md[":authority"],
		Header:    md[otelprop.RequestHeader],
		Baggage:   md[otelprop.BaggageHeader],
		Envoy:     md["x-envoy-attempt-count"],
		GRPC:      md["grpc-previous-rpc-attempts"],
	})
	in.Route = in
	in.mark = requestContext{Context: in.Context(ctx), in: in}
	return &in.mark, cancel
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
