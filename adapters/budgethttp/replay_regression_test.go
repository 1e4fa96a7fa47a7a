package budgethttp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// restarted is a server whose connections from before its restart are dead: a request on one of them is read, recorded
// as arrived, and never answered.
type restarted struct {
	tap
	server *httptest.Server
	pool   *http.Transport
	old    atomic.Bool // connections that open now are old ones
	opened atomic.Int64
}

type oldConnection struct{}

// newRestarted returns one with that many dead connections in its client's pool.
func newRestarted(t testing.TB, dead int) *restarted {
	t.Helper()
	p := &restarted{pool: newPool(t)}
	p.old.Store(true)
	p.pool.MaxIdleConnsPerHost = dead
	var together sync.WaitGroup
	together.Add(dead)
	answering := hop(t, "callee", answer(200, "fine"))
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/warm-up" {
			together.Done()
			together.Wait()
			return
		}
		body, _ := io.ReadAll(r.Body)
		p.add(arrival{method: r.Method, body: string(body), length: r.ContentLength, header: r.Header.Clone()})
		if r.Context().Value(oldConnection{}) == true {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
			return
		}
		answering.ServeHTTP(w, r)
	}))
	p.server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		p.opened.Add(1)
		return context.WithValue(ctx, oldConnection{}, p.old.Load())
	}
	p.server.Start()
	t.Cleanup(p.server.Close)

	bare := &http.Client{Transport: p.pool}
	var done sync.WaitGroup
	for range dead {
		done.Go(func() {
			resp, err := bare.Get(p.server.URL + "/warm-up")
			if err != nil {
				t.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	done.Wait()
	if n := p.opened.Load(); n != int64(dead) {
		t.Fatalf("%d connections were opened, want %d", n, dead)
	}
	p.old.Store(false)
	return p
}

// check demands that no lease arrived twice (I1) and that every request was whole.
func (p *restarted) check(t testing.TB, body string) {
	t.Helper()
	leases := make(map[string]int)
	for i, a := range p.all() {
		if a.body != body {
			t.Errorf("request %d brought %q, want %q", i+1, a.body, body)
		}
		if a.grant() != "0" {
			leases[a.nonce()]++
		}
	}
	for nonce, n := range leases {
		if n > 1 {
			t.Errorf("I1: the lease with nonce %q arrived %d times", nonce, n)
		}
	}
}

func TestRegression_P018_nethttp_does_replay_below_a_client_without_the_SDK(t *testing.T) {
	p := newRestarted(t, 20)
	if status, _ := send(t, &http.Client{Transport: p.pool}, request(t, context.Background(), "GET", p.server.URL, nil)); status != 200 {
		t.Errorf("got %d, want 200", status)
	}
	if n := len(p.all()); n != 21 {
		t.Errorf("net/http sent %d requests, want 21: if it no longer replays, the tests below prove nothing", n)
	}
}

func TestRegression_P018_a_lease_never_travels_twice_on_dead_connections(t *testing.T) {
	for name, tc := range map[string]struct {
		budget   int
		settings []string
		method   string
		body     string
		key      string
	}{
		"get":                    {budget: 3, method: "GET"},
		"get_with_one_token":     {budget: 1, method: "GET"},
		"get_with_many_tokens":   {budget: 50, method: "GET"},
		"get_no_retry":           {budget: 3, method: "GET", settings: []string{"retry: {max_attempts: 1}"}},
		"get_no_retry_one_token": {budget: 1, method: "GET", settings: []string{"retry: {max_attempts: 1}"}},
		"post_with_key":          {budget: 3, method: "POST", body: "order", key: "order-1"},
		"post_with_key_no_retry": {budget: 3, method: "POST", body: "order", key: "order-1", settings: []string{"retry: {max_attempts: 1}"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRestarted(t, 20)
			c := newCaller(t, roomy, catalog(tc.budget, tc.settings...))
			ctx := c.chain(t)
			var body io.Reader
			if tc.body != "" {
				body = strings.NewReader(tc.body)
			}
			req := request(t, ctx, tc.method, p.server.URL, body)
			if tc.key != "" {
				req.Header.Set("Idempotency-Key", tc.key)
			}
			if status, text := send(t, c.client(t, p.pool), req); status != 200 || text != "fine" {
				t.Errorf("got %d %q, want 200 as without the SDK", status, text)
			}
			p.check(t, tc.body)
			got := p.all()
			if got[0].grant() == "0" {
				t.Error("the first request carried no lease: the test proves nothing")
			}
			b := balance(t, ctx)
			if b.Lent != 0 {
				t.Errorf("the purse is %+v after the call, want nothing lent", b)
			}
			totals := c.SDK.Totals()
			if d := totals.Dependencies["callee"]; int(d.Retries) != b.Spent || d.Calls != 1 {
				t.Errorf("%d retries of %d calls are counted, the purse spent %d", d.Retries, d.Calls, b.Spent)
			}
			if totals.HiddenRepeats == 0 {
				t.Error("no hidden repeat is counted")
			}
		})
	}
}

// TestRegression_every_stopped_replay_is_counted_once, also one for which net/http has no connection yet, or only asks for
// a second body.
func TestRegression_every_stopped_replay_is_counted_once(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			p := newRestarted(t, 1)
			c := newCaller(t, roomy, catalog(3))
			var body io.Reader
			if method == "POST" {
				body = strings.NewReader("order")
			}
			req := request(t, c.chain(t), method, p.server.URL, body)
			req.Header.Set("Idempotency-Key", "order-1")
			if status, _ := send(t, c.client(t, p.pool), req); status != 200 {
				t.Errorf("got %d, want 200", status)
			}
			totals := c.SDK.Totals()
			if n := totals.HiddenRepeats; n != 1 || totals.Dependencies["callee"].Retries != 1 {
				t.Errorf("%d hidden repeats and %d retries are counted, want one of each", n, totals.Dependencies["callee"].Retries)
			}
		})
	}
}

