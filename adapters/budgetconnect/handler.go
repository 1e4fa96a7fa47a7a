package budgetconnect

import (
	"context"
	"errors"
	"net/http"
	"time"

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
	h := &handler{}
	if (*engine.SDK)(sdk).Usable() {
		h.sdk = (*engine.SDK)(sdk)
	}
	for _, o := range options {
		h.entry = h.entry || o.Entry
	}
	return h
}

// handler is the interceptor.
type handler struct {
	sdk   *engine.SDK // nil: everything passes
	entry bool
}

var _ connect.Interceptor = (*handler)(nil)

// WrapStreamingClient implements [connect.Interceptor] with nothing.
func (h *handler) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapUnary implements [connect.Interceptor].
func (h *handler) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	if h.sdk == nil {
		return next
	}
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		spec := req.Spec()
		if spec.IsClient {
			return next(ctx, req)
		}
		if outer := h.outer(ctx, req.Header()); outer != nil {
			if resp, err = next(ctx, req); err != nil {
				blame(ctx, outer, err)
			}
			return resp, err
		}
		generation := h.sdk.Generation()
		if rpc.Probe(spec.Procedure) || generation.Mode() == profiles.ModeBypass {
			stripHeader(req.Header())
			return next(member.Strip(ctx), req)
		}
		in := &inbound{sdk: h.sdk, procedure: spec.Procedure, peer: req.Peer(), unary: true}
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
			in.finish()
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
	if h.sdk == nil {
		return next
	}
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if outer := h.outer(ctx, conn.RequestHeader()); outer != nil {
			err := next(ctx, conn)
			if err != nil {
				blame(ctx, outer, err)
			}
			return err
		}
		generation, procedure := h.sdk.Generation(), conn.Spec().Procedure
		if rpc.Probe(procedure) || generation.Mode() == profiles.ModeBypass {
			stripHeader(conn.RequestHeader())
			return next(member.Strip(ctx), conn)
		}
		in := &inbound{sdk: h.sdk, procedure: procedure, peer: conn.Peer(), answers: conn}
		ctx, cancel := h.arrive(in, ctx, generation, http.MethodPost, conn.RequestHeader())
		defer cancel()
		done := false
		defer func() {
			if !done {
				in.panicked(ctx)
			}
			in.finish()
		}()
		err := next(ctx, conn)
		done = true
		return in.answer(ctx, err)
	}
}

// outer returns the request that something further out has opened the purse of, or nil.
func (h *handler) outer(ctx context.Context, header http.Header) *engine.Inbound {
	// The outermost has stripped the request: one that brings a header was sent since, by a call within this process.
	if outer := engine.FromContext(ctx); outer != nil && outer.SDK() == h.sdk && len(header[otelprop.HTTPRequestHeader]) == 0 {
		return outer
	}
	return nil
}

// errCallerGone is the cause when the time that the caller has left runs out.
var errCallerGone = errors.New("chainbudget: the caller's attempt has no time left")

// arrive opens the purse of a request and returns its context.
func (h *handler) arrive(in *inbound, ctx context.Context, g *engine.Generation, method string, header http.Header) (context.Context, context.CancelFunc) {
	request := in.request(g, method, header)
	arrival := h.arrival(ctx, header, request, g)
	h.sdk.Arrive(&in.Inbound, arrival)
	in.Route = in
	in.Idempotent = request != nil && g.Local().IdempotentRequest(request)
	stripHeader(header)
	ctx = member.Strip(ctx)
	cancel := context.CancelFunc(nothing)
	if limit := arrival.Wire.Timeout; limit > 0 && !h.entry && arrival.Wire.Direct && g.Catalog().Chain.Deadlines == profiles.DeadlinesPropagate {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > limit {
			ctx, cancel = context.WithTimeoutCause(ctx, limit, errCallerGone)
		}
	}
	return in.Context(ctx), cancel
}

func nothing() {}

// arrival reads what the request brought.
func (h *handler) arrival(ctx context.Context, header http.Header, r *http.Request, g *engine.Generation) engine.Arrival {
	chain := &g.Catalog().Chain
	if h.entry {
		budget := chain.Budget
		if r != nil {
			if own, ok := g.Local().Budget(r); ok {
				budget = own
			}
		}
		return engine.Arrival{Generation: g, Entry: true, Budget: budget}
	}
	a := engine.Arrival{Generation: g, Foreign: rpc.Above(header["X-Envoy-Attempt-Count"], 1) || rpc.Above(header["Grpc-Previous-Rpc-Attempts"], 0)}
	lines := header[otelprop.HTTPBaggageHeader]
	if len(lines) == 0 {
		lines = member.Line(ctx) // something further out may have taken the header and kept the baggage in the context
	}
	a.Wire, a.Rejects = otelprop.ReadRequest(lines, header[otelprop.HTTPRequestHeader], chain.MaxBudget)
	return a
}
