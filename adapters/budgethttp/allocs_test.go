//go:build !race

package budgethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// production returns an SDK as a service has it: chainbudgettest's records every decision, which allocates.
func production(t *testing.T, catalog string) *chainbudget.SDK {
	t.Helper()
	t.Setenv("CHAINBUDGET_MODE", "")
	file := filepath.Join(t.TempDir(), "catalog.yaml")
	if err := os.WriteFile(file, []byte(catalog), 0o600); err != nil {
		t.Fatal(err)
	}
	sdk, err := chainbudget.New("caller", chainbudget.WithCatalogFile(file), chainbudget.WithStrict())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sdk.Close() })
	return sdk
}

// lean has everything that a profile can have but the attempt timeout; timed has that too.
const lean = `
version: 1
chain: {budget: 99, max_budget: 99}
profiles:
  lean: {extends: read-heavy, retry: {attempt_timeout: 0s}, backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}}
  timed: {extends: lean, retry: {attempt_timeout: 10s}}
`

func dependency(t *testing.T, sdk *chainbudget.SDK, profile profiles.Name) *chainbudget.Dependency {
	t.Helper()
	dep, err := sdk.Dependency("callee-"+string(profile), profile)
	if err != nil {
		t.Fatal(err)
	}
	return dep
}

// within runs f in the context of an inbound request of an entry, where first attempts carry a lease.
func within(sdk *chainbudget.SDK, f func(context.Context)) {
	budgethttp.NewHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { f(r.Context()) }), sdk, budgethttp.Entry()).
		ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
}

func TestAllocsOfAFirstAttempt(t *testing.T) {
	sdk := production(t, lean)
	// The stub sends every token home, so that each attempt carries a lease.
	leases := 0
	stub := roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		line := req.Header["Chainbudget"][0]
		grant, _, _ := strings.Cut(line[len("v1."):], ".")
		if grant != "0" {
			leases++
		}
		nonce := line[len("v1.")+len(grant)+len(".99.1."):][:8]
		return &http.Response{
			StatusCode: 200, Body: http.NoBody,
			Header: http.Header{"Chainbudget-Return": {"v1." + grant + ".0.n." + nonce + ".-"}},
		}, nil
	})
	for profile, limit := range map[profiles.Name]float64{"lean": 5, "timed": 10} {
		within(sdk, func(ctx context.Context) {
			transport := budgethttp.NewTransport(stub, dependency(t, sdk, profile))
			req := request(t, ctx, http.MethodGet, "http://callee/orders", nil)
			req.Header.Set("Accept", "application/json")
			prepared := req.Clone(ctx)
			prepared.Header["Chainbudget"] = []string{"v1.98.99.1.0badcafe.caller"}
			bare := testing.AllocsPerRun(100, func() { stub.RoundTrip(prepared) })
			leases = 0
			n := testing.AllocsPerRun(100, func() {
				if resp, err := transport.RoundTrip(req); err != nil || resp.StatusCode != 200 {
					t.Fatal(resp, err)
				}
			}) - bare
			if leases != 101 {
				t.Errorf("%s: %d of 101 attempts carried a lease", profile, leases)
			}
			if n > limit {
				t.Errorf("%s: %v allocations over bare, want at most %v", profile, n, limit)
			}
			t.Logf("%s: %v allocations over bare, target %v", profile, n, limit)
		})
	}
}

func TestAllocsOfDo(t *testing.T) {
	sdk := production(t, lean)
	within(sdk, func(ctx context.Context) {
		dep := dependency(t, sdk, "lean")
		fn := func(context.Context) error { return nil }
		idempotent := chainbudget.Idempotent()
		if n := testing.AllocsPerRun(100, func() { chainbudget.Do(ctx, dep, fn, idempotent) }); n > 1 {
			t.Errorf("%v allocations, want at most 1", n)
		}
	})
}

