package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/examples/page"
)

const kib, mib = 1 << 10, 1 << 20

// An httpSide is one column of a page's table: how services make their clients and handlers.
type httpSide struct {
	client  func(base http.RoundTripper) *http.Client
	handler func(next http.Handler, entry bool) http.Handler
}

// sides returns both columns. Each use of the second has an SDK of its own, as each service has one.
func sides(t *testing.T, catalog string, before func(http.RoundTripper) *http.Client,
	after func(http.RoundTripper, *chainbudget.SDK) (*http.Client, error)) [2]func() httpSide {
	return [2]func() httpSide{
		func() httpSide {
			return httpSide{before, func(next http.Handler, _ bool) http.Handler { return next }}
		},
		func() httpSide {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(catalog), chainbudgettest.Sleep())
			return httpSide{
				client: func(base http.RoundTripper) *http.Client {
					client, err := after(base, rec.SDK)
					if err != nil {
						t.Fatal(err)
					}
					return client
				},
				handler: func(next http.Handler, entry bool) http.Handler {
					if entry {
						return budgethttp.NewHandler(next, rec.SDK, budgethttp.Entry())
					}
					return budgethttp.NewHandler(next, rec.SDK)
				},
			}
		},
	}
}

// measureHTTP fills the rows of a page: each question is asked of both sides, in virtual time.
func measureHTTP(t *testing.T, both [2]func() httpSide) (rows []page.Row) {
	for _, q := range questions {
		var cells [2]string
		for i, side := range both {
			synctest.Test(t, func(t *testing.T) { cells[i] = q.ask(t, side) })
		}
		rows = append(rows, page.Row{What: q.what, Before: cells[0], After: cells[1]})
	}
	return rows
}

func TestFailsafePage(t *testing.T) {
	p := readPage(t, "failsafe")
	p.Compare(t, measureHTTP(t, sides(t, p.Catalog, clientWithFailsafe, clientAfterFailsafe)))
}

func TestRetryablehttpPage(t *testing.T) {
	p := readPage(t, "retryablehttp")
	p.Compare(t, measureHTTP(t, sides(t, p.Catalog, clientWithRetryablehttp, clientAfterRetryablehttp)))
}

// A callee counts what reaches it and answers with a status. As a handler it is a service; as a RoundTripper it stands where
// the network to one without the SDK would, and can answer with an error.
type callee struct {
	attempts   int
	status     int
	err        error
	retryAfter string
	foreign    bool   // has no SDK
	sent       func() // when an attempt arrives
}

// network returns the way to the callee.
func (c *callee) network(side httpSide) http.RoundTripper {
	if c.foreign || c.err != nil {
		return c
	}
	return inProcess{side.handler(c, false)}
}

// ServeHTTP implements [http.Handler].
func (c *callee) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, _ := c.RoundTrip(r)
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// RoundTrip implements [http.RoundTripper].
func (c *callee) RoundTrip(req *http.Request) (*http.Response, error) {
	c.attempts++
	if c.sent != nil {
		c.sent()
	}
	if req.Body != nil {
		defer req.Body.Close()
		if c.err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	resp := &http.Response{
		StatusCode: c.status, Status: fmt.Sprint(c.status, " ", http.StatusText(c.status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader("the reason")), Request: req,
	}
	if c.retryAfter != "" {
		resp.Header.Set("Retry-After", c.retryAfter)
	}
	return resp, nil
}

// inProcess sends requests to a handler of the same process.
type inProcess struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (h inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	in := req.Clone(req.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, in)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// service is a handler that sends each request on to the next service and answers with its status.
func service(client *http.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := client.Do(request(r.Context(), http.MethodGet, nil))
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
	})
}

func request(ctx context.Context, method string, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, "http://search.internal/items", body)
	if err != nil {
		panic(err) // the method and the address are constants of this file
	}
	return req
}

// once is a body that can be read once only, and counts what was read of it.
type once struct {
	left, read int
}

// Read implements [io.Reader].
func (b *once) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n := min(b.left, len(p))
	b.left -= n
	b.read += n
	return n, nil
}

// send answers a user's request by one call to the callee, and returns what the call gave and how long it took.
func (s httpSide) send(to http.RoundTripper, method string, body io.Reader, prepare func(*http.Request)) (text string, took time.Duration, err error) {
	client := s.client(to)
	handler := s.handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		req := request(r.Context(), method, body)
		if prepare != nil {
			prepare(req)
		}
		begun := time.Now()
		var resp *http.Response
		resp, err = client.Do(req)
		took = time.Since(begun)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		text = fmt.Sprintf("status %d, body %q", resp.StatusCode, data)
	}), true)
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	return text, took, err
}

