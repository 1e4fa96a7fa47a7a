package budgethttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// HandlerOption configures [NewHandler].
type HandlerOption struct {
	entry bool
}

// Entry makes chains begin at the handler: it ignores whatever budget, timeout, claim and counter a request brings,
// mints the catalog's budget (of the route, or of the chain), and sends no return. Use it where the fleet's outside
// begins: browsers, partners, gateways.
func Entry() HandlerOption { return HandlerOption{entry: true} }

// NewHandler returns a handler that takes part in chains for next. With a nil or zero sdk it is next itself. Within a handler of
// the same request it does nothing: the outermost decides.
func NewHandler(next http.Handler, sdk *chainbudget.SDK, options ...HandlerOption) http.Handler {
	if !(*engine.SDK)(sdk).Usable() {
		return next
	}
	h := &handler{next: next, sdk: (*engine.SDK)(sdk)}
	for _, o := range options {
		h.entry = h.entry || o.entry
	}
	return h
}

type handler struct {
	next  http.Handler
	sdk   *engine.SDK
	entry bool
}

// inbound is the state of one request.
type inbound struct {
	engine.Inbound
	w      http.ResponseWriter
	r      *http.Request // as the handler further in gets it
	sdk    *engine.SDK
	sent   bool // the headers went out, or never will
	status int
	line   [1]string // backing of the return's header
	nested nestedMark
}

// nestedMark is the context that tells a handler further in that this request has one.
type nestedMark struct {
	context.Context
	in *inbound
}

type nestedKey struct{}

func (m *nestedMark) Value(key any) any {
	if _, ok := key.(nestedKey); ok {
		return m.in
	}
	return m.Context.Value(key)
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	// The outermost has stripped the request: one that brings a header was sent since, by a call within this process.
	sent := len(r.Header[otelprop.HTTPRequestHeader]) > 0
	if outer, _ := ctx.Value(nestedKey{}).(*inbound); outer != nil && outer.sdk == h.sdk && !sent {
		h.next.ServeHTTP(w, r)
		return
	}
	generation := h.sdk.Generation()
	if probe(r.URL.Path) || generation.Mode() == profiles.ModeBypass {
		member.StripHeaders(member.HTTP(r.Header))
		h.next.ServeHTTP(w, r.WithContext(member.Strip(ctx)))
		return
	}
	in := &inbound{w: w, sdk: h.sdk}
	arrival := h.arrival(r, generation)
	h.sdk.Arrive(&in.Inbound, arrival)
	in.Idempotent = generation.Local().IdempotentRequest(r)
	// I6: nothing forwards the grant a second time, neither the headers nor the context.
	member.StripHeaders(member.HTTP(r.Header))
	ctx = member.Strip(ctx)
	if limit := arrival.Wire.Timeout; limit > 0 && !h.entry && arrival.Wire.Direct && generation.Catalog().Chain.Deadlines == profiles.DeadlinesPropagate {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > limit {
			bounded, cancel := context.WithTimeoutCause(ctx, limit, errCallerGone)
			defer cancel()
			ctx = bounded
		}
	}
	in.nested = nestedMark{Context: in.Context(ctx), in: in}
	in.r = r.WithContext(&in.nested)
	in.Route = in
	panicked := true
	defer func() {
		if panicked {
			ownership.Own(&in.nested)
			in.status = http.StatusInternalServerError // what a recovering middleware further out will say
		}
		in.finish()
	}()
	h.next.ServeHTTP(wrapWriter(in), in.r)
	panicked = false
}

// errCallerGone is the cause when the time that the caller has left runs out.
var errCallerGone = errors.New("chainbudget: the caller's attempt has no time left")

// probe reports whether a path is asked by machines that only want to know whether the service is there.
func probe(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/livez", "/metrics":
		return true
	}
	return false
}

// arrival reads what the request brought.
func (h *handler) arrival(r *http.Request, g *engine.Generation) engine.Arrival {
	chain := &g.Catalog().Chain
	if h.entry {
		budget, ok := g.Local().Budget(r)
		if !ok {
			budget = chain.Budget
		}
		return engine.Arrival{Generation: g, Entry: true, Budget: budget}
	}
	a := engine.Arrival{Generation: g, Foreign: repeated(r.Header)}
	lines := r.Header[otelprop.HTTPBaggageHeader]
	header := r.Header[otelprop.HTTPRequestHeader]
	if len(lines) == 0 {
		lines = member.Line(r.Context()) // something further out may have taken the header and kept the baggage there
	}
	a.Wire, a.Rejects = otelprop.ReadRequest(lines, header, chain.MaxBudget)
	return a
}

