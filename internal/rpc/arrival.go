package rpc

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Server is the handler's side of an interceptor.
type Server struct {
	SDK   *engine.SDK // nil: everything passes
	Entry bool
}

// NewServer returns the side of an interceptor for an SDK, which may be unusable.
func NewServer(sdk *engine.SDK, entry bool) Server {
	if !sdk.Usable() {
		sdk = nil
	}
	return Server{SDK: sdk, Entry: entry}
}

// Request is what a request brought, in whatever spelling. The slices are read and not kept.
type Request struct {
	Method    string // of HTTP
	Procedure string
	Host      []string // the first counts
	Header    []string // the lines of ours
	Baggage   []string
	Envoy     []string // x-envoy-attempt-count
	GRPC      []string // grpc-previous-rpc-attempts
}

// errCallerGone is the cause when the time that the caller has left runs out.
var errCallerGone = errors.New("chainbudget: the caller's attempt has no time left")

// Arrive opens the purse of a request. It returns ctx without what the request brought of ours in its baggage, and bounded
// by the time that the caller has left.
func (s *Server) Arrive(ctx context.Context, in *engine.Inbound, g *engine.Generation, r *Request) (context.Context, context.CancelFunc) {
	request := r.http(g)
	arrival := s.arrival(ctx, g, r, request)
	s.SDK.Arrive(in, arrival)
	in.Idempotent = request != nil && g.Local().IdempotentRequest(request)
	ctx = member.Strip(ctx)
	if limit := arrival.Wire.Timeout; limit > 0 && !s.Entry && arrival.Wire.Direct && g.Catalog().Chain.Deadlines == profiles.DeadlinesPropagate {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > limit {
			return context.WithTimeoutCause(ctx, limit, errCallerGone)
		}
	}
	return ctx, nothing
}

func nothing() {}

// http is the request as HTTP has it, for the patterns of the catalog. It is nil where the catalog has none.
func (r *Request) http(g *engine.Generation) *http.Request {
	local := g.Local()
	if local == nil || len(local.Routes) == 0 && len(local.Idempotent) == 0 {
		return nil
	}
	request := &http.Request{Method: r.Method, URL: &url.URL{Path: r.Procedure}}
	if len(r.Host) > 0 {
		request.Host = r.Host[0]
	}
	return request
}

// arrival reads what the request brought.
func (s *Server) arrival(ctx context.Context, g *engine.Generation, r *Request, request *http.Request) engine.Arrival {
	chain := &g.Catalog().Chain
	if s.Entry {
		budget := chain.Budget
		if request != nil {
			if own, ok := g.Local().Budget(request); ok {
				budget = own
			}
		}
		return engine.Arrival{Generation: g, Entry: true, Budget: budget}
	}
	a := engine.Arrival{Generation: g, Foreign: Above(r.Envoy, 1) || Above(r.GRPC, 0)}
	lines := r.Baggage
	if len(lines) == 0 {
		lines = member.Line(ctx) // something further out may have taken the header and kept the baggage in the context
	}
	a.Wire, a.Rejects = otelprop.ReadRequest(lines, r.Header, chain.MaxBudget)
	return a
}
