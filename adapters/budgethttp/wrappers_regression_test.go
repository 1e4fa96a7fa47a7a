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
	"os"
	"path/filepath"
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

func TestRegression_A108_events_are_delivered_when_they_are_flushed(t *testing.T) {
	byFlusher := func(w http.ResponseWriter) error {
		w.(http.Flusher).Flush()
		return nil
	}
	byController := func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }
	byFlushError := func(w http.ResponseWriter) error { return w.(interface{ FlushError() error }).FlushError() }
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		for name, flush := range map[string]func(http.ResponseWriter) error{
			"flusher": byFlusher, "response_controller": byController, "flush_error": byFlushError,
		} {
			t.Run(name, func(t *testing.T) {
				got := make(chan struct{})
				s := serve(t, hop(t, "events", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					io.WriteString(w, "data: 1\n\n")
					if err := flush(w); err != nil {
						t.Error(err)
					}
					select { // nothing more is written before the event has arrived
					case <-got:
					case <-r.Context().Done():
						t.Error("the event never arrived")
					}
				})))
				ctx, cancel := context.WithTimeout(t.Context(), enough)
				defer cancel()
				fastest := time.Duration(1<<63 - 1)
				for range 5 { // the quickest of a few: a busy machine is no fault of the writer
					req := request(t, ctx, http.MethodGet, s.URL, nil)
					nonce := lendTo(req, 2)
					start := time.Now()
					resp, err := s.Client().Do(req)
					if err != nil {
						t.Fatal(err)
					}
					if _, ok, _ := otelprop.ReadReturn(resp.Header[otelprop.HTTPReturnHeader], nonce, 2); !ok {
						t.Error("the headers went out without the return")
					}
					line, err := bufio.NewReader(resp.Body).ReadString('\n')
					if err != nil || line != "data: 1\n" {
						t.Fatalf("%q, %v", line, err)
					}
					fastest = min(fastest, time.Since(start))
					got <- struct{}{}
					resp.Body.Close()
				}
				if fastest > 100*time.Millisecond {
					t.Errorf("the first event took %v at best, want at most 100ms", fastest)
				}
			})
		}
	})
}

// unwrapOnly is a middleware's writer that offers nothing but the way to the one below.
type unwrapOnly struct{ http.ResponseWriter }

func (w unwrapOnly) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestRegression_A108_a_flush_that_goes_past_a_bare_writer_still_sends_the_return(t *testing.T) {
	inner := hop(t, "events", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "late")
	}))
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(unwrapOnly{w}, r) }))
	if got := lend(t, s.Client(), http.MethodGet, s.URL, 2); !got.hasReturn || got.ret.Returned != 2 || got.body != "late" {
		t.Errorf("got %+v; want the body and a return of 2", got)
	}
}

func TestRegression_A108_a_writer_that_cannot_flush_says_so_and_keeps_the_purse_open(t *testing.T) {
	c := newCaller(t, roomy, catalog(3))
	transport := c.transport(t, inProcess(hop(t, "callee", script(answer(503, ""), answer(200, "")))))
	h := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("flush: %v, want http.ErrNotSupported", err)
		}
		if resp, err := get(r.Context(), transport, "http://callee/"); err != nil || resp.StatusCode != 200 {
			t.Errorf("a call after the failed flush: %v, %v", resp, err)
		}
	}), c.SDK)
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	nonce := lendTo(req, 2)
	h.ServeHTTP(struct{ http.ResponseWriter }{w}, req)
	ret, ok, _ := otelprop.ReadReturn(w.Header()[otelprop.HTTPReturnHeader], nonce, 2)
	if !ok || ret.Returned != 1 || ret.Retries != 1 {
		t.Errorf("return %v %+v; want 1 token home and 1 retry", ok, ret)
	}
}

// The parts of which the table below makes writers. Each notes that it was asked.
type (
	flushPart    struct{ asked *[]string }
	hijackPart   struct{ asked *[]string }
	readFromPart struct{ asked *[]string }
	pushPart     struct{ asked *[]string }
)

var errPart = errors.New("a part's own error")

func (p flushPart) Flush()            { *p.asked = append(*p.asked, "flush") }
func (p flushPart) FlushError() error { p.Flush(); return errPart }
func (p hijackPart) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	*p.asked = append(*p.asked, "hijack")
	return nil, nil, errPart
}
func (p readFromPart) ReadFrom(io.Reader) (int64, error) {
	*p.asked = append(*p.asked, "read_from")
	return 7, errPart
}
func (p pushPart) Push(string, *http.PushOptions) error {
	*p.asked = append(*p.asked, "push")
	return errPart
}