func TestRegression_P018_without_a_lease_nethttp_may_replay(t *testing.T) {
	p := newRestarted(t, 20)
	c := newCaller(t, roomy, catalog(0))
	ctx := c.chain(t)
	if status, text := send(t, c.client(t, p.pool), request(t, ctx, "GET", p.server.URL, nil)); status != 200 || text != "fine" {
		t.Errorf("got %d %q, want 200", status, text)
	}
	if n := len(p.all()); n != 21 {
		t.Errorf("the server saw %d requests, want 21: 20 dead connections and a new one", n)
	}
	totals := c.SDK.Totals()
	if d := totals.Dependencies["callee"]; d.Attempts != 1 || d.Retries != 0 {
		t.Errorf("%d attempts and %d retries are counted, want 1 and 0", d.Attempts, d.Retries)
	}
	if totals.HiddenRepeats != 20 {
		t.Errorf("%d hidden repeats are counted, want 20", totals.HiddenRepeats)
	}
}

// A method that net/http does not replay, or a POST without a key, is not sent again by anybody.
func TestRegression_P018_a_POST_that_may_have_run_is_not_sent_again(t *testing.T) {
	for budget := range 3 {
		p := newRestarted(t, 5)
		c := newCaller(t, roomy, catalog(budget))
		resp, err := c.client(t, p.pool).Do(request(t, c.chain(t), "POST", p.server.URL, strings.NewReader("order")))
		if err == nil {
			resp.Body.Close()
			t.Fatalf("budget %d: a dead connection answered", budget)
		}
		var denied *chainbudget.DeniedError
		if !errors.As(err, &denied) || denied.Reason != ownership.ReasonNotIdempotent {
			t.Errorf("budget %d: got %v, want not_idempotent", budget, err)
		}
		if n := len(p.all()); n != 1 {
			t.Errorf("budget %d: the server saw %d requests, want 1", budget, n)
		}
	}
}

