package budgethttp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// enough ends a test that hangs; no test comes near it.
const enough = 20 * time.Second

// roomy is the profile of [catalog].
const roomy profiles.Name = "roomy"

// catalog is one in which a chain begins with that many tokens. Its profile roomy has the statuses of read-heavy, ten
// attempts, no attempt timeout, and no breaker, floor or bucket that a test with few calls could meet by accident. The
// settings are lines of YAML that change that profile: `retry: {max_attempts: 2}`.
func catalog(budget int, settings ...string) chainbudgettest.Option {
	text := fmt.Sprintf(`version: 1
chain: {budget: %d, max_budget: 99}
profiles:
  base:
    extends: read-heavy
    retry: {max_attempts: 10, attempt_timeout: 0s}
    budget: {ratio: 100%%, burst: 100000}
    breaker: {min_requests: 1000000}
    availability_floor: 0%%
  roomy:
    extends: base
`, budget)
	for _, s := range settings {
		text += "    " + s + "\n"
	}
	return chainbudgettest.Catalog(text)
}

// keepsTokens is a setting for a caller whose callee, a base made of a function, sends no return: nothing is lent to it.
const keepsTokens = "retry: {reserve: 99}"

// caller is the service under test: it calls one dependency named callee.
type caller struct {
	*chainbudgettest.Recorder
	dep *chainbudget.Dependency
}

// newCaller returns a caller whose dependency has that profile.
func newCaller(t testing.TB, profile profiles.Name, options ...chainbudgettest.Option) *caller {
	t.Helper()
	rec := chainbudgettest.New(t, append([]chainbudgettest.Option{chainbudgettest.Service("caller")}, options...)...)
	return &caller{Recorder: rec, dep: rec.Dependency("callee", profile)}
}

// transport returns the transport under test over base; nil is a connection pool of its own.
func (c *caller) transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	if base == nil {
		base = newPool(t)
	}
	return budgethttp.NewTransport(base, c.dep)
}

// client returns a client over [caller.transport] that follows no redirect by surprise and has no timeout.
func (c *caller) client(t testing.TB, base http.RoundTripper) *http.Client {
	t.Helper()
	return &http.Client{Transport: c.transport(t, base)}
}

// chain returns the context of a chain that begins here with the catalog's budget. It ends with the test.
func (c *caller) chain(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	ctx, end := chainbudget.Start(ctx, c.SDK)
	t.Cleanup(func() { end(); cancel() })
	return ctx
}

// endlessChain is [caller.chain] without a deadline, for bubbles and for tests of deadlines. end ends it.
func (c *caller) endlessChain(parent context.Context) (ctx context.Context, end func()) {
	return chainbudget.Start(parent, c.SDK)
}

// balance returns the account of the purse that ctx belongs to, and fails the test if it is not conserved (I3).
func balance(t testing.TB, ctx context.Context) engine.Balance {
	t.Helper()
	in := engine.FromContext(ctx)
	if in == nil {
		t.Fatal("the context belongs to no request")
	}
	b := in.Balance()
	if sum := b.Held + b.Lent + b.Spent + b.Lost + b.Returned; sum != b.Granted {
		t.Errorf("I3: held, lent, spent, lost and returned are %d, granted %d: %+v", sum, b.Granted, b)
	}
	return b
}

// newPool returns a connection pool of the test's own; its idle connections are closed when the test ends.
func newPool(t testing.TB) *http.Transport {
	t.Helper()
	pool := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // httptest's certificate is its own
	}
	t.Cleanup(pool.CloseIdleConnections)
	return pool
}

// serve serves h over HTTP/1 on loopback until the test ends.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// serveHTTP2 serves h over HTTP/2 on loopback until the test ends.
func serveHTTP2(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// protocols runs a test over HTTP/1 and over HTTP/2.
func protocols(t *testing.T, test func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server)) {
	t.Helper()
	t.Run("http1", func(t *testing.T) { test(t, serve) })
	t.Run("http2", func(t *testing.T) { test(t, serveHTTP2) })
}

