package budgethttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// bodyCounter is a base that counts how often the body of each response is closed.
type bodyCounter struct {
	base       http.RoundTripper
	idleCloses atomic.Int64

	mu     sync.Mutex
	bodies []*countedBody
}

type countedBody struct {
	io.ReadCloser
	closes atomic.Int64
}

func (b *countedBody) Close() error {
	b.closes.Add(1)
	return b.ReadCloser.Close()
}

func (b *bodyCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(r)
	if resp != nil {
		body := &countedBody{ReadCloser: resp.Body}
		resp.Body = body
		b.mu.Lock()
		b.bodies = append(b.bodies, body)
		b.mu.Unlock()
	}
	return resp, err
}

func (b *bodyCounter) CloseIdleConnections() { b.idleCloses.Add(1) }

// check demands that the bodies were closed that often, in the order of the responses.
func (b *bodyCounter) check(t testing.TB, when string, closes ...int64) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.bodies) != len(closes) {
		t.Fatalf("%s: %d responses, want %d", when, len(b.bodies), len(closes))
	}
	for i, body := range b.bodies {
		if n := body.closes.Load(); n != closes[i] {
			t.Errorf("%s: body %d was closed %d times, want %d", when, i+1, n, closes[i])
		}
	}
}

// countDials makes the pool count the connections that it opens.
func countDials(pool *http.Transport) *atomic.Int64 {
	var dials atomic.Int64
	pool.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	return &dials
}

func TestRegression_A015_discarded_responses_are_closed_and_their_connection_is_used_again(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3))
		server, _ := callee(t, serve, answer(503, "one"), answer(503, "two"), answer(200, "three"))
		pool := newPool(t)
		dials := countDials(pool)
		counter := &bodyCounter{base: pool}
		resp, err := c.client(t, counter).Do(request(t, c.chain(t), "GET", server.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		counter.check(t, "before the caller has read", 1, 1, 0)
		if status, body := read(t, resp); status != 200 || body != "three" {
			t.Errorf("got %d %q, want 200 three", status, body)
		}
		counter.check(t, "after the caller has closed", 1, 1, 1)
		if n := dials.Load(); n != 1 {
			t.Errorf("%d connections were opened, want 1", n)
		}
	})
}

func TestRegression_A017_no_body_stays_open_when_attempts_run_out(t *testing.T) {
	c := newCaller(t, roomy, catalog(2))
	server, _ := callee(t, serve, answer(503, "sorry"))
	counter := &bodyCounter{base: newPool(t)}
	resp, err := c.client(t, counter).Do(request(t, c.chain(t), "GET", server.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	counter.check(t, "at give-up", 1, 1, 0)
	if status, body := read(t, resp); status != 503 || body != "sorry" {
		t.Errorf("got %d %q, want the last answer", status, body)
	}
	counter.check(t, "after the caller has closed", 1, 1, 1)
}

func TestRegression_A018_a_retry_uses_the_connection_of_the_attempt_before(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3))
		server, _ := callee(t, serve, answer(503, "ten bytes."), answer(503, "ten bytes."), answer(200, ""))
		var reused []bool
		ctx := httptrace.WithClientTrace(c.chain(t), &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) { reused = append(reused, info.Reused) },
		})
		if status, _ := send(t, c.client(t, nil), request(t, ctx, "GET", server.URL, nil)); status != 200 {
			t.Errorf("got %d, want 200", status)
		}
		if len(reused) != 3 || reused[0] || !reused[1] || !reused[2] {
			t.Errorf("connections reused: %v, want false true true (by the caller's own trace)", reused)
		}
	})
}

func TestRegression_A020_a_finished_call_leaves_no_goroutine(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 30s}"))
		server, _ := callee(t, serve, answer(200, "body"))
		client := c.client(t, nil)
		call := func() {
			resp, err := client.Do(request(t, context.Background(), "GET", server.URL, nil))
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); string(body) != "body" || err != nil { // to its end, and not closed
				t.Fatalf("read %q, %v", body, err)
			}
		}
		call()
		before := goleak.IgnoreCurrent() // the connection and the server
		for range 1000 {
			call()
		}
		goleak.VerifyNone(t, before)
	})
}

func TestRegression_A021_calls_that_cannot_connect_leave_no_goroutine_and_keep_every_token(t *testing.T) {
	c := newCaller(t, roomy, catalog(3, "retry: {max_attempts: 2, attempt_timeout: 30s}"))
	closed := httptest.NewServer(nil)
	closed.Close()
	before := goleak.IgnoreCurrent()
	pool := newPool(t)
	dials := countDials(pool)
	client := c.client(t, pool)
	for range 500 {
		ctx, end := c.endlessChain(context.Background())
		resp, err := client.Do(request(t, ctx, "POST", closed.URL, strings.NewReader("x")))
		if err == nil {
			resp.Body.Close()
			t.Fatal("a closed port answered")
		}
		if b := balance(t, ctx); b.Held != 2 || b.Spent != 1 || b.Lent != 0 || b.Lost != 0 {
			t.Fatalf("the purse is %+v, want the lease home and one retry spent", b)
		}
		end()
	}
	if n := dials.Load(); n != 1000 {
		t.Errorf("%d dials, want 1,000: even a POST that never left may be sent again", n)
	}
	goleak.VerifyNone(t, before)
}

