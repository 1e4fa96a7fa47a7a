package budgetconnect_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// refuser is an HTTP/2 server that does nothing with the requests of its first connections, and then hands connections on
// to a real one.
type refuser struct {
	addr     string
	requests atomic.Int64 // that were refused
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

func byReset(stream uint32) ([]byte, bool) {
	return frame(frameReset, 0, stream, 0, 0, 0, refusedStream), false
}

func byGoAway(uint32) ([]byte, bool) { return frame(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), true }

// serveRefuser refuses on so many connections, with -1 on all.
func serveRefuser(t testing.TB, connections int, refuse func(uint32) ([]byte, bool), behind string) *refuser {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &refuser{addr: l.Addr().String(), refuse: refuse}
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

func (s *refuser) serve(conn net.Conn) {
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
			s.requests.Add(1)
			answer, closes := s.refuse(binary.BigEndian.Uint32(head[5:]))
			if _, err := conn.Write(answer); err != nil || closes {
				return
			}
		}
	}
}

// overHTTP2 runs a test for each way to refuse, over the protocols of HTTP/2.
func overHTTP2(t *testing.T, test func(*testing.T, protocol, func(uint32) ([]byte, bool))) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		if !p.http2 {
			return
		}
		t.Run("REFUSED_STREAM", func(t *testing.T) { test(t, p, byReset) })
		t.Run("GOAWAY", func(t *testing.T) { test(t, p, byGoAway) })
	})
}

// TestRegression_A010_a_connection_that_goes_away_costs_nothing: what the callee has not processed goes out once more by
// itself, whatever the procedure, and its lease is spent once.
func TestRegression_A010_a_connection_that_goes_away_costs_nothing(t *testing.T) {
	overHTTP2(t, func(t *testing.T, p protocol, refuse func(uint32) ([]byte, bool)) {
		callee := newSDK(t, "callee")
		url := server(t, &procedures{}, callee)
		s := serveRefuser(t, 1, func(stream uint32) ([]byte, bool) {
			f, _ := refuse(stream)
			return append(f, second(byGoAway)...), true
		}, url[len("http://"):])
		rec := newSDK(t, "caller")
		resp, err := ask(begin(t, rec), p.client(t, "http://"+s.addr, callProcedure, with(rec.Dependency("callee", "test"))))
		require.NoError(t, err)
		assert.Equal(t, "x", resp.Msg.GetValue())
		assert.EqualValues(t, 1, s.requests.Load())
		totals := rec.SDK.Totals()
		assert.EqualValues(t, 1, totals.HiddenRepeats)
		assert.Zero(t, totals.Lost)
		assert.EqualValues(t, 0, totals.Dependencies["callee"].Retries)
		assert.Zero(t, callee.SDK.Totals().RepeatedGrants)
	})
}

func second(refuse func(uint32) ([]byte, bool)) []byte { f, _ := refuse(0); return f }

// TestRegression_refusals_in_a_storm_are_bounded: a callee that refuses everything gets two sendings for each attempt that
// the budget allows, and one attempt of what may not run twice. No token is lost.
func TestRegression_refusals_in_a_storm_are_bounded(t *testing.T) {
	overHTTP2(t, func(t *testing.T, p protocol, refuse func(uint32) ([]byte, bool)) {
		for _, c := range []struct {
			name       string
			idempotent bool
			most       int64
			reason     ownership.Reason
		}{
			{"idempotent", true, 4, ownership.ReasonMaxAttempts},
			{"not_idempotent", false, 2, ownership.ReasonNotRetryable},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel() // net/http waits a second before it would send a request a third time
				s := serveRefuser(t, -1, refuse, "")
				rec := newSDK(t, "caller")
				option := with(rec.Dependency("callee", "twice"))
				if c.idempotent {
					option = with(rec.Dependency("callee", "twice"), every)
				}
				_, err := ask(begin(t, rec), p.client(t, "http://"+s.addr, callProcedure, option))
				assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%v", err)
				assert.Equal(t, c.most, s.requests.Load(), "%v", err)
				assert.Zero(t, rec.SDK.Totals().Lost)
				reasons := rec.Reasons()
				assert.Equal(t, c.reason, reasons[len(reasons)-1], "%v", reasons)
			})
		}
	})
}