// hop puts the SDK's handler, of a service with an SDK of its own, around next.
func hop(t testing.TB, service string, next http.Handler, options ...budgethttp.HandlerOption) http.Handler {
	t.Helper()
	rec := chainbudgettest.New(t, chainbudgettest.Service(service))
	return budgethttp.NewHandler(next, rec.SDK, options...)
}

// arrival is a request as it came from the wire, before any handler of ours touched it.
type arrival struct {
	method, path, body string
	length             int64
	header             http.Header
}

// nonce is that of the request header, "" without one.
func (a arrival) nonce() string {
	fields := strings.Split(a.header.Get(otelprop.HTTPRequestHeader), ".")
	if len(fields) < 5 {
		return ""
	}
	return fields[4]
}

// grant is the number of tokens that the request carries, "" without a header.
func (a arrival) grant() string {
	fields := strings.Split(a.header.Get(otelprop.HTTPRequestHeader), ".")
	if len(fields) < 5 {
		return ""
	}
	return fields[1]
}

// parameter is that of the request header, "" without one.
func (a arrival) parameter(name string) string {
	for _, p := range strings.Split(a.header.Get(otelprop.HTTPRequestHeader), ";")[1:] {
		if k, v, _ := strings.Cut(p, "="); k == name {
			return v
		}
	}
	return ""
}

// tap records what arrives. It may be used by many goroutines at once.
type tap struct {
	mu       sync.Mutex
	arrivals []arrival
}

// watch records each request, with its whole body, and hands it on to next.
func (p *tap) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.add(arrival{
			method: r.Method, path: r.URL.Path, body: string(body), length: r.ContentLength, header: r.Header.Clone(),
		})
		next.ServeHTTP(w, r)
	})
}

func (p *tap) add(a arrival) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals = append(p.arrivals, a)
}

// all returns what has arrived so far.
func (p *tap) all() []arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]arrival(nil), p.arrivals...)
}

// script answers the nth request with the nth answer, and those after the last answer with the last.
func script(answers ...http.HandlerFunc) http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := min(int(n.Add(1)), len(answers))
		answers[i-1](w, r)
	})
}

// answer is one with that status and body; header is a list of names and values.
func answer(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// callee serves the answers as a service that runs the SDK, and records what arrives.
func callee(t testing.TB, serve func(testing.TB, http.Handler) *httptest.Server, answers ...http.HandlerFunc) (*httptest.Server, *tap) {
	t.Helper()
	p := new(tap)
	return serve(t, p.watch(hop(t, "callee", script(answers...)))), p
}

// roundTripperFunc is a base made of a function.
type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// response makes one for a base that is a function; header is a list of names and values.
func response(req *http.Request, status int, body io.ReadCloser, header ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: body, ContentLength: -1, Request: req,
	}
}

// text is a body that counts how often it is read and closed.
type text struct {
	io.Reader
	closes, reads atomic.Int64
	closed        chan struct{}
}

func newText(s string) *text { return &text{Reader: strings.NewReader(s), closed: make(chan struct{})} }

// Read implements [io.Reader].
func (b *text) Read(p []byte) (int, error) {
	b.reads.Add(1)
	return b.Reader.Read(p)
}

// Close implements [io.Closer].
func (b *text) Close() error {
	if b.closes.Add(1) == 1 {
		close(b.closed)
	}
	return nil
}

// awaitClose waits until the body has been closed: net/http may do that after it has returned the response.
func (b *text) awaitClose(t testing.TB) {
	t.Helper()
	select {
	case <-b.closed:
	case <-time.After(2 * time.Second):
		t.Error("the body was not closed within two seconds")
	}
}

// request makes one with ctx; it fails the test on a bad URL.
func request(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// send sends the request and returns the status and the whole body; an error fails the test.
func send(t testing.TB, c *http.Client, req *http.Request) (int, string) {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	return read(t, resp)
}

// read reads a response to its end and closes it.
func read(t testing.TB, resp *http.Response) (int, string) {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the response after %d bytes: %v", len(body), err)
	}
	return resp.StatusCode, string(body)
}

// entry is [hop] for the service of c, where chains begin.
func entry(t testing.TB, c *caller, next http.Handler) http.Handler {
	t.Helper()
	return budgethttp.NewHandler(next, c.SDK, budgethttp.Entry())
}