func TestRegression_P002_calls_with_retries_need_one_connection(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3))
		var n atomic.Int64
		large := strings.Repeat("e", 64<<10) // P004: a drain of 4 KiB would not do
		server := serve(t, hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%2 == 1 {
				w.WriteHeader(503)
				io.WriteString(w, large)
			}
		})))
		pool := newPool(t)
		dials := countDials(pool)
		client := c.client(t, pool)
		for range 50 {
			if status, _ := send(t, client, request(t, c.chain(t), "GET", server.URL, nil)); status != 200 {
				t.Fatalf("got %d, want 200", status)
			}
		}
		if got := dials.Load(); got != 1 {
			t.Errorf("50 calls with a retry each opened %d connections, want 1", got)
		}
	})
}

func TestRegression_P003_a_pool_of_one_connection_does_not_block_the_retry(t *testing.T) {
	megabyte := strings.Repeat("e", 1<<20)
	for name, failure := range map[string]http.HandlerFunc{
		"known_length": answer(503, megabyte, "Content-Length", strconv.Itoa(len(megabyte))),
		"chunked":      answer(503, megabyte),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaller(t, roomy, catalog(3))
			server, _ := callee(t, serve, failure, failure, answer(200, "fine"))
			pool := newPool(t)
			pool.MaxConnsPerHost = 1
			if status, body := send(t, c.client(t, pool), request(t, c.chain(t), "GET", server.URL, nil)); status != 200 || body != "fine" {
				t.Errorf("got %d %q, want 200", status, body)
			}
		})
	}
}

// The other side of draining: it is bounded in bytes and in time.
func TestRegression_P004_draining_is_bounded(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(503)
		chunk := make([]byte, 32<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	stuck := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(503)
		io.WriteString(w, "and then")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for name, failure := range map[string]http.HandlerFunc{"endless": endless, "stuck": stuck} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
				c := newCaller(t, roomy, catalog(3))
				server := serve(t, hop(t, "callee", script(failure, answer(200, "fine"))))
				began := time.Now()
				if status, body := send(t, c.client(t, nil), request(t, c.chain(t), "GET", server.URL, nil)); status != 200 || body != "fine" {
					t.Errorf("got %d %q, want 200", status, body)
				}
				if spent := time.Since(began); spent > 5*time.Second {
					t.Errorf("giving up the first response took %v", spent)
				}
			})
		})
	}
}

func TestRegression_P005_the_last_response_is_returned_as_it_came(t *testing.T) {
	long := strings.Repeat("because ", 8<<10)
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		for _, status := range []int{429, 503} { // A043: both end alike
			c := newCaller(t, roomy, catalog(2))
			server, seen := callee(t, serve, answer(status, "first"), answer(status, "second"), answer(status, long, "X-Trace", "t-3", "Retry-After", "0"))
			resp, err := c.client(t, nil).Do(request(t, c.chain(t), "GET", server.URL, nil))
			if err != nil {
				t.Fatalf("status %d: %v, want the response", status, err)
			}
			if denied := budgethttp.Denied(resp); denied == nil || denied.Reason != ownership.ReasonChainExhausted ||
				denied.Attempts != 3 || denied.Status != status {
				t.Errorf("Denied says %+v, want chain_exhausted after 3 attempts with %d", denied, status)
			}
			if got := resp.Header.Get("X-Trace"); got != "t-3" {
				t.Errorf("X-Trace is %q, want that of the third answer", got)
			}
			if got, body := read(t, resp); got != status || body != long {
				t.Errorf("got %d with %d bytes, want %d with %d", got, len(body), status, len(long))
			}
			if n := len(seen.all()); n != 3 {
				t.Errorf("the server saw %d requests, want 3", n)
			}
		}
	})
}

func TestRegression_P008_failures_do_not_close_idle_connections(t *testing.T) {
	c := newCaller(t, roomy, catalog(2))
	server, _ := callee(t, serve, answer(503, ""))
	counter := &bodyCounter{base: newPool(t)}
	client := c.client(t, counter)
	for range 3 {
		if status, _ := send(t, client, request(t, c.chain(t), "GET", server.URL, nil)); status != 503 {
			t.Errorf("got %d, want 503", status)
		}
	}
	if n := counter.idleCloses.Load(); n != 0 {
		t.Errorf("idle connections were closed %d times by failures", n)
	}
	client.CloseIdleConnections()
	if n := counter.idleCloses.Load(); n != 1 {
		t.Errorf("the client's CloseIdleConnections reached the base %d times, want once", n)
	}
}

// What the caller reads of a response may end in an error. The error is the caller's to see, and nothing leaks.
func TestRegression_a_body_that_breaks_off_is_returned_and_not_retried(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3))
		server, seen := callee(t, serve, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "the beginning")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		resp, err := c.client(t, nil).Do(request(t, c.chain(t), "GET", server.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if string(body) != "the beginning" || err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("read %q, %v; want the beginning and the connection's own error", body, err)
		}
		if n := len(seen.all()); n != 1 {
			t.Errorf("the server saw %d requests, want 1", n)
		}
	})
}