func TestAllocsOfARefusal(t *testing.T) {
	failure := errors.New("down")
	t.Run("breaker_open", func(t *testing.T) {
		sdk := production(t, "version: 1\nprofiles: {brittle: {extends: read-heavy, breaker: {min_requests: 1, open_for: 1m}, retry: {attempt_timeout: 0s}}}\n")
		dep := dependency(t, sdk, "brittle")
		fail := func(context.Context) error { return failure }
		within(sdk, func(ctx context.Context) {
			for range 20 {
				chainbudget.Do(ctx, dep, fail)
			}
			var err error
			n := testing.AllocsPerRun(100, func() { err = chainbudget.Do(ctx, dep, fail) })
			var denied *chainbudget.DeniedError
			if !errors.As(err, &denied) || denied.Reason != ownership.ReasonBreakerOpen || denied.Attempts != 0 {
				t.Fatalf("error %v, want a refusal by the breaker before the first attempt", err)
			}
			if n > 0 {
				t.Errorf("%v allocations, want none", n)
			}
			transport := budgethttp.NewTransport(answering(200), dep)
			req := request(t, ctx, http.MethodGet, "http://callee/", nil)
			if n := testing.AllocsPerRun(100, func() { _, err = transport.RoundTrip(req) }); n > 0 || !errors.As(err, &denied) {
				t.Errorf("transport: %v allocations, want none; error %v", n, err)
			}
		})
	})
	t.Run("budget_empty", func(t *testing.T) {
		sdk := production(t, "version: 1\nchain: {budget: 0}\nprofiles: {calm: {extends: read-heavy, breaker: disabled, availability_floor: 0%, retry: {attempt_timeout: 0s}}}\n")
		dep := dependency(t, sdk, "calm")
		retryable := chainbudget.Retryable(failure)
		within(sdk, func(ctx context.Context) {
			good, bad := func(context.Context) error { return nil }, func(context.Context) error { return retryable }
			idempotent := chainbudget.Idempotent()
			var err error
			success := testing.AllocsPerRun(100, func() { chainbudget.Do(ctx, dep, good, idempotent) })
			refused := testing.AllocsPerRun(100, func() { err = chainbudget.Do(ctx, dep, bad, idempotent) })
			var denied *chainbudget.DeniedError
			if !errors.As(err, &denied) || denied.Reason != ownership.ReasonChainExhausted || !errors.Is(err, failure) {
				t.Fatalf("error %v, want chain_exhausted around the failure", err)
			}
			if refused-success > 1 {
				t.Errorf("%v allocations over a success, want 1 for the error that wraps the last one", refused-success)
			}
		})
	})
}

func TestAllocsOfTheDecision(t *testing.T) {
	sdk := production(t, lean)
	dep := (*engine.Dependency)(dependency(t, sdk, "lean"))
	for name, tt := range map[string]struct {
		result engine.Result
		reason ownership.Reason
	}{
		"allowed":       {engine.Result{Failed: true, Retryable: true}, ownership.ReasonAllowed},
		"not_retryable": {engine.Result{Failed: true}, ownership.ReasonNotRetryable},
		"unclaimed":     {engine.Result{Failed: true, Retryable: true, Claim: ownership.ClaimUnclaimed}, ownership.ReasonUnclaimed},
		"pushback":      {engine.Result{Failed: true, Retryable: true, HasHint: true, Hint: time.Hour}, ownership.ReasonPushback},
	} {
		within(sdk, func(ctx context.Context) {
			var c engine.Call
			in, policy := dep.Enter(ctx)
			c.Begin(ctx, in, policy, engine.CallOptions{Idempotent: true, Replayable: true})
			now := time.Now()
			if reason, err := c.Admit(now); reason != ownership.ReasonAllowed {
				t.Fatal(reason, err)
			}
			c.Result = tt.result
			// An allowed decision takes one token of the purse's 99 and one of the bucket's 10.
			if n := testing.AllocsPerRun(8, func() { c.Decide(now) }); n > 0 {
				t.Errorf("%s: %v allocations, want none", name, n)
			}
			if d := c.Decision(); d.Reason != tt.reason {
				t.Errorf("%s: the decision was %v", name, d.Reason)
			}
			c.Done(now)
		})
	}
}

// served runs h on such requests and returns what it allocates over the handler that it wraps, and its shortest time. A
// time above the limit is measured again, a few times: a busy machine is no fault of the handler.
func served(t *testing.T, h, bare http.Handler, limit time.Duration, make func(n int) *http.Request) (allocations float64, fastest time.Duration) {
	t.Helper()
	for range 8 {
		if allocations, fastest = servedOnce(h, bare, make); fastest <= limit {
			break
		}
	}
	return allocations, fastest
}

