package mixed

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// fault is what goes wrong with one request at one hop.
type fault int

const (
	nothing  fault = iota
	resets         // the connection is reset, and with HTTP/2 all that it carries
	hangs          // no answer within the attempt's time
	slows          // the answer dribbles, perhaps longer than the attempt's time
	garbles        // the answer is random bytes: no HTTP/1 response, no HTTP/2 frame
	loses          // the return is lost: header or trailer
	panics         // the handler panics, before or after its call
	cancels        // the handler gives its call up
	fails          // the handler fails of its own
	faultEnd       // how many there are
)

func (f fault) String() string {
	return [faultEnd]string{"none", "reset", "hang", "slow", "garbage", "return lost", "panic", "cancel", "fail"}[f]
}

// attemptTime is the attempt timeout of the last hop's caller, and the scale of what is slow.
const attemptTime = 250 * time.Millisecond

// tagHeader says which chain an attempt belongs to, and which visit of it called. The hops' own code sends it.
const tagHeader = "x-soak"

type (
	tagKey   struct{}
	visitKey struct{}
)

func tagOf(ctx context.Context) string {
	tag, _ := ctx.Value(tagKey{}).(string)
	return tag
}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// door is what a request passes first at a hop: it counts what came over the wire, and does the faults. A nil door does
// nothing.
type door struct {
	soak    *soak
	hop     int
	address string       // that it listens at
	passed  atomic.Int64 // requests that went on to the SDK
	conns   sync.Map     // *conn by the address of the client
}

// enter writes a request down. The function is to be called when it has been answered.
func (d *door) enter(tag string, baggage, header []string) (*visit, func()) {
	wire, _ := otelprop.ReadRequest(baggage, header, otelprop.MaxTokens)
	v := &visit{hop: d.hop, nonce: wire.Nonce, grant: int(wire.Grant)}
	if rand.Float64() < faultShare {
		v.fault = 1 + fault(d.soak.faulted.Add(1)%int64(faultEnd-1)) // in turn, so that a short run has all of them
		d.soak.faults[v.fault].Add(1)
	}
	return v, d.soak.arrive(tag, v)
}

// outside puts the door before a handler.
func (d *door) outside(h http.Handler) http.Handler {
	if d == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, leave := d.enter(r.Header.Get(tagHeader), r.Header[otelprop.HTTPBaggageHeader], r.Header[otelprop.HTTPRequestHeader])
		defer leave()
		c := d.conn(r.RemoteAddr)
		switch v.fault {
		case resets:
			c.reset()
			panic(http.ErrAbortHandler)
		case hangs:
			hang(r.Context())
			panic(http.ErrAbortHandler)
		}
		d.passed.Add(1)
		v.passed = true
		out := &exit{ResponseWriter: w, visit: v}
		h.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
		out.commit()
		switch v.fault {
		case slows:
			if r.ProtoMajor == 1 { // a connection of its own, so it can be the body alone
				_ = http.NewResponseController(w).Flush()
				c.pause(rand.N(2 * attemptTime))
				_, _ = w.Write(make([]byte, 2000))
			} else {
				c.slow.Store(true)
			}
		case garbles:
			c.garbage.Store(true)
		}
	})
}

