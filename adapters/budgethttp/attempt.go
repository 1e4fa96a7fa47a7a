package budgethttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/chainbudget/chainbudget-go/internal/engine"
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

	traceMu sync.Mutex
	trace   *httptrace.ClientTrace
	conns   []connection
	target  string // what net/http looked for last
	heard   bool   // an answer began on the latest connection
	asked   bool   // net/http began to look for a connection
	left    bool   // and got one
	lease   bool   // the request carries tokens
	stopped bool   // a replay was stopped
	counted bool   // the replay that net/http is looking for a connection for was counted
}

// connection is one that net/http got for the attempt.
type connection struct {
	conn  net.Conn
	http2 bool
}

// errReplay is the cause of an attempt that net/http would have sent a second time.
var errReplay = errors.New("chainbudget: the connection died before an answer came; net/http's own replay was stopped")

// errRefusedTwice is the error of an attempt that the callee's HTTP/2 refused, and its one repetition too.
var errRefusedTwice = errors.New("chainbudget: the HTTP/2 server refused the request twice without processing it")

// Value implements [context.Context].
func (a *attempt) Value(key any) any {
	if key == traceKey {
		return a.clientTrace()
	}
	if key == baggageKey && a.member != "" {
		return withMember(a.Parent(), a.member).Value(key)
	}
	if _, ok := key.(exchangeKey); ok {
		return a.x
	}
	return a.Attempt.Value(key)
}

// withMember returns a context with the attempt's member in its baggage, where an instrumented transport below would
// otherwise write a baggage header without it. It is made when such a transport asks.
func withMember(ctx context.Context, member string) context.Context {
	bag := baggage.FromContext(ctx)
	if n := bag.Len(); n == 0 || n >= otelprop.MaxBaggageMembers && bag.Member(otelprop.MemberKey).Key() == "" {
		return ctx
	}
	m, err := baggage.NewMemberRaw(otelprop.MemberKey, member[len(otelprop.MemberKey)+1:])
	if err != nil {
		return ctx
	}
	if bag, err = bag.SetMember(m); err != nil {
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, bag)
}

// The keys under which net/http looks for a ClientTrace, and OpenTelemetry for baggage.
var (
	traceKey   = keyOf(func(ctx context.Context) { httptrace.ContextClientTrace(ctx) })
	baggageKey = keyOf(func(ctx context.Context) { baggage.FromContext(ctx) })
)

// keyOf returns the key that ask looks for.
func keyOf(ask func(context.Context)) any {
	var probe keyProbe
	ask(&probe)
	return probe.key
}

// keyProbe is a context that remembers what it was asked for.
type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Value(key any) any {
	p.key = key
	return nil
}

// clientTrace returns the hooks that watch for replays, composed with the caller's own.
func (a *attempt) clientTrace() *httptrace.ClientTrace {
	a.traceMu.Lock()
	defer a.traceMu.Unlock()
	if a.trace == nil {
		ours := &httptrace.ClientTrace{GetConn: a.getConn, GotConn: a.gotConn, GotFirstResponseByte: a.gotAnswer}
		a.trace = httptrace.ContextClientTrace(httptrace.WithClientTrace(a.x.Parent(), ours))
	}
	return a.trace
}

func (a *attempt) getConn(target string) {
	a.traceMu.Lock()
	if a.asked && (a.heard || target != a.target) {
		// net/http replays only to the same place and only what got no answer. This is a request of a layer between: a
		// token that it fetches, or its answer to a challenge.
		a.conns, a.heard = nil, false
	}
	a.asked, a.target = true, target
	stop := len(a.conns) > 0 && a.mustStop()
	a.stopped = a.stopped || stop
	a.counted = stop // it may get no connection any more
	a.traceMu.Unlock()
	if stop {
		a.x.Dependency().SDK().HiddenRepeat()
		a.Cancel(errReplay)
	}
}

func (a *attempt) gotAnswer() {
	a.traceMu.Lock()
	a.heard = true
	a.traceMu.Unlock()
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	c := connection{conn: info.Conn}
	if t, ok := info.Conn.(*tls.Conn); ok {
		c.http2 = t.ConnectionState().NegotiatedProtocol == "h2"
	} else {
		c.http2 = a.x.Dependency().Multiplexes(a.x.req.URL.Host)
	}
	a.traceMu.Lock()
	again := len(a.conns) > 0
	if again && a.conns[len(a.conns)-1].conn == c.conn {
		c.http2 = true // HTTP/1 never takes a dead connection twice
		a.conns[0].http2 = true
	}
	stop := again && a.mustStop()
	a.stopped = a.stopped || stop
	counted := a.counted
	a.counted = false
	a.left = true
	a.conns = append(a.conns, c)
	a.traceMu.Unlock()
	if !again {
		return
	}
	if !counted {
		a.x.Dependency().SDK().HiddenRepeat()
	}
	if stop {
		a.Cancel(errReplay)
		if !c.http2 && info.Conn != nil {
			info.Conn.Close() // the request would be written whatever its context says
		}
	}
}

// mustStop reports whether one more sending must not happen. HTTP/2 repeats only what the server has not processed, so
// one repetition is free; HTTP/1 repeats what may have been processed, and a lease must not arrive twice.
func (a *attempt) mustStop() bool {
	if a.conns[0].http2 {
		return len(a.conns) >= 2
	}
	return a.lease
}

// rewound is GetBody for net/http, which asks for a second body only to send the request again.
func (a *attempt) rewound() (io.ReadCloser, error) {
	if cause := a.Canceled(); cause != nil {
		return nil, cause // the call may be over, and its body the caller's again
	}
	a.traceMu.Lock()
	stop := len(a.conns) > 0 && !a.heard && a.mustStop()
	a.stopped = a.stopped || stop
	a.traceMu.Unlock()
	if stop {
		a.x.Dependency().SDK().HiddenRepeat()
		a.Cancel(errReplay)
		return nil, errReplay
	}
	return a.x.req.GetBody()
}

// vetoed reports whether a replay was stopped.
func (a *attempt) vetoed() bool {
	a.traceMu.Lock()
	defer a.traceMu.Unlock()
	return a.stopped
}

// refusedTwice reports whether the replay that was stopped is one of HTTP/2's: the server has said of each sending that
// it did nothing with it.
func (a *attempt) refusedTwice() bool {
	a.traceMu.Lock()
	defer a.traceMu.Unlock()
	return a.stopped && len(a.conns) > 0 && a.conns[0].http2
}

// neverLeft reports whether net/http looked for a connection and got none.
func (a *attempt) neverLeft() bool {
	a.traceMu.Lock()
	defer a.traceMu.Unlock()
	return a.asked && !a.left
}

// watched reports whether net/http told what it did with connections.
func (a *attempt) watched() bool {
	a.traceMu.Lock()
	defer a.traceMu.Unlock()
	return a.asked
}

// neverLooked reports whether net/http refused the request before it looked for a connection.
func (a *attempt) neverLooked() bool {
	a.traceMu.Lock()
	defer a.traceMu.Unlock()
	return a.trace != nil && !a.asked
}

func (a *attempt) peer() string {
	a.traceMu.Lock()
	defer a.traceMu.Unlock()
	if n := len(a.conns); n > 0 && a.conns[n-1].conn != nil {
		return a.conns[n-1].conn.RemoteAddr().String()
	}
	return ""
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
		if peer := a.peer(); peer != "" {
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
	x.Done(time.Now())
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
		stripHeader(header)
		parent = stripContext(parent) // an instrumented transport below would write the baggage that it finds there
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
	a.lease = lent > 0
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
