package budgethttp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// soon is a setting for hedges that come quickly on loopback.
const soon = "hedge: {after: 5ms, max: 2}"

// stuck is a handler whose first n requests hang until their client goes away. Each of the others gets the answer.
func stuck(n int64, gone chan<- struct{}, next http.HandlerFunc) http.HandlerFunc {
	var arrived atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) > n {
			next(w, r)
			return
		}
		<-r.Context().Done()
		gone <- struct{}{}
	}
}

// A111: the winner's body outlives the cancellation of the losers and of its own time limit, however long the caller
// takes to read it.
func TestRegression_A111_the_body_of_the_winner_is_whole(t *testing.T) {
	const size = 512 << 10
	content := strings.Repeat("0123456789abcdef", size/16)
	for name, hanging := range map[string]int64{"first_wins": 0, "hedge_wins": 1, "second_hedge_wins": 2} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, serveCallee func(testing.TB, http.Handler) *httptest.Server) {
				t.Parallel() // most of it is waiting
				gone := make(chan struct{}, 9)
				var failed atomic.Bool
				answer := func(w http.ResponseWriter, r *http.Request) {
					if hanging == 0 && !failed.Swap(true) {
						w.WriteHeader(503) // so that there is a retry, too
						return
					}
					io.WriteString(w, content[:size/2])
					w.(http.Flusher).Flush()
					io.WriteString(w, content[size/2:])
				}
				server, _ := callee(t, serveCallee, stuck(hanging, gone, answer))
				c := newCaller(t, roomy, catalog(9, soon, "retry: {attempt_timeout: 500ms}"))
				resp, err := c.client(t, nil).Do(request(t, c.chain(t), http.MethodGet, server.URL, nil))
				if err != nil {
					t.Fatal(err)
				}
				for range hanging { // by now every loser has been canceled
					select {
					case <-gone:
					case <-time.After(enough):
						t.Fatal("a loser was not canceled")
					}
				}
				limit := time.NewTimer(550 * time.Millisecond) // and the winner's time limit is over
				defer limit.Stop()
				var got bytes.Buffer
				io.CopyN(&got, resp.Body, 1000)
				<-limit.C
				if n, err := io.Copy(&got, resp.Body); err != nil {
					t.Fatalf("the body breaks off after %d bytes: %v", 1000+n, err)
				}
				resp.Body.Close()
				if got.String() != content {
					t.Errorf("%d bytes came, want the %d that were sent", got.Len(), size)
				}
			})
		})
	}
}

// A112: two hedges and a middleware between them and the base that writes what it was given: every attempt has a request
// of its own.
func TestRegression_A112_attempts_share_no_request(t *testing.T) {
	protocols(t, func(t *testing.T, serveCallee func(testing.TB, http.Handler) *httptest.Server) {
		gone := make(chan struct{}, 100)
		server, seen := callee(t, serveCallee, stuck(2, gone, answer(200, "done")))
		c := newCaller(t, roomy, catalog(5, soon))
		pool := newPool(t)
		var outside sync.WaitGroup
		middleware := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			outside.Add(1)
			defer outside.Done()
			r.Header.Set("Authorization", "token of "+r.Header.Get("Chainbudget"))
			r.Header["X-List"][0] = "changed in place"
			r.Header.Add("X-List", "more")
			r.Header.Del("X-Gone")
			r.URL.RawQuery = "signed=1"
			resp, err := pool.RoundTrip(r)
			r.Header.Set("X-Late", "after the answer")
			return resp, err
		})
		req := request(t, c.chain(t), http.MethodPut, server.URL, strings.NewReader("content"))
		req.Header.Set("X-List", "one")
		req.Header.Set("X-Gone", "x")
		before := photographOf(req)
		resp, err := c.transport(t, middleware).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		before.check(t, req)
		req.Header.Set("X-List", "the caller uses its request again") // while losers may still be busy with theirs
		req.URL.RawQuery = "x=1"
		read(t, resp)
		outside.Wait()
		arrived := seen.all()
		if len(arrived) < 3 {
			t.Fatalf("%d requests arrived, want 3", len(arrived))
		}
		wires := map[string]bool{}
		for _, a := range arrived {
			wires[a.header.Get("Chainbudget")] = true
			if a.header.Get("Authorization") != "token of "+a.header.Get("Chainbudget") || a.header.Get("X-Gone") != "" || a.body != "content" {
				t.Errorf("an attempt arrived as %q with %v", a.body, a.header)
			}
		}
		if len(wires) != len(arrived) {
			t.Errorf("%d wires for %d requests", len(wires), len(arrived))
		}
	})
}

// P015: every hedge sends the whole body, from GetBody, and every body is closed once.
func TestRegression_P015_every_hedge_has_its_own_body(t *testing.T) {
	protocols(t, func(t *testing.T, serveCallee func(testing.TB, http.Handler) *httptest.Server) {
		gone := make(chan struct{}, 3)
		server, seen := callee(t, serveCallee, stuck(2, gone, answer(200, "done")))
		c := newCaller(t, roomy, catalog(5, soon))
		req := request(t, c.chain(t), http.MethodPost, server.URL, nil)
		req.Header.Set("Idempotency-Key", "1")
		body := &replayed{content: "hello"}
		body.attach(req)
		if status, text := send(t, c.client(t, nil), req); status != 200 || text != "done" {
			t.Fatalf("%d %q", status, text)
		}
		arrived := seen.all()
		body.check(t, len(arrived))
		if len(arrived) != 3 {
			t.Errorf("%d requests arrived, want 3", len(arrived))
		}
		for i, a := range arrived {
			if a.body != "hello" || a.length != 5 {
				t.Errorf("request %d arrived with %q of length %d", i+1, a.body, a.length)
			}
		}
	})
}

