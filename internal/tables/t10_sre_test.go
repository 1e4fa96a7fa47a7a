//go:build !race

package tables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// throttled is a profile of one attempt whose only gate is adaptive throttling.
func throttled(k float64) string {
	return fmt.Sprintf("extends: no-retry, budget: disabled, adaptive_throttle: {k: %v}, ", k) + gatesOff
}

// TestT10 finds the probability with which adaptive throttling refuses: it feeds the gate requests of which some are accepted,
// and then looks from which draw on the next one passes.
func TestT10_adaptive_throttling_NoRace(t *testing.T) {
	tab := newTable(t, "T10", "probability that the SRE book's adaptive throttling refuses", "60,000 requests a row of the last two, seed 10")
	defer tab.print()
	for _, row := range []struct {
		k                 float64
		requests, accepts int
		paper             float64
	}{
		{2, 100, 100, 0}, {2, 100, 50, 0}, {2, 100, 40, .1980}, {2, 100, 25, .4950}, {2, 100, 10, .7921}, {2, 100, 0, .9901}, {2, 1000, 100, .7992},
		{1.1, 100, 90, .0099}, {1.1, 100, 50, .4455}, {1.1, 100, 10, .8812},
	} {
		refuses := func(draw float64) bool {
			drawn := .999999 // while it is fed, everything passes
			c := newClient(t, throttled(row.k), 10, func(c *engine.Config) { c.Random = func(n int64) int64 { return int64(drawn * float64(n)) } })
			if s := c.ask(row.accepts, 0, 1); s.attempts != row.accepts {
				t.Errorf("%d of %d passed", s.attempts, row.accepts)
			}
			if s := c.ask(row.requests-row.accepts, 1, 1); s.attempts != row.requests-row.accepts {
				t.Errorf("%d of %d passed", s.attempts, row.requests-row.accepts)
			}
			drawn = draw
			return c.ask(1, 0, 1).attempts == 0
		}
		low, up := 0., 1.
		for range 17 {
			if middle := (low + up) / 2; refuses(middle) {
				low = middle
			} else {
				up = middle
			}
		}
		tab.near(fmt.Sprintf("K=%v, %d requests, %d accepted", row.k, row.requests, row.accepts), fmt.Sprintf("%.4f", row.paper), row.paper, low, .0001)
	}

	// A dependency that accepts 100 a second and is asked 1,000 times: K times what it accepts reaches it.
	for _, k := range []float64{2, 1.1} {
		var reached float64
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, strings.Replace(throttled(k), "}", ", window: 10s}", 1), 10, nil)
			start, came := time.Now(), make([]int, 61)
			accepted := 0 // what it could have accepted for a second and did not, it still can
			for i := range 60_000 {
				time.Sleep(time.Until(start.Add(time.Duration(i) * time.Millisecond)))
				second := i / 1000
				chainbudget.Do(context.Background(), c.dep, func(context.Context) error {
					came[second]++
					capacity := int(time.Since(start) / (10 * time.Millisecond))
					accepted = max(accepted, capacity-100)
					if accepted >= capacity {
						return errFault
					}
					accepted++
					return nil
				})
			}
			for _, n := range came[30:60] {
				reached += float64(n) / 30
			}
		})
		tab.near(fmt.Sprintf("K=%v, reach a dependency that accepts 100 of 1,000 a second", k), fmt.Sprintf("%v x", k), 100*k, reached, 5*k)
	}

	c := newClient(t, throttled(2), 10, nil)
	c.ask(500, 1, 1)
	err := errors.New("never refused")
	for range 100 {
		err = chainbudget.Do(context.Background(), c.dep, func(context.Context) error { return errFault })
		if denied := new(chainbudget.DeniedError); errors.As(err, &denied) && denied.Attempts == 0 {
			break
		}
	}
	if denied := new(chainbudget.DeniedError); !errors.As(err, &denied) || denied.Reason != ownership.ReasonBreakerOpen || !strings.Contains(err.Error(), "adaptive throttling refuses") {
		t.Errorf("the refusal says %v", err)
	}
}

