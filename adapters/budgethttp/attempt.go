package budgethttp

import (
	"context"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/nethttp"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// attempt is one request on the wire, and its context. What watches net/http's connections is made only when net/http
// asks for it, so that a base that never does costs nothing.
type attempt struct {
	engine.Attempt
	x *exchange

	values  [2]string // backing of the two header values that the attempt writes
	member  string    // the baggage member of its wire; "" = it has none
	body    responseBody
	sent    *requestBody
	drained bool

	watch nethttp.Watch
}

var _ nethttp.Watched = (*attempt)(nil)

// Value implements [context.Context].
func (a *attempt) Value(key any) any {
	if key == nethttp.TraceKey {
		return a.watch.Trace(a.x.Parent(), a)
	}
	if key == member.Key && a.member != "" {
		return member.With(a.Parent(), a.member).Value(key)
	}
	if _, ok := key.(exchangeKey); ok {
		return a.x
	}
	return a.Attempt.Value(key)
}

// Repeated implements [nethttp.Watched].
func (a *attempt) Repeated() { a.x.Dependency().SDK().HiddenRepeat() }

// Version implements [nethttp.Watched]. Until a host's first answer it is taken for HTTP/1: of each attempt on it, the
// fields written would have to be looked at.
func (a *attempt) Version() (major int) {
	if a.x.Dependency().Multiplexes(a.x.req.URL.Host) {
		return 2
	}
	return 1
}

// Spoke implements [nethttp.Watched]; answers tell, see [exchange.try].
func (a *attempt) Spoke(int) {}

// rewound is GetBody for net/http, which asks for a second body only to send the request again.
func (a *attempt) rewound() (io.ReadCloser, error) {
	if cause := a.Canceled(); cause != nil {
		return nil, cause // the call may be over, and its body the caller's again
	}
	if !a.watch.Rewinds() {
		return nil, nethttp.ErrReplay
	}
	return a.x.req.GetBody()
}

// try makes one attempt and settles it.
func (x *exchange) try(now time.Time, body io.ReadCloser) (*http.Response, error) {
	a := &x.first
	if x.current != nil {
		a = new(attempt)
	}
	x.current = a
	a.x = x
	req := x.prepare(a, now, body)
	unblock := a.unblockBody()
	base := x.base
	if req.Close && !x.req.Close {
		base = onNewConnection(base)
	}
	returned := false
	defer func() {
		if !returned { // base panicked, or ended its goroutine
			x.abandon()
		}
	}()
	resp, err := base.RoundTrip(req)
	returned = true
	unblock()
	a.Disarm()
	switch {
	case resp == nil && err == nil:
		err = errNeither
	case resp != nil && err != nil:
		closeReader(resp.Body)
		resp = nil
	case resp != nil:
		if cause := a.Canceled(); cause != nil && cause != engine.ErrLost {
			// The time was over just as the headers came. The body ends with the context: nobody could read it.
			closeReader(resp.Body)
			resp, err = nil, cause
		}
	}
	x.judge(a, resp, err)
	if x.Result.Failed {
		if peer := a.watch.Peer(); peer != "" {
			x.TalkedTo(peer)
		}
	}
	x.Done(x.Now())
	if resp != nil {
		if resp.TLS == nil {
			x.Dependency().Spoke(x.req.URL.Host, resp.ProtoMajor)
		}
		if resp.Request == nil {
			resp.Request = req
		}
	}
	switch {
	case x.Dropped():
		a.discard(resp)
		return nil, err
	case resp != nil:
		a.own(resp)
	default:
		a.Release()
	}
	return resp, err
}

// discard gives up what nobody waits for.
func (a *attempt) discard(resp *http.Response) {
	switch {
	case resp == nil:
	case a.Canceled() != nil: // its connection is lost anyway
		closeReader(resp.Body)
	default:
		a.drain(resp)
	}
	a.Release()
}

// abandon settles an attempt of which nothing more will be heard: its lease is lost and its permit comes back.
func (x *exchange) abandon() {
	x.Result.Failed = true
	x.Result.Judge(x.Dependency())
	x.Done(x.Now())
	x.current.Release()
}

// unblockBody closes a streaming body when the attempt's time is over: net/http's HTTP/1 waits for a Read of it that may
// never return. The function that it returns ends that.
func (a *attempt) unblockBody() (stop func() bool) {
	if a.sent == nil || a.x.req.GetBody != nil { // what can be rewound is at hand
		return nothingToStop
	}
	return context.AfterFunc(a, func() { a.sent.Close() })
}

func nothingToStop() bool { return true }

// onNewConnection returns base with an empty pool. Request.Close alone would keep net/http from using the connection
// again afterwards, not from sending the request over the one that the callee has just called the wrong one. Of a base
// that is not net/http's own no more than Request.Close can be asked.
func onNewConnection(base http.RoundTripper) http.RoundTripper {
	pool, ok := base.(*http.Transport)
	if !ok {
		return base
	}
	pool = pool.Clone()
	pool.DisableKeepAlives = true // the connection ends with the response
	return pool
}

// prepare makes the request of one attempt: a copy with a header map of its own.
func (x *exchange) prepare(a *attempt, now time.Time, body io.ReadCloser) *http.Request {
	limit, limited := x.AttemptLimit(now)
	parent := x.Parent()
	if n := x.Attempts(); n > 1 {
		countResend(parent, n-1)
	}
	header := copyHeader(x.req.Header)
	if x.external {
		member.StripHeaders(member.HTTP(header))
		parent = member.Strip(parent) // an instrumented transport below would write the baggage that it finds there
	} else {
		left := limit
		if deadline, ok := parent.Deadline(); ok && !limited {
			left = max(deadline.Sub(now), time.Millisecond)
		}
		if x.Policy().Deadlines() == profiles.DeadlinesIgnore {
			left = 0
		}
		wire, n := x.Lend(left)
		x.write(a, header, wire, n)
	}
	a.Init(parent, &x.Call)
	if limited {
		a.Arm(limit)
	}
	req := x.req.WithContext(a)
	req.Header = header
	if body != nil && body != http.NoBody {
		a.sent = &requestBody{ReadCloser: body}
		req.Body = a.sent
		if x.req.GetBody != nil {
			req.GetBody = a.rewound
		}
	} else {
		req.Body = body
	}
	if status, _, _ := x.Previous(); status == http.StatusMisdirectedRequest {
		req.Close = true // another connection
	}
	return req
}

// write puts the attempt's wire on the request, and gives the member to its context.
func (x *exchange) write(a *attempt, header http.Header, wire string, memberLen int) {
	member, value := wire[:memberLen], wire[len(otelprop.MemberKey)+1:]
	sdk := x.Dependency().SDK()
	lent, _ := x.Lent()
	a.watch.Lease = lent > 0
	a.member = member
	a.values[0], a.values[1] = value, member
	if foreign := header[otelprop.HTTPBaggageHeader]; len(foreign) > 0 {
		merged, dropped := otelprop.MergeBaggage(foreign, member)
		a.values[1] = merged
		sdk.BaggageDropped(dropped)
	}
	header[otelprop.HTTPRequestHeader] = a.values[0:1:1]
	header[otelprop.HTTPBaggageHeader] = a.values[1:2:2]
	if x.Policy().Mesh() == profiles.MeshEnvoy {
		header["X-Envoy-Max-Retries"] = envoyNoRetries
	}
	x.MarkWritten()
}

var envoyNoRetries = []string{"0"}

// countResend notes the ordinal on the current span if it is the span of this client request, as it is when an
// instrumented transport stands outside this one. Inside, [AnnotateSpan] does it.
func countResend(ctx context.Context, resend int) {
	span := trace.SpanFromContext(ctx)
	if k, ok := span.(interface{ SpanKind() trace.SpanKind }); ok && k.SpanKind() == trace.SpanKindClient {
		setResend(span, resend)
	}
}
