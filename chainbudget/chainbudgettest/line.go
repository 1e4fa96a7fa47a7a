package chainbudgettest

import (
	"io"
	"net"
	"sync"
)

// line is a stretch of network in front of a server, which breaks when it is told to.
type line struct {
	address string
	target  string

	mu     sync.Mutex
	dials  int
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
		l.dials++
		if l.closed {
			client.Close()
			server.Close()
		} else {
			l.conns[client], l.conns[server] = true, true
		}
		l.mu.Unlock()
		l.copies.Go(func() { l.copy(client, server) })
		l.copies.Go(func() { l.copy(server, client) })
	}
}

// copy carries one direction; the end of one is the end of both.
func (l *line) copy(to, from net.Conn) {
	io.Copy(to, from)
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

// connections is how many there have been.
func (l *line) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

// nobodysAddress is an address at which nobody listens. A port that was asked for and given back may be another server's a moment
// later, which never answers; the first port is handed out by no system.
const nobodysAddress = "127.0.0.1:1"