func TestRegression_A108_the_writer_offers_exactly_what_the_servers_own_does(t *testing.T) {
	var asked []string
	w := http.ResponseWriter(httptest.NewRecorder())
	plain := struct{ http.ResponseWriter }{w}
	f, h, r, p := flushPart{&asked}, hijackPart{&asked}, readFromPart{&asked}, pushPart{&asked}
	for name, own := range map[string]http.ResponseWriter{
		"plain": plain,
		"f": struct {
			http.ResponseWriter
			flushPart
		}{w, f},
		"h": struct {
			http.ResponseWriter
			hijackPart
		}{w, h},
		"r": struct {
			http.ResponseWriter
			readFromPart
		}{w, r},
		"p": struct {
			http.ResponseWriter
			pushPart
		}{w, p},
		"fh": struct {
			http.ResponseWriter
			flushPart
			hijackPart
		}{w, f, h},
		"fr": struct {
			http.ResponseWriter
			flushPart
			readFromPart
		}{w, f, r},
		"fp": struct {
			http.ResponseWriter
			flushPart
			pushPart
		}{w, f, p},
		"hr": struct {
			http.ResponseWriter
			hijackPart
			readFromPart
		}{w, h, r},
		"hp": struct {
			http.ResponseWriter
			hijackPart
			pushPart
		}{w, h, p},
		"rp": struct {
			http.ResponseWriter
			readFromPart
			pushPart
		}{w, r, p},
		"fhr": struct {
			http.ResponseWriter
			flushPart
			hijackPart
			readFromPart
		}{w, f, h, r},
		"fhp": struct {
			http.ResponseWriter
			flushPart
			hijackPart
			pushPart
		}{w, f, h, p},
		"frp": struct {
			http.ResponseWriter
			flushPart
			readFromPart
			pushPart
		}{w, f, r, p},
		"hrp": struct {
			http.ResponseWriter
			hijackPart
			readFromPart
			pushPart
		}{w, h, r, p},
		"fhrp": struct {
			http.ResponseWriter
			flushPart
			hijackPart
			readFromPart
			pushPart
		}{w, f, h, r, p},
	} {
		t.Run(name, func(t *testing.T) {
			hop(t, "callee", http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
				if below, ok := got.(interface{ Unwrap() http.ResponseWriter }); !ok || below.Unwrap() != own {
					t.Error("Unwrap does not lead to the server's own writer")
				}
				asked = nil
				var want []string
				expect := func(letter, word string, err error, offered bool) {
					if should := name != "plain" && strings.Contains(name, letter); should != offered {
						t.Errorf("%s: offered %v, want %v", word, offered, should)
					} else if should {
						want = append(want, word)
						if err != errPart {
							t.Errorf("%s: error %v, want the server's own", word, err)
						}
					}
				}
				var err error
				if x, ok := got.(http.Pusher); ok {
					err = x.Push("/x", nil)
					expect("p", "push", err, true)
				} else {
					expect("p", "push", nil, false)
				}
				if x, ok := got.(http.Hijacker); ok {
					_, _, err = x.Hijack()
					expect("h", "hijack", err, true)
				} else {
					expect("h", "hijack", nil, false)
				}
				if x, ok := got.(io.ReaderFrom); ok {
					_, err = x.ReadFrom(strings.NewReader("x"))
					expect("r", "read_from", err, true)
				} else {
					expect("r", "read_from", nil, false)
				}
				if _, ok := got.(http.Flusher); ok {
					expect("f", "flush", got.(interface{ FlushError() error }).FlushError(), true)
				} else {
					expect("f", "flush", nil, false)
				}
				if !slices.Equal(asked, want) {
					t.Errorf("the server's writer was asked for %v, want %v", asked, want)
				}
			})).ServeHTTP(own, httptest.NewRequest(http.MethodGet, "/", nil))
		})
	}
}

func TestRegression_A108_each_protocol_keeps_its_own_abilities(t *testing.T) {
	offers := func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) (hijack, push, readFrom, text, deadline bool) {
		s := serve(t, hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, hijack = w.(http.Hijacker)
			_, push = w.(http.Pusher)
			_, readFrom = w.(io.ReaderFrom)
			_, text = w.(io.StringWriter)
			deadline = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(enough)) == nil
			if _, _, err := http.NewResponseController(w).Hijack(); !hijack && !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("hijack where there is none: %v", err)
			}
		})))
		resp, err := s.Client().Get(s.URL)
		if err == nil {
			resp.Body.Close()
		}
		return
	}
	hijack, push, readFrom, text, deadline := offers(t, serveHTTP2)
	if hijack || !push || readFrom || !text || !deadline {
		t.Errorf("HTTP/2: hijack %v push %v read_from %v string %v deadline %v", hijack, push, readFrom, text, deadline)
	}
	hijacked := make(chan struct{})
	s := serve(t, hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(hijacked)
		_, push = w.(http.Pusher)
		_, readFrom = w.(io.ReaderFrom)
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nraw")
		rw.Flush()
	})))
	got := lend(t, s.Client(), http.MethodGet, s.URL, 2)
	<-hijacked
	if push || !readFrom || got.body != "raw" || got.hasReturn {
		t.Errorf("HTTP/1: push %v read_from %v, answer %+v", push, readFrom, got)
	}
}

func TestRegression_A108_a_file_reaches_the_server_as_a_file(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(path, bytes.Repeat([]byte("0123456789abcdef"), 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	var source io.Reader
	seen := sourceSeen{ResponseWriter: httptest.NewRecorder(), source: &source}
	h := hop(t, "files", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }))
	h.ServeHTTP(seen, httptest.NewRequest(http.MethodGet, "/", nil))
	limited, ok := source.(*io.LimitedReader)
	if !ok {
		t.Fatalf("the server's ReadFrom got a %T; sendfile needs the file itself", source)
	}
	if _, ok := limited.R.(*os.File); !ok {
		t.Errorf("the server's ReadFrom got a %T; sendfile needs the file itself", limited.R)
	}

	s := serve(t, h)
	if got := lend(t, s.Client(), http.MethodGet, s.URL, 2); len(got.body) != 1<<20 || !got.hasReturn {
		t.Errorf("%d bytes, return %v", len(got.body), got.hasReturn)
	}
}

type sourceSeen struct {
	http.ResponseWriter
	source *io.Reader
}

func (w sourceSeen) ReadFrom(src io.Reader) (int64, error) {
	*w.source = src
	return io.Copy(w.ResponseWriter, src)
}

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
