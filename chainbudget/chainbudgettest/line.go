package chainbudgettest

import (
	"io"
	"net"
	"strings"
	"sync"
)

// line is a stretch of network in front of a server, which breaks when it is told to.
type line struct {
	address string
	target  string

	mu     sync.Mutex
	used   int // connections that a request went over
	conns  map[net.Conn]bool
	closed bool
	copies sync.WaitGroup
}

// line leads to a server until the test ends.
func (s *stage) line(target string) *line {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	l := &line{address: listener.Addr().String(), target: target, conns: map[net.Conn]bool{}}
	l.copies.Go(func() { l.accept(listener) })
	s.Cleanup(func() {
		listener.Close()
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.breakAll()
		l.copies.Wait()
	})
	return l
}

func (l *line) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			client.Close()
			continue
		}
		l.mu.Lock()
		if l.closed {
			client.Close()
			server.Close()
		} else {
			l.conns[client], l.conns[server] = true, true
		}
		l.mu.Unlock()
		l.copies.Go(func() { l.copy(client, server, server) })
		l.copies.Go(func() { l.copy(server, client, &requestWatch{line: l, from: client}) })
	}
}

// copy carries one direction; the end of one is the end of both.
func (l *line) copy(to, from net.Conn, source io.Reader) {
	io.Copy(to, source)
	to.Close()
	from.Close()
	l.mu.Lock()
	delete(l.conns, to)
	delete(l.conns, from)
	l.mu.Unlock()
}

// breakAll resets every connection. The line goes on to accept new ones.
func (l *line) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		c.Close()
	}
	clear(l.conns)
}

// connections is how many requests have gone over. A transport dials another one while it waits for the first to come back, and
// may never need it.
func (l *line) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

// requestWatch reads what a client sends, and notes that a connection is used: with the first byte, or over HTTP/2, where
// every connection begins with settings, with the first frame of headers.
type requestWatch struct {
	line *line
	from io.Reader
	seen []byte // until it is known
	used bool
}

// Read implements [io.Reader].
func (w *requestWatch) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if !w.used {
		w.seen = append(w.seen, p[:n]...)
		if w.used = hasRequest(w.seen); w.used {
			w.seen = nil
			w.line.mu.Lock()
			w.line.used++
			w.line.mu.Unlock()
		}
	}
	return n, err
}

// hasRequest reports whether what a client has sent has the beginning of a request in it.
func hasRequest(sent []byte) bool {
	const (
		preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // RFC 9113 3.4
		header  = 9                                  // bytes of a frame before its payload
		headers = 1                                  // the type of a frame that begins a request
	)
	if len(sent) == 0 || strings.HasPrefix(preface, string(sent)) {
		return false
	}
	frames, ok := strings.CutPrefix(string(sent), preface)
	if !ok {
		return true
	}
	for len(frames) >= header {
		if frames[3] == headers {
			return true
		}
		size := header + int(frames[0])<<16 + int(frames[1])<<8 + int(frames[2])
		frames = frames[min(size, len(frames)):]
	}
	return false
}

// nobodysAddress is an address at which nobody listens. A port that was asked for and given back may be another server's a moment
// later, which never answers; the first port is handed out by no system.
const nobodysAddress = "127.0.0.1:1"
