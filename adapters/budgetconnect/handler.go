package budgetconnect

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// NewHandlerInterceptor makes handlers take part in chains:
//
//	connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(sdk))
//
// Interceptors after it run inside. With a nil or zero sdk requests pass as they are; on a client it does nothing. Within
// another of the same request and SDK it does nothing either: the outermost decides.
func NewHandlerInterceptor(sdk *chainbudget.SDK, options ...Option) connect.Interceptor {
	entry := false
	for _, o := range options {
		entry = entry || o.Entry
	}
	return &handler{rpc.NewServer((*engine.SDK)(sdk), entry)}
}

// handler is the interceptor.
type handler struct{ rpc.Server }

var _ connect.Interceptor = (*handler)(nil)

// WrapStreamingClient implements [connect.Interceptor] with nothing.
func (h *handler) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapUnary implements [connect.Interceptor].
func (h *handler) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	if h.SDK == nil {
		return next
	}
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		spec := req.Spec()
		if spec.IsClient {
			return next(ctx, req)
		}
		if outer := h.outer(ctx, req.Header()); outer != nil {
			if resp, err = next(ctx, req); err != nil {
				rpc.Blame(ctx, outer, err)
			}
			return resp, err
		}
		generation := h.SDK.Generation()
		if rpc.Probe(spec.Procedure) || generation.Mode() == profiles.ModeBypass {
			member.StripHeaders(member.HTTP(req.Header()))
			return next(member.Strip(ctx), req)
		}
		in := &inbound{procedure: spec.Procedure, peer: req.Peer(), unary: true}
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
			in.answers = info
		}
		ctx, cancel := h.arrive(in, ctx, generation, req.HTTPMethod(), req.Header())
		defer cancel()
		done := false
		defer func() {
			if !done {
				in.panicked(ctx)
			}
			rpc.Finish(&in.Inbound, in.status)
		}()
		resp, err = next(ctx, req)
		done = true
		if err != nil {
			return resp, in.answer(ctx, err)
		}
		return in.succeed(ctx, resp), nil
	}
}

// WrapStreamingHandler implements [connect.Interceptor].
func (h *handler) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	if h.SDK == nil {
		return next
	}
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if outer := h.outer(ctx, conn.RequestHeader()); outer != nil {
			err := next(ctx, conn)
			if err != nil {
				rpc.Blame(ctx, outer, err)
			}
			return err
		}
		generation, procedure := h.SDK.Generation(), conn.Spec().Procedure
		if rpc.Probe(procedure) || generation.Mode() == profiles.ModeBypass {
			member.StripHeaders(member.HTTP(conn.RequestHeader()))
			return next(member.Strip(ctx), conn)
		}
		in := &inbound{procedure: procedure, peer: conn.Peer(), answers: conn}
		ctx, cancel := h.arrive(in, ctx, generation, http.MethodPost, conn.RequestHeader())
		defer cancel()
		done := false
		defer func() {
			if !done {
				in.panicked(ctx)
			}
			rpc.Finish(&in.Inbound, in.status)
		}()
		err := next(ctx, conn)
		done = true
		return in.answer(ctx, err)
	}
}

// outer returns the request that something further out has opened the purse of, or nil.
func (h *handler) outer(ctx context.Context, header http.Header) *engine.Inbound {
	// The outermost has stripped the request: one that brings a header was sent since, by a call within this process.
	if outer := engine.FromContext(ctx); outer != nil && outer.SDK() == h.SDK && len(header[otelprop.HTTPRequestHeader]) == 0 {
		return outer
	}
	return nil
}

// arrive opens the purse of a request and returns its context.
func (h *handler) arrive(in *inbound, ctx context.Context, g *engine.Generation, method string, header http.Header) (context.Context, context.CancelFunc) {
	ctx, cancel := h.Arrive(ctx, &in.Inbound, g, &rpc.Request{
		Method:    method,
		Procedure: in.procedure,
		Host:      header["Host"],
		Header:    header[otelprop.HTTPRequestHeader],
		Baggage:   header[otelprop.HTTPBaggageHeader],
		Envoy:     header["X-Envoy-Attempt-Count"],
		GRPC:      header["Grpc-Previous-Rpc-Attempts"],
	})
	in.Route = in
	member.StripHeaders(member.HTTP(header))
	return in.Context(ctx), cancel
}
