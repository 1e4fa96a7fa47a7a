package rpctest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Refuser is an HTTP/2 server that does nothing with the requests of its first connections, and then hands connections on
// to a real one.
type Refuser struct {
	Addr     string
	Requests atomic.Int64 // that were refused
	refuse   func(stream uint32) (frame []byte, closes bool)
}

// The types of HTTP/2's frames, and what is said with them here.
const (
	frameHeaders, frameReset, frameSettings, frameGoAway = 0x1, 0x3, 0x4, 0x7
	refusedStream                                        = 7
)

func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := []byte{0, 0, byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// ByReset refuses one stream.
func ByReset(stream uint32) ([]byte, bool) {
	return frame(frameReset, 0, stream, 0, 0, 0, refusedStream), false
}

// ByGoAway refuses everything on a connection.
func ByGoAway(uint32) ([]byte, bool) { return frame(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), true }

// Refuse refuses on so many connections, with -1 on all.
func Refuse(t testing.TB, connections int, refuse func(uint32) ([]byte, bool), behind string) *Refuser {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Refuser{Addr: l.Addr().String(), refuse: refuse}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		open []net.Conn
	)
	keep := func(c net.Conn) {
		mu.Lock()
		open = append(open, c)
		mu.Unlock()
	}
	wg.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			keep(conn)
			if connections < 0 || n < connections {
				wg.Go(func() { s.serve(conn) })
				continue
			}
			to, err := net.Dial("tcp", behind)
			if err != nil {
				t.Error(err)
				return
			}
			keep(to)
			wg.Go(func() { io.Copy(to, conn); to.Close() })
			wg.Go(func() { io.Copy(conn, to); conn.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *Refuser) serve(conn net.Conn) {
	defer conn.Close()
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(conn, preface); err != nil || !bytes.HasPrefix(preface, []byte("PRI * ")) {
		return
	}
	if _, err := conn.Write(frame(frameSettings, 0, 0)); err != nil {
		return
	}
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return
		}
		switch {
		case head[3] == frameSettings && head[4]&1 == 0:
			if _, err := conn.Write(frame(frameSettings, 1, 0)); err != nil {
				return
			}
		case head[3] == frameHeaders:
			s.Requests.Add(1)
			answer, closes := s.refuse(binary.BigEndian.Uint32(head[5:]))
			if _, err := conn.Write(answer); err != nil || closes {
				return
			}
		}
	}
}
