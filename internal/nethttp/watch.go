package nethttp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

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

	seen atomic.Pointer[seen] // nil = net/http did not ask yet
}

// seen is what net/http told of one attempt.
type seen struct {
	watch   *Watch
	of      Watched
	hooks   httptrace.ClientTrace
	trace   *httptrace.ClientTrace // hooks, and those of the attempt's parent
	mu      sync.Mutex
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
	if s := w.seen.Load(); s != nil {
		return s.trace
	}
	s := &seen{watch: w, of: a}
	s.hooks = httptrace.ClientTrace{GetConn: s.getConn, GotConn: s.gotConn, GotFirstResponseByte: s.gotAnswer}
	if a.Version() == 0 {
		s.hooks.WroteHeaderField = s.wroteField
	}
	s.trace = httptrace.ContextClientTrace(httptrace.WithClientTrace(parent, &s.hooks))
	w.seen.CompareAndSwap(nil, s)
	return w.seen.Load().trace
}

func (s *seen) getConn(target string) {
	s.mu.Lock()
	if s.asked && (s.heard || target != s.target) {
		// net/http replays only to the same place and only what got no answer. This is a request of a layer between: a
		// token that it fetches, or its answer to a challenge.
		s.conns, s.heard = nil, false
	}
	s.asked, s.target = true, target
	stop := len(s.conns) > 0 && s.mustStop()
	s.stopped = s.stopped || stop
	s.counted = stop // it may get no connection any more
	s.mu.Unlock()
	if stop {
		s.of.Repeated()
		s.of.Cancel(ErrReplay)
	}
}

func (s *seen) gotConn(info httptrace.GotConnInfo) {
	c := connection{conn: info.Conn}
	if t, ok := info.Conn.(*tls.Conn); ok {
		c.http2 = t.ConnectionState().NegotiatedProtocol == "h2"
	} else {
		c.http2 = s.of.Version() >= 2
	}
	s.mu.Lock()
	again := len(s.conns) > 0
	if again && s.conns[len(s.conns)-1].conn == c.conn {
		c.http2 = true // HTTP/1 never takes a dead connection twice
		s.conns[0].http2 = true
	}
	stop := again && s.mustStop()
	s.stopped = s.stopped || stop
	counted := s.counted
	s.counted = false
	s.left = true
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	if !again {
		return
	}
	if !counted {
		s.of.Repeated()
	}
	if stop {
		s.of.Cancel(ErrReplay)
		if !c.http2 && info.Conn != nil {
			info.Conn.Close() // the request would be written whatever its context says
		}
	}
}

func (s *seen) gotAnswer() {
	s.mu.Lock()
	s.heard = true
	s.mu.Unlock()
}

// wroteField tells the versions apart where TLS does not: the fields of HTTP/2 begin with those that HTTP/1 does not have.
func (s *seen) wroteField(key string, _ []string) {
	if s.of.Version() != 0 {
		return
	}
	major := 1
	if key != "" && key[0] == ':' {
		major = 2
	}
	s.of.Spoke(major)
	s.mu.Lock()
	if n := len(s.conns); n > 0 && major == 2 {
		s.conns[n-1].http2 = true
	}
	s.mu.Unlock()
}

// mustStop reports whether one more sending must not happen. HTTP/2 repeats only what the server has not processed, so
// one repetition is free; HTTP/1 repeats what may have been processed, and a lease must not arrive twice.
func (s *seen) mustStop() bool {
	if s.conns[0].http2 {
		return len(s.conns) >= 2
	}
	return s.watch.Lease && !s.watch.Unwritten
}

// Rewinds reports whether the request may be sent again: net/http asks for a second body only to do that. If not, the
// attempt is canceled.
func (w *Watch) Rewinds() bool {
	s := w.seen.Load()
	if s == nil {
		return true
	}
	s.mu.Lock()
	stop := len(s.conns) > 0 && !s.heard && s.mustStop()
	s.stopped = s.stopped || stop
	s.mu.Unlock()
	if stop {
		s.of.Repeated()
		s.of.Cancel(ErrReplay)
	}
	return !stop
}

// told asks what net/http told; the answer is false where it told nothing.
func (w *Watch) told(ask func(s *seen) bool) bool {
	s := w.seen.Load()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return ask(s)
}

// Stopped reports whether a replay was stopped.
func (w *Watch) Stopped() bool {
	return w.told(func(s *seen) bool { return s.stopped })
}

// RefusedTwice reports whether the replay that was stopped is one of HTTP/2's: the server has said of each sending that
// it did nothing with it.
func (w *Watch) RefusedTwice() bool {
	return w.told(func(s *seen) bool { return s.stopped && len(s.conns) > 0 && s.conns[0].http2 })
}

// NeverLeft reports whether net/http looked for a connection and got none.
func (w *Watch) NeverLeft() bool {
	return w.told(func(s *seen) bool { return s.asked && !s.left })
}

// Asked reports whether net/http told what it did with connections.
func (w *Watch) Asked() bool {
	return w.told(func(s *seen) bool { return s.asked })
}

// NeverLooked reports whether net/http refused the request before it looked for a connection.
func (w *Watch) NeverLooked() bool {
	return w.told(func(s *seen) bool { return !s.asked })
}

// Heard reports whether an answer has begun.
func (w *Watch) Heard() bool {
	return w.told(func(s *seen) bool { return s.heard })
}

// Peer returns the address of the latest connection, or "".
func (w *Watch) Peer() string {
	s := w.seen.Load()
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.conns); n > 0 && s.conns[n-1].conn != nil {
		return s.conns[n-1].conn.RemoteAddr().String()
	}
	return ""
}
