package budgetconnect

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// NewHandlerInterceptor makes handlers take part in chains:
//
//	connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(sdk))
//
// Interceptors after it run inside. With a nil or zero sdk requests pass as they are; on a client it does nothing. Within
// another of the same request and SDK it does nothing either: the outermost decides.
func NewHandlerInterceptor(sdk *chainbudget.SDK, options ...Option) connect.Interceptor {
	return &handler{rpc.NewServer((*engine.SDK)(sdk), sum(options).Entry)}
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
		if outer := connectrpc.Outer(ctx, h.SDK, member.HTTP(req.Header())); outer != nil {
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
		in := &inbound{}
		in.Procedure, in.Protocol, in.Unary = spec.Procedure, req.Peer().Protocol, true
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
			in.answers = info
		}
		ctx, cancel := in.Arrive(ctx, &h.Server, generation, req.HTTPMethod(), member.HTTP(req.Header()))
		defer cancel()
		done := false
		defer func() {
			if !done {
				in.panicked(ctx)
			}
			rpc.Finish(&in.Inbound.Inbound, in.Status)
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
		if outer := connectrpc.Outer(ctx, h.SDK, member.HTTP(conn.RequestHeader())); outer != nil {
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
		in := &inbound{answers: conn}
		in.Procedure, in.Protocol = procedure, conn.Peer().Protocol
		ctx, cancel := in.Arrive(ctx, &h.Server, generation, http.MethodPost, member.HTTP(conn.RequestHeader()))
		defer cancel()
		done := false
		defer func() {
			if !done {
				in.panicked(ctx)
			}
			rpc.Finish(&in.Inbound.Inbound, in.Status)
		}()
		err := next(ctx, conn)
		done = true
		return in.answer(ctx, err)
	}
}