// PUT and DELETE may be repeated, but net/http does not: each dead connection costs an attempt, and one that has a retry
// left uses it.
func TestRegression_P018_a_PUT_on_a_dead_connection_is_a_retry_like_any_other(t *testing.T) {
	p := newRestarted(t, 1)
	c := newCaller(t, roomy, catalog(3))
	ctx := c.chain(t)
	if status, _ := send(t, c.client(t, p.pool), request(t, ctx, "PUT", p.server.URL, strings.NewReader("order"))); status != 200 {
		t.Errorf("got %d, want 200", status)
	}
	p.check(t, "order")
	if b := balance(t, ctx); b.Spent != 1 || b.Lost != 2 || len(p.all()) != 2 {
		t.Errorf("%d requests, the purse is %+v; want 2, 1 spent and the lease of 2 lost", len(p.all()), b)
	}
}

func TestRegression_P018_many_calls_over_dying_connections_keep_every_lease_single(t *testing.T) {
	p := newRestarted(t, 30)
	c := newCaller(t, roomy, catalog(3))
	client := c.client(t, p.pool)
	var calls sync.WaitGroup
	for range 15 {
		calls.Go(func() {
			ctx, end := c.endlessChain(context.Background())
			defer end()
			req, err := http.NewRequestWithContext(ctx, "GET", p.server.URL, nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
				t.Errorf("got %d, %v; want 200", resp.StatusCode, err)
			}
			resp.Body.Close()
			balance(t, ctx)
		})
	}
	calls.Wait()
	p.check(t, "")
}

func TestRegression_A014_a_forwarded_GET_survives_a_connection_that_was_closed_idle(t *testing.T) {
	// front forwards each request as handlers do: with the inbound body, which is http.NoBody and not nil.
	front := func(t *testing.T, c *caller, upstream string, pool *http.Transport, proxied bool) (*httptest.Server, *engine.Balance) {
		target, err := url.Parse(upstream)
		if err != nil {
			t.Fatal(err)
		}
		last := new(engine.Balance)
		var forward http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req := request(t, r.Context(), r.Method, upstream, r.Body)
			req.Body = r.Body
			status, body := send(t, c.client(t, pool), req)
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
		if proxied {
			forward = &httputil.ReverseProxy{
				Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
				Transport: c.transport(t, pool),
			}
		}
		return serve(t, entry(t, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			forward.ServeHTTP(w, r)
			*last = balance(t, r.Context())
		}))), last
	}
	for name, proxied := range map[string]bool{"client": false, "reverse_proxy": true} {
		t.Run(name, func(t *testing.T) {
			t.Run("noticed_before", func(t *testing.T) {
				c := newCaller(t, roomy, catalog(3))
				upstream, seen := callee(t, serve, answer(200, "fine"))
				pool := newPool(t)
				closed := make(chan struct{}, 10)
				dials := 0
				pool.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					dials++
					var d net.Dialer
					conn, err := d.DialContext(ctx, network, address)
					return &closeWatched{Conn: conn, closed: closed}, err
				}
				edge, purse := front(t, c, upstream.URL, pool, proxied)
				for i := range 3 {
					if status, body := send(t, edge.Client(), request(t, context.Background(), "GET", edge.URL, nil)); status != 200 || body != "fine" {
						t.Errorf("call %d: got %d %q, want 200", i+1, status, body)
					}
					if purse.Spent != 0 || purse.Lost != 0 || purse.Granted != 3 {
						t.Errorf("call %d: the purse is %+v, want the budget unchanged", i+1, *purse)
					}
					upstream.CloseClientConnections()
					<-closed
				}
				if n := len(seen.all()); n != 3 || dials != 3 {
					t.Errorf("upstream saw %d requests on %d connections, want 3 on 3", n, dials)
				}
			})
			t.Run("dead_when_used", func(t *testing.T) {
				p := newRestarted(t, 3)
				c := newCaller(t, roomy, catalog(3))
				edge, purse := front(t, c, p.server.URL, p.pool, proxied)
				if status, body := send(t, edge.Client(), request(t, context.Background(), "GET", edge.URL, nil)); status != 200 || body != "fine" {
					t.Errorf("got %d %q, want 200", status, body)
				}
				p.check(t, "")
				if purse.Lent != 0 {
					t.Errorf("the purse is %+v, want nothing lent any more", *purse)
				}
			})
		})
	}
}