func servedOnce(h, bare http.Handler, make func(n int) *http.Request) (allocations float64, fastest time.Duration) {
	const runs = 60
	requests, baseline := build(runs+1, make), build(runs+1, make)
	w := &discard{header: http.Header{}}
	run := func(h http.Handler, from []*http.Request) float64 {
		i := 0
		return testing.AllocsPerRun(runs, func() {
			clear(w.header)
			start := time.Now()
			h.ServeHTTP(w, from[i])
			if d := time.Since(start); fastest == 0 || d < fastest {
				fastest = d
			}
			i++
		})
	}
	without := run(bare, baseline)
	fastest = 0
	with := run(h, requests)
	return with - without, fastest
}

func build(n int, make func(int) *http.Request) (all []*http.Request) {
	for i := range n {
		all = append(all, make(i))
	}
	return all
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func TestAllocsOfTheHandler(t *testing.T) {
	sdk := production(t, lean)
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200) })
	for name, tt := range map[string]struct {
		options []budgethttp.HandlerOption
		make    func(int) *http.Request
		limit   float64
	}{
		"callee": {nil, func(int) *http.Request {
			req := httptest.NewRequest(http.MethodGet, "/orders", nil)
			lendTo(req, 2)
			return req
		}, 4},
		"callee_with_foreign_baggage_and_timeout": {nil, func(int) *http.Request {
			req := httptest.NewRequest(http.MethodGet, "/orders", nil)
			lendTo(req, 2)
			req.Header.Set("Baggage", req.Header.Get("Baggage")+",tenant=a,region=eu")
			req.Header.Set("Chainbudget", req.Header.Get("Chainbudget")+";timeout=1000")
			return req
		}, 10},
		"entry": {[]budgethttp.HandlerOption{budgethttp.Entry()}, func(int) *http.Request {
			return httptest.NewRequest(http.MethodGet, "/orders", nil)
		}, 3},
	} {
		n, _ := served(t, budgethttp.NewHandler(bare, sdk, tt.options...), bare, time.Second, tt.make)
		if n > tt.limit {
			t.Errorf("%s: %v allocations, want at most %v", name, n, tt.limit)
		}
		t.Logf("%s: %v allocations, limit %v", name, n, tt.limit)
	}
}

func TestAllocsOfHostileBaggage(t *testing.T) {
	sdk := production(t, lean)
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200) })
	h := budgethttp.NewHandler(bare, sdk)
	for kind := range 128 {
		of := func(size int) func(int) *http.Request {
			return func(i int) *http.Request {
				req := httptest.NewRequest(http.MethodGet, "/", nil)
				text := hostile(kind)
				req.Header["Baggage"] = []string{strings.Repeat(text, size/len(text)+1)[:size]}
				req.Header["Chainbudget"] = []string{text[:min(len(text), size)]}
				return req
			}
		}
		const small, big = 8 << 10, 8 << 20
		allocations, fastest := served(t, h, bare, 50*time.Microsecond, of(small))
		if allocations > 20 || fastest > 50*time.Microsecond {
			t.Errorf("kind %d, 8 KiB: %v allocations, %v; want at most 20 and 50µs", kind, allocations, fastest)
		}
		if kind%16 != 0 {
			continue // 8 MiB of each take their time to make
		}
		shared := of(big)(0).Header["Baggage"]
		more, slower := served(t, h, bare, 100*time.Microsecond, func(int) *http.Request {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.Header["Baggage"] = slices.Clone(shared)
			return req
		})
		if more > 40 || slower > 100*time.Microsecond {
			t.Errorf("kind %d, 8 MiB: %v allocations, %v; want at most twice the 20 and 50µs of 8 KiB", kind, more, slower)
		}
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("k%d=%s", i, strings.Repeat("v", 8<<10-8))
	}
	allocations, fastest := served(t, h, bare, 100*time.Microsecond, func(int) *http.Request {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header["Baggage"] = slices.Clone(many)
		return req
	})
	if allocations > 40 || fastest > 100*time.Microsecond {
		t.Errorf("1,000 lines of 8 KiB: %v allocations, %v; want at most 40 and 100µs", allocations, fastest)
	}
}
