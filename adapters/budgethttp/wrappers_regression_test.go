package budgethttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

func TestRegression_A109_a_long_answer_is_never_buffered(t *testing.T) {
	const size = 64 << 20
	chunk := bytes.Repeat([]byte{'x'}, 32<<10)
	h := hop(t, "files", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range size / len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				t.Error(err)
				return
			}
		}
	}))
	c := newCaller(t, roomy, catalog(3))
	s := serve(t, h)
	req := request(t, c.chain(t), http.MethodGet, s.URL, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, err := c.transport(t, nil).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	runtime.ReadMemStats(&after)
	if err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > size/16 {
		t.Errorf("%d bytes were allocated for an answer of %d", used, size)
	}
}

// upgrade answers "Upgrade: echo" with a connection that sends back what it gets.
func upgrade(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			http.Error(w, "no upgrade asked for", http.StatusBadRequest)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		io.Copy(conn, rw)
	})
}

func TestRegression_A107_a_websocket_goes_through_a_reverse_proxy(t *testing.T) {
	const attemptTimeout = 100 * time.Millisecond
	arrived := new(tap)
	back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.add(arrival{method: r.Method, header: r.Header.Clone()})
		hop(t, "back", upgrade(t)).ServeHTTP(w, r)
	}))
	target, err := url.Parse(back.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 100ms}"))
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target) },
		Transport: c.transport(t, nil),
	}
	front := serve(t, budgethttp.NewHandler(proxy, c.SDK, budgethttp.Entry()))

	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(enough))
	io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: front\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d, want 101", resp.StatusCode)
	}
	if lines, ok := resp.Header[otelprop.HTTPReturnHeader]; ok {
		t.Errorf("the entry's answer has a return: %q", lines)
	}
	say := func(word string) {
		t.Helper()
		io.WriteString(conn, word+"\n")
		if line, err := r.ReadString('\n'); err != nil || line != word+"\n" {
			t.Fatalf("echo of %q: %q, %v", word, line, err)
		}
	}
	say("first")
	<-time.After(3 * attemptTimeout) // the attempt timeout is over long since
	say("second")
	if n := len(arrived.all()); n != 1 {
		t.Errorf("the upgrade arrived %d times", n)
	}
	if d := c.SDK.Totals().Dependencies["callee"]; d.Retries != 0 || d.Attempts != 1 {
		t.Errorf("attempts %d retries %d, want 1 and 0", d.Attempts, d.Retries)
	}
}

func TestRegression_A107_a_101_is_handed_on_as_it_is(t *testing.T) {
	c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 5s}"))
	s := serve(t, hop(t, "back", upgrade(t)))
	req := request(t, c.chain(t), http.MethodGet, s.URL, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := c.transport(t, nil).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	both, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("the body of a 101 is a %T: it must stay a Writer", resp.Body)
	}
	io.WriteString(both, "ping\n")
	if line, err := bufio.NewReader(both).ReadString('\n'); err != nil || line != "ping\n" {
		t.Errorf("echo %q, %v", line, err)
	}
}

func TestRegression_A111_the_winners_body_outlives_its_attempt_timeout(t *testing.T) {
	const size = 512 << 10
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		headersOut := make(chan struct{})
		s := serve(t, hop(t, "files", script(answer(503, "no"), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			w.WriteHeader(200)
			http.NewResponseController(w).Flush()
			close(headersOut)
			timer := time.NewTimer(250 * time.Millisecond) // longer than an attempt may take
			defer timer.Stop()
			<-timer.C
			w.Write(make([]byte, size))
		})))
		c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 100ms}"))
		resp, err := c.transport(t, nil).RoundTrip(request(t, c.chain(t), http.MethodGet, s.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		<-headersOut
		if status, body := read(t, resp); status != 200 || len(body) != size {
			t.Errorf("status %d, %d bytes of %d", status, len(body), size)
		}
		if d := c.SDK.Totals().Dependencies["callee"]; d.Retries != 1 {
			t.Errorf("retries %d, want 1", d.Retries)
		}
	})
}

func TestRegression_A112_attempts_share_no_header_map(t *testing.T) {
	c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 10ms}"))
	var late sync.WaitGroup
	var attempts atomic.Int64
	release := make(chan struct{})
	base := roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		if n := attempts.Add(1); n == 1 {
			// A middleware of an attempt that was given up keeps writing to its own request.
			late.Go(func() {
				for i := 0; ; i++ {
					req.Header.Set("X-Middleware", strconv.Itoa(i))
					req.Header["X-Shared"] = append(req.Header["X-Shared"], "late")
					select {
					case <-release:
						return
					default:
						runtime.Gosched()
					}
				}
			})
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		if got := req.Header["X-Shared"]; !slices.Equal(got, []string{"mine"}) {
			t.Errorf("attempt 2 has X-Shared %q, want the caller's", got)
		}
		req.Header.Set("X-Middleware", "second")
		req.Header["X-Shared"] = append(req.Header["X-Shared"], "second")
		return response(req, 200, http.NoBody), nil
	})
	req := request(t, c.chain(t), http.MethodGet, "http://callee/", nil)
	shared := make([]string, 1, 8) // room for an append to write into
	shared[0] = "mine"
	req.Header["X-Shared"] = shared
	resp, err := c.transport(t, base).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	close(release)
	late.Wait()
	if attempts.Load() != 2 || len(req.Header) != 1 || !slices.Equal(shared[:cap(shared)], []string{"mine", "", "", "", "", "", "", ""}) {
		t.Errorf("attempts %d; the caller's header is now %q", attempts.Load(), req.Header)
	}
}