type closeWatched struct {
	net.Conn
	once   sync.Once
	closed chan<- struct{}
}

func (c *closeWatched) Close() error {
	c.once.Do(func() { c.closed <- struct{}{} })
	return c.Conn.Close()
}

// refuser is an HTTP/2 server made of the few frames that it needs: it says of each request stream, in the order of their
// arrival, whether it is processed.
type refuser struct {
	url     string
	streams atomic.Int64
	conns   atomic.Int64
}

// verdict is what becomes of a stream.
type verdict int

const (
	processed verdict = iota // answered with 200
	refused                  // reset with REFUSED_STREAM
	goneAway                 // past the last stream of a GOAWAY, after which the connection closes
	canceled                 // reset with CANCEL: it may have run
)

// newRefuser serves HTTP/2 over TLS until the test ends. Streams past the verdicts get the last one.
func newRefuser(t testing.TB, verdicts ...verdict) *refuser {
	t.Helper()
	certificates := httptest.NewTLSServer(nil)
	config := &tls.Config{Certificates: certificates.TLS.Certificates, NextProtos: []string{"h2"}}
	certificates.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	s := &refuser{url: "https://" + listener.Addr().String()}
	var serving sync.WaitGroup
	var open sync.Map
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Store(conn, nil)
			s.conns.Add(1)
			serving.Go(func() {
				defer conn.Close()
				s.frames(conn, verdicts)
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

// frames speaks HTTP/2 (RFC 9113) on one connection until it ends.
func (s *refuser) frames(conn net.Conn, verdicts []verdict) {
	const (
		typeHeaders, typeReset, typeSettings, typePing, typeGoAway = 0x1, 0x3, 0x4, 0x6, 0x7

		flagAck, flagEndStream, flagEndHeaders = 0x1, 0x1, 0x4

		codeRefused, codeCancel = 0x7, 0x8

		indexedStatus200 = 0x88 // of HPACK's static table
	)
	write := func(kind, flags byte, stream uint32, payload ...byte) {
		frame := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
		frame = binary.BigEndian.AppendUint32(frame, stream)
		conn.Write(append(frame, payload...))
	}
	in := bufio.NewReader(conn)
	if _, err := in.Discard(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
		return
	}
	write(typeSettings, 0, 0)
	for {
		var head [9]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(in, payload); err != nil {
			return
		}
		stream := binary.BigEndian.Uint32(head[5:])
		switch kind, ack := head[3], head[4]&flagAck != 0; {
		case kind == typeSettings && !ack:
			write(typeSettings, flagAck, 0)
		case kind == typePing && !ack:
			write(typePing, flagAck, 0, payload...)
		case kind == typeHeaders:
			n := int(s.streams.Add(1))
			switch verdicts[min(n, len(verdicts))-1] {
			case processed:
				write(typeHeaders, flagEndStream|flagEndHeaders, stream, indexedStatus200)
			case refused:
				write(typeReset, 0, stream, 0, 0, 0, codeRefused)
			case canceled:
				write(typeReset, 0, stream, 0, 0, 0, codeCancel)
			case goneAway:
				last := binary.BigEndian.AppendUint32(nil, stream-1)
				write(typeGoAway, 0, 0, append(last, 0, 0, 0, 0)...)
				return
			}
		}
	}
}

// A stream that HTTP/2 says was not processed may be sent again whatever it is: once for nothing by net/http, which is
// all that RFC 9110 section 9.2.2 allows, and then only as a retry.
func TestRegression_A057_a_POST_refused_twice_is_sent_twice(t *testing.T) {
	for name, how := range map[string]verdict{"refused_stream": refused, "goaway": goneAway} {
		for _, budget := range []int{0, 1, 3} {
			t.Run(name, func(t *testing.T) {
				s := newRefuser(t, how)
				c := newCaller(t, roomy, catalog(budget))
				ctx := c.chain(t)
				began := time.Now()
				resp, err := c.client(t, nil).Do(request(t, ctx, "POST", s.url, strings.NewReader("order")))
				if err == nil {
					resp.Body.Close()
					t.Fatal("a server that refuses everything answered")
				}
				if n := s.streams.Load(); n != 2 {
					t.Errorf("budget %d: the server saw %d streams, want 2", budget, n)
				}
				if spent := time.Since(began); spent > 5*time.Second {
					t.Errorf("budget %d: it took %v", budget, spent)
				}
				if b := balance(t, ctx); b.Spent != 0 || b.Lost != 0 {
					t.Errorf("budget %d: the purse is %+v, want every token home: nothing was processed", budget, b)
				}
			})
		}
	}
}

func TestRegression_A010_A057_a_POST_refused_once_succeeds_for_nothing(t *testing.T) {
	for name, how := range map[string]verdict{"refused_stream": refused, "goaway": goneAway} {
		t.Run(name, func(t *testing.T) {
			s := newRefuser(t, how, processed)
			c := newCaller(t, roomy, catalog(3))
			ctx := c.chain(t)
			if status, _ := send(t, c.client(t, nil), request(t, ctx, "POST", s.url, strings.NewReader("order"))); status != 200 {
				t.Errorf("got %d, want 200", status)
			}
			if n := s.streams.Load(); n != 2 {
				t.Errorf("the server saw %d streams, want 2", n)
			}
			if b := balance(t, ctx); b.Spent != 0 {
				t.Errorf("the purse is %+v, want nothing spent", b)
			}
			totals := c.SDK.Totals()
			if d := totals.Dependencies["callee"]; d.Attempts != 1 || totals.HiddenRepeats != 1 {
				t.Errorf("%d attempts and %d hidden repeats are counted, want 1 and 1", d.Attempts, totals.HiddenRepeats)
			}
		})
	}
}

// With tokens each attempt of what may run twice may be repeated once, and no more: four streams for one retry.
func TestRegression_A057_each_attempt_is_repeated_at_most_once(t *testing.T) {
	for name, how := range map[string]verdict{"refused_stream": refused, "goaway": goneAway} {
		t.Run(name, func(t *testing.T) {
			s := newRefuser(t, how)
			c := newCaller(t, roomy, catalog(3, "retry: {max_attempts: 2}"))
			ctx := c.chain(t)
			resp, err := c.client(t, nil).Do(request(t, ctx, "PUT", s.url, strings.NewReader("order")))
			if err == nil {
				resp.Body.Close()
				t.Fatal("a server that refuses everything answered")
			}
			var denied *chainbudget.DeniedError
			if !errors.As(err, &denied) || denied.Reason != ownership.ReasonMaxAttempts || denied.Attempts != 2 {
				t.Errorf("got %v, want max_attempts after 2", err)
			}
			if n := s.streams.Load(); n != 4 {
				t.Errorf("the server saw %d streams, want 4", n)
			}
			if b := balance(t, ctx); b.Spent != 1 || b.Lost != 0 {
				t.Errorf("the purse is %+v, want one retry spent and every lease home", b)
			}
		})
	}
}

// A stream that was reset for another reason may have run.
func TestRegression_A057_a_POST_reset_by_the_server_is_not_sent_again(t *testing.T) {
	s := newRefuser(t, canceled, processed)
	c := newCaller(t, roomy, catalog(3))
	resp, err := c.client(t, nil).Do(request(t, c.chain(t), "POST", s.url, strings.NewReader("order")))
	if err == nil {
		resp.Body.Close()
		t.Fatal("a stream that was reset answered")
	}
	var denied *chainbudget.DeniedError
	if !errors.As(err, &denied) || denied.Reason != ownership.ReasonNotIdempotent {
		t.Errorf("got %v, want not_idempotent", err)
	}
	if n := s.streams.Load(); n != 1 {
		t.Errorf("the server saw %d streams, want 1", n)
	}
	if status, _ := send(t, c.client(t, nil), request(t, c.chain(t), "GET", s.url, nil)); status != 200 {
		t.Errorf("got %d, want 200", status)
	}
}
