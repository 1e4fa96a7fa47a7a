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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/otelprop"
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

func TestRegression_A108_events_pass_through_a_reverse_proxy_at_once(t *testing.T) {
	got := make(chan struct{})
	back := serve(t, hop(t, "events", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-got:
		case <-r.Context().Done():
			t.Error("the event never arrived")
		}
	})))
	target, err := url.Parse(back.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 5s}"))
	front := serve(t, budgethttp.NewHandler(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, Transport: c.transport(t, nil),
	}, c.SDK))
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	req := request(t, ctx, http.MethodGet, front.URL, nil)
	nonce := lendTo(req, 2)
	resp, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "data: 1\n" {
		t.Errorf("%q, %v", line, err)
	}
	close(got)
	// The lease went through both hops and home again before the first event.
	if ret, ok, _ := otelprop.ReadReturn(resp.Header[otelprop.HTTPReturnHeader], nonce, 2); !ok || ret.Returned != 2 {
		t.Errorf("return %v %+v, want 2 tokens", ok, ret)
	}
}
