package budgethttp_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// HTTP/2 without TLS shares its connections, too: a request that net/http repeats there takes nobody else's connection
// down, and succeeds with its lease.
func TestRegression_a_replay_without_TLS_leaves_shared_connections_open(t *testing.T) {
	s := newTwoConnections(t)
	pool := newPool(t)
	pool.Protocols = new(http.Protocols)
	pool.Protocols.SetUnencryptedHTTP2(true)
	c := newCaller(t, roomy, catalog(3))
	client := c.client(t, pool)
	ctx := c.chain(t)

	send(t, client, request(t, ctx, http.MethodGet, s.url, nil)) // by this answer the protocol is known
	results := make(chan error, 2)
	go func() {
		resp, err := client.Do(request(t, ctx, http.MethodGet, s.url, nil))
		if err == nil {
			resp.Body.Close()
		}
		results <- err
	}()
	<-s.waiting // on the first connection, which has room for one
	go func() {
		resp, err := (&http.Client{Transport: pool}).Do(request(t, ctx, http.MethodPost, s.url, nil))
		if err == nil {
			resp.Body.Close()
		}
		results <- err
	}()
	<-s.bystander // on the second
	close(s.goAway)
	if err := <-results; err != nil {
		t.Errorf("the repeated request fails: %v", err)
	}
	close(s.answer)
	if err := <-results; err != nil {
		t.Errorf("a request on the connection that the repeated one came to fails: %v", err)
	}
	if n := c.SDK.Totals().HiddenRepeats; n != 1 {
		t.Errorf("%d hidden repeats are counted, want 1", n)
	}
}

// twoConnections is a server of HTTP/2 without TLS. Its first connection allows one stream at a time, answers the first
// and, once told to, goes away without having processed the second. The second answers
// its first stream when told to, and all others are answered at once.
type twoConnections struct {
	url                                string
	waiting, bystander, goAway, answer chan struct{}
}

func newTwoConnections(t testing.TB) *twoConnections {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &twoConnections{
		url: "http://" + listener.Addr().String(), waiting: make(chan struct{}), bystander: make(chan struct{}),
		goAway: make(chan struct{}), answer: make(chan struct{}),
	}
	var serving sync.WaitGroup
	var open sync.Map
	serving.Go(func() {
		for n := 1; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Store(conn, nil)
			serving.Go(func() {
				defer conn.Close()
				s.frames(conn, n)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		open.Range(func(conn, _ any) bool {
			conn.(net.Conn).Close()
			return true
		})
		serving.Wait()
	})
	return s
}

// frames speaks HTTP/2 (RFC 9113) on the nth connection until it ends.
func (s *twoConnections) frames(conn net.Conn, n int) {
	const (
		typeHeaders, typeSettings, typeGoAway = 0x1, 0x4, 0x7

		flagAck, flagEndStream, flagEndHeaders = 0x1, 0x1, 0x4

		indexedStatus200 = 0x88 // of HPACK's static table
	)
	var mu sync.Mutex
	write := func(kind, flags byte, stream uint32, payload ...byte) {
		mu.Lock()
		defer mu.Unlock()
		frame := []byte{0, 0, byte(len(payload)), kind, flags}
		conn.Write(append(binary.BigEndian.AppendUint32(frame, stream), payload...))
	}
	respond := func(stream uint32) { write(typeHeaders, flagEndStream|flagEndHeaders, stream, indexedStatus200) }
	in := bufio.NewReader(conn)
	if _, err := in.Discard(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
		return
	}
	if n == 1 {
		write(typeSettings, 0, 0, 0, 3, 0, 0, 0, 1) // SETTINGS_MAX_CONCURRENT_STREAMS = 1
	} else {
		write(typeSettings, 0, 0)
	}
	for {
		var head [9]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, in, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			return
		}
		stream := binary.BigEndian.Uint32(head[5:])
		switch kind, ack := head[3], head[4]&flagAck != 0; {
		case kind == typeSettings && !ack:
			write(typeSettings, flagAck, 0)
		case kind != typeHeaders:
		case n == 1 && stream > 1:
			close(s.waiting)
			<-s.goAway
			write(typeGoAway, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0)
		case n == 2 && stream == 1:
			close(s.bystander)
			go func() {
				<-s.answer
				respond(stream)
			}()
		default:
			respond(stream)
		}
	}
}