// TestT10 with the attempt cap alone: what a server gets of requests that are tried up to three times, by the attempt number on the
// wire.
func TestT10_three_attempts_at_a_server_NoRace(t *testing.T) {
	requests := sampled(100_000)
	tab := newTable(t, "T10", "attempts at a server for each request of up to three attempts, and the histogram for 1,000",
		fmt.Sprintf("%d requests for each f, seeds 10, and 100 + row", requests))
	defer tab.print()
	shares := []float64{.5, .9, 1}
	histograms := make([][4]int, len(shares))
	inParallel(t, len(shares), func(t *testing.T, i int) {
		c := newClient(t, "extends: google-sre, process_budget: 0, budget: disabled, "+gatesOff, 100+uint64(i), nil)
		random, primed := rand.New(rand.NewPCG(10, uint64(i))), 0
		server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, after, _ := strings.Cut(r.Header.Get(otelprop.HTTPRequestHeader), "attempt=")
			number, _, _ := strings.Cut(after, ";")
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > 3 {
				t.Errorf("attempt %q", r.Header.Get(otelprop.HTTPRequestHeader))
				return
			}
			if primed++; primed <= 20 { // so that it is known for one that sends no return, and gets no lease
				return
			}
			histograms[i][n]++
			if random.Float64() < shares[i] {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		ask := forwarder(budgethttp.NewTransport(pipe{server}, c.dep), "callee")
		for range requests + 20 {
			ask(context.Background())
		}
	})
	for i, f := range shares {
		h := histograms[i]
		load := float64(h[1]+h[2]+h[3]) / float64(requests)
		tab.near(fmt.Sprintf("f=%v load", f), fmt.Sprintf("%.2f", 1+f+f*f), 1+f+f*f, load, .01)
		tab.near(fmt.Sprintf("f=%v first attempts of 1,000", f), "1000", 1000, float64(h[1])*1000/float64(requests), 0)
		tab.near(fmt.Sprintf("f=%v second attempts", f), fmt.Sprintf("%.0f", 1000*f), 1000*f, float64(h[2])*1000/float64(requests), 1000*chance(f, requests))
		tab.near(fmt.Sprintf("f=%v third attempts", f), fmt.Sprintf("%.0f", 1000*f*f), 1000*f*f, float64(h[3])*1000/float64(requests), 1000*chance(f*f, requests))
	}
}

// TestT10 with the profile google-sre as a whole: three attempts, a tenth of the requests, sixty retries a minute. Ten minutes of virtual
// time each.
func TestT10_google_sre_as_a_whole_NoRace(t *testing.T) {
	tab := newTable(t, "T10", "the profile google-sre over ten minutes", "600 s of each row, in virtual time, the rate is the seed")
	defer tab.print()
	const minutes = 10
	type outcome struct {
		sample
		longest, minute int // most attempts of a call, most retries in any 60 s
	}
	run := func(profile string, rate int, failing float64) (o outcome) {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, profile, uint64(rate), func(c *engine.Config) { c.NoSleep = false })
			start := time.Now()
			var mu sync.Mutex
			var retries []time.Duration
			var calls sync.WaitGroup
			o.requests = minutes * 60 * rate
			for i := range o.requests {
				time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
				calls.Go(func() {
					made := 0
					err := chainbudget.Do(context.Background(), c.dep, func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						o.attempts++
						if made++; made > 1 {
							retries = append(retries, time.Since(start))
						}
						o.longest = max(o.longest, made)
						if c.random.Float64() < failing {
							return errFault
						}
						return nil
					}, chainbudget.Idempotent())
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						o.good++
					}
				})
			}
			calls.Wait()
			first := 0
			for i := range retries {
				for retries[i]-retries[first] >= time.Minute {
					first++
				}
				o.minute = max(o.minute, i-first+1)
			}
		})
		return o
	}
	const alone = "extends: google-sre, " + gatesOff
	for _, row := range []struct {
		what, profile string
		rate          int
		failing       float64
		load, tol     float64 // expected
		success       float64
		minute        int
	}{
		// Sixty retries a minute in 6,000 requests are 1 %; the window of whole seconds gives a sixtieth of them away.
		{"100 a second, all fail", alone, 100, 1, 1.01, .0005, 0, 60},
		// A tenth of 300 requests a minute is below sixty: the ratio decides, beside the full bucket of the start.
		{"5 a second, all fail", alone, 5, 1, 1.1 + 10./3000, .0005, 0, 60},
		{"20 a second, 2 % fail", alone, 20, .02, 1.0204, .005, .9995, 60},
		{"20 a second, 2 % fail, every gate", "extends: google-sre", 20, .02, 1.0204, .005, .9995, 60},
		{"100 a second, all fail, every gate", "extends: google-sre", 100, 1, 0, 0, 0, 60},
	} {
		o := run(row.profile, row.rate, row.failing)
		tab.atMost(row.what+": attempts of a call", "3", 3, o.longest)
		tab.atMost(row.what+": retries in any 60 s", "60", row.minute, o.minute)
		if row.load > 0 {
			tab.near(row.what+": load", "≤ 1.1", row.load, o.load(), row.tol)
		} else { // the breaker refuses most first attempts
			tab.below(row.what+": load", "≤ 1.1", 1.1, o.load())
		}
		tab.atLeast(row.what+": success", "-", row.success, o.success())
	}
}