// hang waits until the caller has had enough.
func hang(ctx context.Context) {
	timer := time.NewTimer(20 * attemptTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// exit sees the return on its way out.
type exit struct {
	http.ResponseWriter
	visit     *visit
	committed bool
}

// returnKeys are where a return may stand: a header, or as connect spells a trailer of a unary answer, or as net/http does.
var returnKeys = []string{otelprop.HTTPReturnHeader, "Trailer-" + otelprop.HTTPReturnHeader, http.TrailerPrefix + otelprop.HTTPReturnHeader}

func (e *exit) commit() {
	if e.committed {
		return
	}
	e.committed = true
	for _, key := range returnKeys {
		e.visit.answer(e.Header()[key])
		if e.visit.fault == loses {
			delete(e.Header(), key)
		}
	}
}

func (e *exit) WriteHeader(code int) {
	e.commit()
	e.ResponseWriter.WriteHeader(code)
}

func (e *exit) Write(b []byte) (int, error) {
	e.commit()
	return e.ResponseWriter.Write(b)
}

func (e *exit) Flush() {
	e.commit()
	_ = http.NewResponseController(e.ResponseWriter).Flush()
}

func (e *exit) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// interceptors puts the door before a gRPC server's own.
func (d *door) interceptors() []grpc.ServerOption {
	if d == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(d.intercept)}
}

func (d *door) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	tag := ""
	if tags := md[tagHeader]; len(tags) > 0 {
		tag = tags[0]
	}
	v, leave := d.enter(tag, md[otelprop.BaggageHeader], md[otelprop.RequestHeader])
	defer leave()
	from, _ := peer.FromContext(ctx)
	c := d.conn(from.Addr.String())
	switch v.fault {
	case resets:
		c.reset()
		return nil, status.Error(codes.Unavailable, "reset")
	case hangs:
		hang(ctx)
		return nil, status.Error(codes.Unavailable, "hung")
	}
	d.passed.Add(1)
	v.passed = true
	defer func() {
		if p := recover(); p != nil { // grpc-go lets a panic end the process
			err = status.Error(codes.Internal, "panic")
		}
		switch v.fault {
		case slows:
			c.slow.Store(true)
		case garbles:
			c.garbage.Store(true)
		}
	}()
	ctx = grpc.NewContextWithServerTransportStream(ctx, &trailerExit{grpc.ServerTransportStreamFromContext(ctx), v})
	return handle(context.WithValue(ctx, visitKey{}, v), req)
}

// trailerExit sees the return on its way out.
type trailerExit struct {
	grpc.ServerTransportStream
	visit *visit
}

func (e *trailerExit) SetTrailer(md metadata.MD) error {
	e.visit.answer(md[otelprop.ReturnHeader])
	if e.visit.fault == loses {
		md = md.Copy()
		delete(md, otelprop.ReturnHeader)
	}
	return e.ServerTransportStream.SetTrailer(md)
}

// listener makes the connections that a door can break.
func (d *door) listener(l net.Listener) net.Listener {
	if d == nil {
		return l
	}
	return &listener{l, d}
}

type listener struct {
	net.Listener
	door *door
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	broken := &conn{Conn: c, door: l.door, closed: make(chan struct{})}
	l.door.conns.Store(c.RemoteAddr().String(), broken)
	return broken, nil
}

func (d *door) conn(address string) *conn {
	if c, ok := d.conns.Load(address); ok {
		return c.(*conn)
	}
	return &conn{closed: make(chan struct{})} // closed already: nothing is left to break
}

// conn is a connection whose next write can go wrong.
type conn struct {
	net.Conn
	door          *door
	slow, garbage atomic.Bool
	once          sync.Once
	closed        chan struct{}
}

var errGarbled = errors.New("garbled")

func (c *conn) Write(b []byte) (int, error) {
	if c.garbage.CompareAndSwap(true, false) {
		noise := make([]byte, len(b)+16)
		for i := range noise {
			noise[i] = byte(rand.Uint32())
		}
		_, _ = c.Conn.Write(noise)
		_ = c.Close()
		return 0, errGarbled
	}
	if !c.slow.CompareAndSwap(true, false) {
		return c.Conn.Write(b)
	}
	written := 0
	for pieces := 5; pieces > 0; pieces-- {
		n, err := c.Conn.Write(b[written : written+(len(b)-written)/pieces])
		if written += n; err != nil {
			return written, err
		}
		c.pause(rand.N(2 * attemptTime / 5))
	}
	return written, nil
}

// pause waits, but not beyond the connection's end.
func (c *conn) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.closed:
	case <-timer.C:
	}
}

func (c *conn) Close() error {
	if c.Conn == nil {
		return nil
	}
	c.once.Do(func() {
		close(c.closed)
		c.door.conns.CompareAndDelete(c.RemoteAddr().String(), c)
	})
	return c.Conn.Close()
}

// reset closes the connection with a RST.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
