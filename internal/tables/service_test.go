package tables

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// rules are the settings of a run: those of the table, while every other gate is off.
type rules struct {
	budget, orphanBudget int
	maxAttempts          int
	attemptTimeout       time.Duration // 0 = none
	base                 time.Duration // of the backoff, and its cap; 0 = 1 ms
	deadlines            string        // "" = ignore: no table but those that say so is about deadlines
	mode                 string        // "" = enforce
}

// catalog returns a catalog file with the profile "table".
func (r rules) catalog() string {
	base := max(r.base, time.Millisecond)
	deadlines, mode := "ignore", "enforce"
	if r.deadlines != "" {
		deadlines = r.deadlines
	}
	if r.mode != "" {
		mode = r.mode
	}
	return fmt.Sprintf(`
version: 1
chain: {budget: %d, max_budget: 99, orphan_budget: %d, deadlines: %s, mode: %s}
profiles:
  table:
    extends: read-heavy
    retry: {max_attempts: %d, attempt_timeout: %v}
    backoff: {base: %v, throttled_base: %v, cap: %v}
    budget: disabled
    breaker: disabled
    availability_floor: 0%%
`, r.budget, r.orphanBudget, deadlines, mode, r.maxAttempts, r.attemptTimeout, base, base, base)
}

// A service is one fresh SDK. sleeps says whether its backoffs take time.
type service struct {
	name string
	sdk  *chainbudget.SDK
	t    testing.TB
}

func (r rules) service(t testing.TB, name string, sleeps bool, seed uint64) *service {
	t.Helper()
	catalog, err := profiles.Load([]byte(r.catalog()), "catalog of "+name)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	of := fnv.New64a()
	of.Write([]byte(name)) // services with one seed must not draw the same
	random, nonces := rand.New(rand.NewPCG(seed, of.Sum64())), rand.New(rand.NewPCG(seed, ^of.Sum64()))
	sdk := new(engine.SDK)
	sdk.Init(engine.Config{
		Service: name, Catalog: catalog, NoSleep: !sleeps, Strict: true,
		Random: func(n int64) int64 {
			mu.Lock()
			defer mu.Unlock()
			return random.Int64N(n)
		},
		Nonce: func() uint32 {
			mu.Lock()
			defer mu.Unlock()
			return nonces.Uint32()
		},
	})
	return &service{name: name, sdk: (*chainbudget.SDK)(sdk), t: t}
}

// transport returns the service's transport for a dependency. A nil base is net/http's own.
func (s *service) transport(dependency string, base http.RoundTripper) http.RoundTripper {
	s.t.Helper()
	dep, err := s.sdk.Dependency(dependency, "table")
	if err != nil {
		s.t.Fatal(err)
	}
	return budgethttp.NewTransport(base, dep)
}

// call sends a GET and returns an error that wraps the failure of the call: what a handler that returns errors sends up.
func call(ctx context.Context, client http.RoundTripper, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return outcome(client.RoundTrip(req))
}

// outcome reads a response to its end and returns nil or the error that its failure is.
func outcome(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode < 500 {
		return nil
	}
	if denied := budgethttp.Denied(resp); denied != nil {
		return denied
	}
	return fmt.Errorf("status %d", resp.StatusCode)
}

// swallowed is a handler that answers 502 when f fails, and tells nobody why.
func swallowed(f func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f(r) != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
}

// wrapped is a handler that answers a failure of f with the error itself.
func wrapped(f func(*http.Request) error) http.Handler {
	return budgethttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error { return f(r) })
}

// A loopback is a chain of real servers on the loopback interface, made from its leaf upwards.
type loopback struct {
	t    *testing.T
	base *http.Transport // of all clients: connections are used again
	url  string          // of the server that was made last
}

func newLoopback(t *testing.T) *loopback {
	base := &http.Transport{MaxIdleConnsPerHost: 4}
	t.Cleanup(base.CloseIdleConnections)
	return &loopback{t: t, base: base}
}

func (l *loopback) serve(h http.Handler) {
	s := httptest.NewServer(h)
	l.t.Cleanup(s.Close)
	l.url = s.URL
}

// ask sends one request to the server that was made last, from outside.
func (l *loopback) ask() {
	l.t.Helper()
	resp, err := (&http.Client{Transport: l.base}).Get(l.url)
	if err != nil {
		l.t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode < 500 || !strings.HasPrefix(resp.Proto, "HTTP/1") {
		l.t.Errorf("the chain answered %s over %s, want a failure over HTTP/1", resp.Status, resp.Proto)
	}
}

// errOwn is the failure of a hop that is its own.
var errOwn error = ownFailure{}

type ownFailure struct{}

func (ownFailure) Error() string { return "failed on arrival" }

// HTTPStatus is what the handler answers: a failure that may go away.
func (ownFailure) HTTPStatus() int { return http.StatusServiceUnavailable }
