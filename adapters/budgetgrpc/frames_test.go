package budgetgrpc_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// A frameServer is an HTTP/2 server of which a test says what it answers to each request, frame by frame.
type frameServer struct {
	addr     string
	requests atomic.Int64 // HEADERS frames that came in
	conns    atomic.Int64
	// answer is called for each request with its ordinal, from 1, and for each connection with 0. It returns false to close the
	// connection.
	answer   func(c *frameConn, stream uint32, n int64) bool
	settings []http2.Setting
}

// A frameConn is one connection of it.
type frameConn struct {
	*http2.Framer
	mu sync.Mutex
}

func serveFrames(t testing.TB, answer func(c *frameConn, stream uint32, n int64) bool, settings ...http2.Setting) *frameServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &frameServer{addr: l.Addr().String(), answer: answer, settings: settings}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *frameServer) serve(conn net.Conn) {
	defer conn.Close()
	s.conns.Add(1)
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	c := &frameConn{Framer: http2.NewFramer(conn, conn)}
	if c.WriteSettings(s.settings...) != nil || !s.answer(c, 0, 0) {
		return
	}
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() && !c.locked(c.WriteSettingsAck) {
				return
			}
		case *http2.PingFrame:
			if !f.IsAck() && !c.locked(func() error { return c.WritePing(true, f.Data) }) {
				return
			}
		case *http2.HeadersFrame:
			if !s.answer(c, f.StreamID, s.requests.Add(1)) {
				return
			}
		}
	}
}

// locked writes a frame.
func (c *frameConn) locked(write func() error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return write() == nil
}

// refuse says that nothing was done with a stream.
func (c *frameConn) refuse(stream uint32) bool {
	return c.locked(func() error { return c.WriteRSTStream(stream, http2.ErrCodeRefusedStream) })
}

// goAway closes the connection for everything after the last stream.
func (c *frameConn) goAway(last uint32) bool {
	return c.locked(func() error { return c.WriteGoAway(last, http2.ErrCodeNo, nil) })
}