// P016: the responses that nobody gets are closed, whether they come before the winner's or after, and the connections
// are used again or given up: none is left behind.
func TestRegression_P016_the_losers_are_closed(t *testing.T) {
	bodies := []*text{newText("busy"), newText("late"), newText("done")}
	second, release := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		i, status := n.Add(1), 200
		switch i {
		case 1: // fails while the second runs
			<-second
			status = 503
		case 2: // is deaf, and answers when all is over
			close(second)
			<-release
		}
		return response(r, status, bodies[i-1]), nil
	})
	c := newCaller(t, roomy, catalog(5, soon))
	resp, err := c.transport(t, base).RoundTrip(request(t, c.chain(t), http.MethodGet, "http://callee.internal/", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, text := read(t, resp); text != "done" {
		t.Errorf("got %q", text)
	}
	close(release)
	for i, body := range bodies {
		body.awaitClose(t)
		if n := body.closes.Load(); n != 1 {
			t.Errorf("body %d was closed %d times, want once", i+1, n)
		}
	}
}

// Over real connections a loser leaves no stream, connection or goroutine behind (the package's tests check for the
// last).
func TestRegression_losers_leave_their_connections(t *testing.T) {
	protocols(t, func(t *testing.T, serveCallee func(testing.TB, http.Handler) *httptest.Server) {
		const calls = 20
		gone := make(chan struct{}, calls)
		var n atomic.Int64
		server, _ := callee(t, serveCallee, func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%2 == 1 {
				<-r.Context().Done()
				gone <- struct{}{}
				return
			}
			io.WriteString(w, "done")
		})
		c := newCaller(t, roomy, catalog(1, "hedge: {after: 1ms, max: 1}"))
		client := c.client(t, nil)
		for range calls {
			if status, text := send(t, client, request(t, c.chain(t), http.MethodGet, server.URL, nil)); status != 200 || text != "done" {
				t.Fatalf("%d %q", status, text)
			}
			select {
			case <-gone:
			case <-time.After(enough):
				t.Fatal("the callee of a loser does not see it go")
			}
		}
		if d := c.SDK.Totals().Dependencies["callee"]; d.Hedges != calls || len(d.Claims) != 0 {
			t.Errorf("%+v, want %d hedges and no failure", d, calls)
		}
	})
}

// A gateway's own context values, deadline and cancellation reach every attempt.
func TestRegression_hedges_keep_the_callers_context(t *testing.T) {
	type key struct{}
	c := newCaller(t, roomy, catalog(5, soon))
	ctx := context.WithValue(c.chain(t), key{}, "value")
	deadline, _ := ctx.Deadline()
	var n atomic.Int64
	transport := budgethttp.NewTransport(roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		if got, ok := r.Context().Deadline(); r.Context().Value(key{}) != "value" || !ok || !got.Equal(deadline) {
			t.Errorf("an attempt has the value %v and the deadline %v", r.Context().Value(key{}), got)
		}
		if n.Add(1) < 3 {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return response(r, 200, http.NoBody), nil
	}), c.dep)
	if _, err := transport.RoundTrip(request(t, ctx, http.MethodGet, "http://callee.internal/", nil)); err != nil {
		t.Error(err)
	}
}

// A hedge, and a retry after it, know whom the slow attempt talks to, so that they can go elsewhere.
func TestRegression_hedges_know_the_slow_peer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, roomy, catalog(5, "hedge: {after: 50ms, max: 1}"))
		ctx, end := c.endlessChain(t.Context())
		defer end()
		var mu sync.Mutex
		peers := map[int]string{}
		base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			attempt, _ := chainbudget.AttemptFromContext(r.Context())
			mu.Lock()
			peers[attempt.Number] = attempt.Peer
			mu.Unlock()
			trace := httptrace.ContextClientTrace(r.Context())
			trace.GetConn("callee:80")
			trace.GotConn(httptrace.GotConnInfo{Conn: connTo(fmt.Sprint("instance ", attempt.Number))})
			if attempt.Number < 3 {
				<-time.After(100 * time.Millisecond)
				return response(r, 503, http.NoBody), nil
			}
			return response(r, 200, http.NoBody), nil
		})
		if _, err := c.transport(t, base).RoundTrip(request(t, ctx, http.MethodGet, "http://callee/", nil)); err != nil {
			t.Fatal(err)
		}
		want := map[int]string{1: "", 2: "instance 1", 3: "instance 2"}
		if !maps.Equal(peers, want) {
			t.Errorf("the attempts know %v, want %v", peers, want)
		}
	})
}

// connTo is a connection of which only the other end is of interest.
type connTo string

func (c connTo) RemoteAddr() net.Addr           { return c }
func (c connTo) Network() string                { return "test" }
func (c connTo) String() string                 { return string(c) }
func (connTo) LocalAddr() net.Addr              { return nil }
func (connTo) Read([]byte) (int, error)         { return 0, io.EOF }
func (connTo) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }
func (connTo) Close() error                     { return nil }
func (connTo) SetDeadline(time.Time) error      { return nil }
func (connTo) SetReadDeadline(time.Time) error  { return nil }
func (connTo) SetWriteDeadline(time.Time) error { return nil }
