package live_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/examples/live"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// catalog pins what callers of the cart must use. Its profile "tiny" has a bucket that is empty soon.
const catalog = `version: 1
chain: {budget: 4}
profiles:
  quick: {extends: read-heavy, backoff: {base: 2ms, throttled_base: 2ms, cap: 20ms}, retry: {max_attempts: 3}, availability_floor: 0%, budget: {ratio: 60%, burst: 50}}
  unbroken: {extends: quick, breaker: disabled, budget: {kind: ratio, ratio: 100%}}
  tiny: {extends: quick, budget: {burst: 3}, breaker: {min_requests: 10, open_for: 2s}}
dependencies:
  cart: {profile: unbroken, owner: team-shop}
  payments: {profile: unbroken, owner: team-ledger, on_failure: closed}
  stock: {profile: quick, owner: team-shop}
  search: {profile: tiny, owner: team-find, on_failure: open}
services:
  cart-api: {serves: [cart]}
`

// edited is the same catalog as a caller has it who has changed a number.
var edited = strings.Replace(catalog, "max_attempts: 3", "max_attempts: 4", 1)

const password = "let me in"

// storm is a shop in trouble: checkout calls the cart, and the cart calls payments, which often fails, search, which is
// down, and stock, which is fine. The page is the cart's.
type storm struct {
	cart     *chainbudget.SDK
	admin    string                   // URL of the cart's admin port
	received map[string]*atomic.Int64 // requests that arrived at the servers, by dependency of the cart

	send  func()
	stop  chan struct{}
	once  sync.Once
	users sync.WaitGroup
}

func service(t *testing.T, name, catalog string) *chainbudget.SDK {
	t.Helper()
	sdk, err := chainbudget.New(name, chainbudget.WithCatalogFS(fstest.MapFS{"catalog.yaml": {Data: []byte(catalog)}}, "catalog.yaml"), chainbudget.WithStrict())
	must(t, err)
	t.Cleanup(func() { must(t, sdk.Close()) })
	return sdk
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func client(t *testing.T, sdk *chainbudget.SDK, name string) *http.Client {
	t.Helper()
	dep, err := sdk.Dependency(name, "")
	must(t, err)
	base := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: budgethttp.NewTransport(base, dep)}
}

// call sends a request and reports how it failed.
func call(r *http.Request, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 500 {
		return fmt.Errorf("%s answered %d: %w", url, resp.StatusCode, budgethttp.Denied(resp))
	}
	return nil
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	s := &storm{cart: service(t, "cart-api", catalog), received: map[string]*atomic.Int64{}, stop: make(chan struct{})}
	urls := map[string]string{}
	for name, fails := range map[string]int{"payments": 55, "search": 100, "stock": 0} { // of 100
		n := new(atomic.Int64)
		s.received[name] = n
		answer := func(w http.ResponseWriter, _ *http.Request) {
			n.Add(1)
			if rand.IntN(100) < fails {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		urls[name] = serve(t, budgethttp.NewHandler(http.HandlerFunc(answer), service(t, name, catalog)))
	}
	clients := map[string]*http.Client{}
	for name := range urls {
		clients[name] = client(t, s.cart, name)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cart/{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = call(r, clients["search"], urls["search"]) // suggestions are optional
		err := call(r, clients["stock"], urls["stock"])
		if err == nil {
			err = call(r, clients["payments"], urls["payments"])
		}
		if err != nil {
			ownership.Blame(r.Context(), err)
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	cart := serve(t, budgethttp.NewHandler(mux, s.cart))

	checkout := service(t, "checkout", edited)
	carts := client(t, checkout, "cart")
	shop := serve(t, budgethttp.NewHandler(budgethttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		return call(r, carts, cart+"/cart/17")
	}), checkout, budgethttp.Entry()))

	s.admin = serve(t, live.Admin(s.cart, password))
	users := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(users.CloseIdleConnections)
	s.send = func() {
		resp, err := (&http.Client{Transport: users}).Get(shop)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return s
}

// begin sends requests until end, which returns when the last one was answered.
func (s *storm) begin() {
	for range 4 {
		s.users.Go(func() {
			ticker := time.NewTicker(50 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-s.stop:
					return
				case <-ticker.C:
					s.send()
				}
			}
		})
	}
}

func (s *storm) end() {
	s.once.Do(func() { close(s.stop) })
	s.users.Wait()
}