func TestRegression_A116_the_last_response_is_returned_as_net_http_would(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			c := newCaller(t, roomy, catalog(9, "retry: {max_attempts: 3}"))
			s := serve(t, hop(t, "callee", answer(status, "the server's own words", "Retry-After", "7", "X-Request-Id", "r1")))
			resp, err := c.client(t, nil).Do(request(t, c.chain(t), http.MethodGet, s.URL, nil))
			if err != nil {
				t.Fatal(err)
			}
			denied := budgethttp.Denied(resp)
			header := resp.Header
			got, body := read(t, resp)
			if got != status || body != "the server's own words" || header.Get("X-Request-Id") != "r1" || header.Get("Retry-After") != "7" {
				t.Errorf("status %d, body %q, header %v: the server's words are hidden", got, body, header)
			}
			// The profile's cap is 5 s, so a hint of 7 s is not waited for.
			if denied == nil || denied.Reason != ownership.ReasonPushback || denied.Attempts != 1 || denied.RetryAfter != 7*time.Second {
				t.Errorf("denied %+v; want pushback after one attempt, with the hint", denied)
			}
		})
	}
	t.Run("exhausted", func(t *testing.T) {
		c := newCaller(t, roomy, catalog(9, "retry: {max_attempts: 3}"))
		s := serve(t, hop(t, "callee", answer(503, "still no")))
		resp, err := c.client(t, nil).Do(request(t, c.chain(t), http.MethodGet, s.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		denied := budgethttp.Denied(resp)
		if status, body := read(t, resp); status != 503 || body != "still no" {
			t.Errorf("status %d, body %q", status, body)
		}
		if denied == nil || denied.Reason != ownership.ReasonMaxAttempts || denied.Attempts != 3 || denied.Status != 503 {
			t.Errorf("denied %+v; want max_attempts after 3 with status 503", denied)
		}
		if events := c.Events(); len(events) != 3 || events[0].Status != 503 || events[1].Attempt != 2 || events[2].Attempt != 3 {
			t.Errorf("events %+v: every attempt is listed", events)
		}
	})
	t.Run("no_response", func(t *testing.T) {
		c := newCaller(t, roomy, catalog(9, "retry: {max_attempts: 2}"))
		broken := errors.New("the wire broke")
		_, err := c.client(t, roundTripperFunc(func(*http.Request) (*http.Response, error) { return nil, broken })).
			Do(request(t, c.chain(t), http.MethodGet, "http://callee/", nil))
		var denied *chainbudget.DeniedError
		if !errors.Is(err, broken) || !errors.As(err, &denied) || denied.Attempts != 2 || !strings.Contains(err.Error(), "the wire broke") {
			t.Errorf("error %v: the cause must be found and shown", err)
		}
	})
}

func TestRegression_A117_an_observer_gets_the_requests_context_and_the_balance(t *testing.T) {
	type key struct{}
	c := newCaller(t, roomy, catalog(3))
	ctx := context.WithValue(c.chain(t), key{}, "request-logger")
	transport := c.transport(t, inProcess(hop(t, "callee", script(answer(503, ""), answer(503, ""), answer(404, "")))))
	if _, err := get(ctx, transport, "http://callee/"); err != nil {
		t.Fatal(err)
	}
	events := c.Events()
	if len(events) != 2 {
		t.Fatalf("events %+v, want the two retries", events)
	}
	for i, e := range events {
		if e.Context.Value(key{}) != "request-logger" {
			t.Errorf("event %d has another context than the request", i)
		}
		if e.Dependency != "callee" || e.Profile != string(roomy) || e.Attempt != i+1 || e.Status != 503 || e.Claim != ownership.ClaimClaimed || e.Owner != "callee" {
			t.Errorf("event %d: %+v", i, e)
		}
		if e.Before != 3-i || e.After != 2-i {
			t.Errorf("event %d: balance %d before, %d after; want %d and %d", i, e.Before, e.After, 3-i, 2-i)
		}
	}
}

func TestRegression_A050_every_retry_tells_its_profile_and_its_drawn_delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, roomy, catalog(9, "backoff: {base: 100ms, cap: 5s}"), chainbudgettest.Sleep(), chainbudgettest.Seed(7))
		ctx, end := c.endlessChain(context.Background())
		defer end()
		start := time.Now()
		if _, err := get(ctx, c.transport(t, inProcess(hop(t, "callee", script(answer(503, ""), answer(503, ""), answer(503, ""), answer(200, ""))))), "http://callee/"); err != nil {
			t.Fatal(err)
		}
		var sum time.Duration
		events := c.Events()
		if len(events) != 3 {
			t.Fatalf("events %+v, want three retries", events)
		}
		for i, e := range events {
			if ceiling := 100 * time.Millisecond << i; e.Profile != string(roomy) || e.Delay < 0 || e.Delay > ceiling {
				t.Errorf("retry %d: profile %q, delay %v; want roomy and at most %v", i+1, e.Profile, e.Delay, ceiling)
			}
			sum += e.Delay
		}
		if slept := time.Since(start); slept != sum || sum == 0 {
			t.Errorf("the call slept %v, the events tell of %v", slept, sum)
		}
	})
}