// repeated reports whether something between the hops says that it has sent this request before. A count of one proves
// nothing.
func repeated(h http.Header) bool {
	return rpc.Above(h["X-Envoy-Attempt-Count"], 1) || rpc.Above(h["Grpc-Previous-Rpc-Attempts"], 0)
}

// headersOut is called once, just before the final headers go out: it closes the purse and sets the return.
func (in *inbound) headersOut(status int) {
	if in.sent {
		return
	}
	in.sent = true
	in.status = status
	header := in.w.Header()
	delete(header, otelprop.HTTPReturnHeader) // the user's code may have copied a callee's
	answer := in.answer()
	if !in.Owes() && !answer.Failed {
		return
	}
	if answer.Failed {
		in.ownPanic()
	}
	verdict := in.Verdict(in.r.Context(), answer)
	if in.Owes() {
		ret := in.Return(verdict)
		var buf [otelprop.MaxReturn]byte
		in.line[0] = string(ret.Append(buf[:0]))
		header[otelprop.HTTPReturnHeader] = in.line[:]
	}
}

// ownPanic takes a panic that a middleware further in answers as this service's own failure. Where no call failed it is that
// already.
func (in *inbound) ownPanic() {
	if failed, _, exact := in.Tracker.Failures(); (exact || len(failed) > 0) && panicking() {
		ownership.Own(in.r.Context())
	}
}

// Operation names the route: the mux has set the pattern by the time anybody asks. Of another router's routes only the
// method is known: a raw path would be without bound, and so would be whatever a client calls a method.
func (in *inbound) Operation() string {
	if in.r.Pattern != "" {
		return in.r.Pattern
	}
	switch m := in.r.Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "another method"
}

// answer describes the answer by its status.
func (in *inbound) answer() engine.Answer {
	return engine.Answer{
		Failed:   in.Generation().Local().Failure(in.status),
		Rejected: in.status == http.StatusServiceUnavailable || in.status == http.StatusTooManyRequests,
	}
}

// finish is called when the handler is done.
func (in *inbound) finish() {
	if !in.sent {
		in.headersOut(max(in.status, http.StatusOK))
	}
	in.Learn(in.answer())
	in.End()
}

// HandlerFunc is a handler that returns its failure as an error, so that the failed call inside it is the exact cause
// of this service's failure. An error that wraps no failed call is this service's own.
//
// The error is answered with the status that it names (a method HTTPStatus() int), else 504 if a call inside it ran out
// of time, 502 if it wraps a failed call, or 500; the body is the status text. If the handler has already written
// headers the error only decides the claim, which is then too late to be sent.
type HandlerFunc func(http.ResponseWriter, *http.Request) error

// ServeHTTP implements [http.Handler].
func (f HandlerFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := f(w, r)
	if err == nil {
		return
	}
	if denied, ok := err.(*chainbudget.DeniedError); ok && denied == nil {
		return // what Denied returns for a response that is no failure, passed on unlooked-at
	}
	ownership.Blame(r.Context(), err)
	if in, _ := r.Context().Value(nestedKey{}).(*inbound); in != nil && in.sent {
		return
	}
	status := statusOf(err)
	http.Error(w, http.StatusText(status), status)
}

func statusOf(err error) int {
	var own interface{ HTTPStatus() int }
	if errors.As(err, &own) {
		if s := own.HTTPStatus(); s >= 400 && s <= 599 {
			return s
		}
	}
	var failed *chainbudget.DeniedError
	switch {
	case !errors.As(err, &failed):
		return http.StatusInternalServerError
	case failed == nil: // Denied of a response that no transport of ours returned, wrapped unlooked-at
		return http.StatusBadGateway
	case failed.Timeout(), failed.Status == http.StatusGatewayTimeout:
		return http.StatusGatewayTimeout
	default:
		return http.StatusBadGateway
	}
}
