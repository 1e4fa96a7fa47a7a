package nethttp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"sync"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
)

// TraceKey is the key under which net/http looks for a ClientTrace in a context.
var TraceKey = ctxkey.Of(func(ctx context.Context) { httptrace.ContextClientTrace(ctx) })

// ErrReplay is the cause of an attempt that net/http would have sent a second time.
var ErrReplay = errors.New("chainbudget: the connection died before an answer came; net/http's own replay was stopped")

// ErrRefusedTwice is the error of an attempt that the callee's HTTP/2 refused, and its one repetition too.
var ErrRefusedTwice = errors.New("chainbudget: the HTTP/2 server refused the request twice without processing it")

// Watched is the attempt that a Watch belongs to.
type Watched interface {
	// Cancel ends the attempt.
	Cancel(cause error)
	// Repeated is told that net/http sends the request again.
	Repeated()
	// Version returns the HTTP version that the callee speaks over connections without TLS, 0 if it is not known. Spoke is
	// told, but only while it is not known.
	Version() (major int)
	Spoke(major int)
}

// Watch follows one attempt through net/http's connections. The zero value is ready to use; nothing of it costs anything
// until net/http asks for the trace.
type Watch struct {
	// Lease says that the request carries tokens. Unwritten says that HTTP/1 repeats the request only where it has written
	// nothing of it: a POST without an idempotency key. Both are set before the attempt begins.
	Lease, Unwritten bool

	of      Watched
	mu      sync.Mutex
	trace   *httptrace.ClientTrace
	conns   []connection
	target  string // what net/http looked for last
	heard   bool   // an answer began on the latest connection
	asked   bool   // net/http began to look for a connection
	left    bool   // and got one
	stopped bool   // a replay was stopped
	counted bool   // the replay that net/http is looking for a connection for was counted
}

// connection is one that net/http got for the attempt.
type connection struct {
	conn  net.Conn
	http2 bool
}

// Trace returns the hooks that watch for replays of a's request, composed with those in parent.
func (w *Watch) Trace(parent context.Context, a Watched) *httptrace.ClientTrace {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trace == nil {
		w.of = a
		hooks := &httptrace.ClientTrace{GetConn: w.getConn, GotConn: w.gotConn, GotFirstResponseByte: w.gotAnswer}
		if a.Version() == 0 {
			hooks.WroteHeaderField = w.wroteField
		}
		w.trace = httptrace.ContextClientTrace(httptrace.WithClientTrace(parent, hooks))
	}
	return w.trace
}

func (w *Watch) getConn(target string) {
	w.mu.Lock()
	if w.asked && (w.heard || target != w.target) {
		// net/http replays only to the same place and only what got no answer. This is a request of a layer between: a
		// token that it fetches, or its answer to a challenge.
		w.conns, w.heard = nil, false
	}
	w.asked, w.target = true, target
	stop := len(w.conns) > 0 && w.mustStop()
	w.stopped = w.stopped || stop
	w.counted = stop // it may get no connection any more
	w.mu.Unlock()
	if stop {
		w.of.Repeated()
		w.of.Cancel(ErrReplay)
	}
}

func (w *Watch) gotConn(info httptrace.GotConnInfo) {
	c := connection{conn: info.Conn}
	if t, ok := info.Conn.(*tls.Conn); ok {
		c.http2 = t.ConnectionState().NegotiatedProtocol == "h2"
	} else {
		c.http2 = w.of.Version() >= 2
	}
	w.mu.Lock()
	again := len(w.conns) > 0
	if again && w.conns[len(w.conns)-1].conn == c.conn {
		c.http2 = true // HTTP/1 never takes a dead connection twice
		w.conns[0].http2 = true
	}
	stop := again && w.mustStop()
	w.stopped = w.stopped || stop
	counted := w.counted
	w.counted = false
	w.left = true
	w.conns = append(w.conns, c)
	w.mu.Unlock()
	if !again {
		return
	}
	if !counted {
		w.of.Repeated()
	}
	if stop {
		w.of.Cancel(ErrReplay)
		if !c.http2 && info.Conn != nil {
			info.Conn.Close() // the request would be written whatever its context says
		}
	}
}

func (w *Watch) gotAnswer() {
	w.mu.Lock()
	w.heard = true
	w.mu.Unlock()
}

// wroteField tells the versions apart where TLS does not: the fields of HTTP/2 begin with those that HTTP/1 does not have.
func (w *Watch) wroteField(key string, _ []string) {
	if w.of.Version() != 0 {
		return
	}
	major := 1
	if key != "" && key[0] == ':' {
		major = 2
	}
	w.of.Spoke(major)
	w.mu.Lock()
	if n := len(w.conns); n > 0 && major == 2 {
		w.conns[n-1].http2 = true
	}
	w.mu.Unlock()
}

// mustStop reports whether one more sending must not happen. HTTP/2 repeats only what the server has not processed, so
// one repetition is free; HTTP/1 repeats what may have been processed, and a lease must not arrive twice.
func (w *Watch) mustStop() bool {
	if w.conns[0].http2 {
		return len(w.conns) >= 2
	}
	return w.Lease && !w.Unwritten
}

// Rewinds reports whether the request may be sent again: net/http asks for a second body only to do that. If not, the
// attempt is canceled.
func (w *Watch) Rewinds() bool {
	w.mu.Lock()
	stop := len(w.conns) > 0 && !w.heard && w.mustStop()
	w.stopped = w.stopped || stop
	w.mu.Unlock()
	if stop {
		w.of.Repeated()
		w.of.Cancel(ErrReplay)
	}
	return !stop
}

// Stopped reports whether a replay was stopped.
func (w *Watch) Stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// RefusedTwice reports whether the replay that was stopped is one of HTTP/2's: the server has said of each sending that
// it did nothing with it.
func (w *Watch) RefusedTwice() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped && len(w.conns) > 0 && w.conns[0].http2
}

// NeverLeft reports whether net/http looked for a connection and got none.
func (w *Watch) NeverLeft() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked && !w.left
}

// Asked reports whether net/http told what it did with connections.
func (w *Watch) Asked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// NeverLooked reports whether net/http refused the request before it looked for a connection.
func (w *Watch) NeverLooked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trace != nil && !w.asked
}

// Heard reports whether an answer has begun.
func (w *Watch) Heard() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard
}

// Peer returns the address of the latest connection, or "".
func (w *Watch) Peer() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.conns); n > 0 && w.conns[n-1].conn != nil {
		return w.conns[n-1].conn.RemoteAddr().String()
	}
	return ""
}