var refused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// questions are the rows of the pages about HTTP clients.
var questions = []struct {
	what string
	ask  func(t *testing.T, side func() httpSide) string
}{
	{"`GET`, always 503: attempts", func(_ *testing.T, side func() httpSide) string {
		c := &callee{status: 503}
		_, _, _ = side().send(c.network(side()), http.MethodGet, nil, nil)
		return fmt.Sprint(c.attempts)
	}},
	{"the same from a service without the SDK, at first: attempts", func(_ *testing.T, side func() httpSide) string {
		c := &callee{status: 503, foreign: true}
		_, _, _ = side().send(c, http.MethodGet, nil, nil)
		return fmt.Sprint(c.attempts)
	}},
	{"two services, one above the other, and below them 503: attempts there for one request", func(_ *testing.T, side func() httpSide) string {
		c := &callee{status: 503}
		lower, upper := side(), side()
		below := lower.handler(service(lower.client(c.network(side()))), false)
		above := upper.handler(service(upper.client(inProcess{below})), true)
		above.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		return fmt.Sprint(c.attempts)
	}},
	{"200 requests, one after another, always 503: attempts", func(_ *testing.T, side func() httpSide) string {
		c := &callee{status: 503}
		s := side()
		handler := s.handler(service(s.client(c.network(side()))), true)
		for range 200 {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		return fmt.Sprint(c.attempts)
	}},
	{"`POST`, always 503: attempts", func(_ *testing.T, side func() httpSide) string {
		c := &callee{status: 503}
		_, _, _ = side().send(c.network(side()), http.MethodPost, strings.NewReader("order"), nil)
		return fmt.Sprint(c.attempts)
	}},
	{"`POST` with an `Idempotency-Key`, always 503: attempts", func(_ *testing.T, side func() httpSide) string {
		c := &callee{status: 503}
		_, _, _ = side().send(c.network(side()), http.MethodPost, strings.NewReader("order"), func(r *http.Request) { r.Header.Set("Idempotency-Key", `"7"`) })
		return fmt.Sprint(c.attempts)
	}},
	{"`POST`, connection refused: attempts", func(_ *testing.T, side func() httpSide) string {
		c := &callee{err: refused}
		_, _, _ = side().send(c.network(side()), http.MethodPost, strings.NewReader("order"), nil)
		return fmt.Sprint(c.attempts)
	}},
	{"`PUT` of 1 MiB from a reader that cannot go back: read before the first attempt is sent", func(_ *testing.T, side func() httpSide) string {
		c, body, read := &callee{status: 200}, &once{left: mib}, -1
		c.sent = func() {
			if read < 0 {
				read = body.read
			}
		}
		_, _, _ = side().send(c.network(side()), http.MethodPut, io.NopCloser(body), nil)
		return fmt.Sprintf("%d KiB", read/kib)
	}},
	{"the same, always 503: attempts", func(_ *testing.T, side func() httpSide) string {
		c := &callee{status: 503}
		_, _, _ = side().send(c.network(side()), http.MethodPut, io.NopCloser(&once{left: mib}), nil)
		return fmt.Sprint(c.attempts)
	}},
	{"`GET`, always 503: what the caller gets", func(_ *testing.T, side func() httpSide) string {
		c := &callee{status: 503}
		text, _, err := side().send(c.network(side()), http.MethodGet, nil, nil)
		if err != nil {
			return "an error in place of the response"
		}
		return "the response: " + text
	}},
	{"connection refused: `errors.Is(err, syscall.ECONNREFUSED)`", func(_ *testing.T, side func() httpSide) string {
		_, _, err := side().send(&callee{err: refused}, http.MethodGet, nil, nil)
		return fmt.Sprint(errors.Is(err, syscall.ECONNREFUSED))
	}},
	{"503 with `Retry-After: 60`: the caller has its answer after", func(_ *testing.T, side func() httpSide) string {
		c := &callee{status: 503, retryAfter: "60"}
		_, took, _ := side().send(c.network(side()), http.MethodGet, nil, nil)
		return fmt.Sprint(took.Round(time.Second))
	}},
	{"503 with `Retry-After: 3` and 2 s left: the caller has its answer after", func(_ *testing.T, side func() httpSide) string {
		var cancel context.CancelFunc
		c := &callee{status: 503, retryAfter: "3"}
		_, took, _ := side().send(c.network(side()), http.MethodGet, nil, func(r *http.Request) {
			var ctx context.Context
			ctx, cancel = context.WithTimeout(r.Context(), 2*time.Second)
			*r = *r.WithContext(ctx)
		})
		cancel()
		return fmt.Sprint(took.Round(time.Second))
	}},
}
