//go:build !race

package tables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
)

const (
	allChains = 200_000 // of each row
	shards    = 4       // each with fresh SDKs and a seed of its own

	sixPlaces = 0.6e-6 // what rounding to six places may take away, and a little for the sum's own
)

// TestT5 draws how many chains succeed when each attempt on each edge fails on its own with p. The columns of the paper
// are counted with a policy for comparison; the SDK has a bound of its own below the pooled one, which is the ceiling.
func TestT5_chains_that_succeed_NoRace(t *testing.T) {
	chains := sampled(allChains)
	tab := newTable(t, "T5", "share of chains that succeed", fmt.Sprintf("%d chains a row, seeds 100 + 10 × row, and 500 + 10 × row for the SDK", chains))
	defer tab.print()

	rows := []struct {
		d     int
		p     float64
		paper [4]string // pooled, b = 0 to 3
		once  string
	}{
		{3, .01, [4]string{".970299", ".999408", ".999990", "1.000000"}, ".999700"},
		{5, .01, [4]string{".950990", ".998540", ".999966", ".999999"}, ".999500"},
		{5, .05, [4]string{".773781", ".967226", ".996243", ".999628"}, ".987562"},
		{10, .05, [4]string{".598737", ".898105", ".980432", ".996897"}, ".975279"},
		{10, .1, [4]string{".348678", ".697357", ".889130", ".965839"}, ".904382"},
	}
	for i, row := range rows {
		for b, paper := range row.paper {
			expected := pooled(row.d, b, row.p)
			measured, _ := draw(uint64(100+10*i+b), chains, row.d, b, row.p, onePool)
			tab.drawn(fmt.Sprintf("d=%d p=%.2f pooled b=%d", row.d, row.p, b), paper, sixPlaces, expected, measured, chains)
		}
		expected := retriedOnce(row.d, row.p)
		measured, _ := draw(uint64(100+10*i+9), chains, row.d, 1, row.p, copyToEach)
		tab.drawn(fmt.Sprintf("d=%d p=%.2f one retry a hop", row.d, row.p), row.once, sixPlaces, expected, measured, chains)
	}
	for i, row := range []struct {
		d     int
		p     float64
		b     int
		bound float64
	}{{5, .05, 2, .983}, {5, .05, 3, .997}, {10, .05, 3, .985}, {10, .1, 3, .91}} {
		what := fmt.Sprintf("d=%d p=%.2f SDK b=%d", row.d, row.p, row.b)
		run := chainRun{d: row.d, fail: row.p, rules: rules{budget: row.b, maxAttempts: row.b + 1}}
		measured := run.share(t, what, uint64(500+10*i))
		ceiling := pooled(row.d, row.b, row.p)
		tab.atLeast(what, "≤ "+share(ceiling), row.bound, measured)
		tolerance := chance(ceiling, chains)
		tab.add(what+", ceiling", share(ceiling), "≤ "+share(ceiling), share(measured), "+"+share(tolerance), measured <= ceiling+tolerance)
	}
}

// TestT5 with hops that hang: a lease in a hop that never answers is gone, so that the entry must keep one.
func TestT5_chains_with_hops_that_hang_NoRace(t *testing.T) {
	tab := newTable(t, "T5", "share of chains that succeed, own failures 3 %, hangs 2 % a hop, d=6", fmt.Sprintf("%d chains, seeds 900 to 903", sampled(allChains)))
	defer tab.print()
	run := chainRun{d: 6, fail: .03, hang: .02, rules: rules{budget: 3, maxAttempts: 4}}
	tab.atLeast("d=6 hangs, SDK b=3", "≥ .96 (.88 when all is lent)", .96, run.share(t, "hang", 900))
}

// draw returns the share of n fan-outs, or chains, of k attempts that succeed under a policy with b retries, and the most
// retries that any of them made.
func draw(seed uint64, n, k, b int, p float64, policy sharePolicy) (succeed float64, most int) {
	random := rand.New(rand.NewPCG(seed, 6))
	good := 0
	for range n {
		ok, retries := policy(k, b, func(int) bool { return random.Float64() >= p })
		if ok {
			good++
		}
		most = max(most, retries)
	}
	return float64(good) / float64(n), most
}

// chainRun is a chain of d edges whose every hop below the entry fails, or hangs, on arrival with some probability.
type chainRun struct {
	rules      rules
	d          int
	fail, hang float64
}

// share returns the share of chains that succeed.
func (c chainRun) share(t *testing.T, name string, seed uint64) float64 {
	t.Helper()
	chains := sampled(allChains)
	var mu sync.Mutex
	total := 0
	t.Run(name, func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprintf("shard_%d", shard), func(t *testing.T) {
				t.Parallel()
				var good int
				run := func(t *testing.T) { good = c.good(t, chains/shards, seed+uint64(shard)) }
				if c.hang > 0 {
					synctest.Test(t, run) // hangs take time
				} else {
					run(t)
				}
				mu.Lock()
				defer mu.Unlock()
				total += good
			})
		}
	})
	return float64(total) / float64(chains)
}

// good runs n chains and returns how many succeed.
func (c chainRun) good(t *testing.T, n int, seed uint64) int {
	random := rand.New(rand.NewPCG(seed, 5)) // one goroutine runs everything
	arrive := func(ctx context.Context) error {
		switch f := random.Float64(); {
		case f < c.fail:
			return errOwn
		case f < c.fail+c.hang:
			<-ctx.Done()
			return errOwn // which nobody hears
		}
		return nil
	}
	var below http.Handler
	for hop := c.d; hop >= 0; hop-- {
		// Whoever calls a hop that hangs must be the only one to give up: its callers are each five times as patient,
		// which is more than all attempts below can take.
		r := c.rules
		if c.hang > 0 {
			r.attemptTimeout = 100 * time.Millisecond * time.Duration(power(5, c.d-hop))
		}
		s := r.service(t, fmt.Sprintf("hop%d", hop), c.hang > 0, seed)
		handle := arrive
		if below != nil {
			forward := forwarder(s.transport(fmt.Sprintf("hop%d", hop+1), pipe{below}), fmt.Sprintf("hop%d", hop+1))
			handle = func(ctx context.Context) error {
				if hop > 0 {
					if err := arrive(ctx); err != nil {
						return err
					}
				}
				return forward(ctx)
			}
		}
		var options []budgethttp.HandlerOption
		if hop == 0 {
			options = append(options, budgethttp.Entry())
		}
		below = budgethttp.NewHandler(wrapped(func(r *http.Request) error { return handle(r.Context()) }), s.sdk, options...)
	}
	ask := forwarder(pipe{below}, "hop0")
	good := 0
	for range n {
		if ask(t.Context()) == nil {
			good++
		}
	}
	return good
}

// forwarder returns a function that sends a GET to a host through a transport.
func forwarder(transport http.RoundTripper, host string) func(context.Context) error {
	template := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: host, Path: "/"}, Host: host, Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return func(ctx context.Context) error { return outcome(transport.RoundTrip(template.WithContext(ctx))) }
}
