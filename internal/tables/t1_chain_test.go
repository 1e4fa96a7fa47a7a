//go:build !race

package tables

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// TestT1 counts what reaches the last service of a chain when it fails and every hop retries for itself: up to a number of
// attempts, or within a budget of a share of its requests. The last rows are this SDK on the same chains.
func TestT1_amplification_of_a_chain_NoRace(t *testing.T) {
	const deepest, tolerance = 16, .0005 // of what is counted
	requests := sampled(100_000)         // under a ratio, so many that what is left in the buckets is less than the tolerance
	var mu sync.Mutex
	tab := newTable(t, "T1", "attempts at the end of a chain of d edges for each request, n attempts at every hop or a budget of 10 or 20 % at every hop",
		"")
	defer tab.print()

	attempts, budgets := map[int][]int{}, map[int][]int{}
	inParallel(t, 5, func(_ *testing.T, i int) {
		if i < 3 {
			n, d := i+2, 9
			if n == 2 {
				d = deepest
			}
			got := arrivals(d, 1, func() hopPolicy { return naive{n - 1} })
			mu.Lock()
			attempts[n] = got
			mu.Unlock()
			return
		}
		percent := 10 * (i - 2)
		got := arrivals(9, requests, func() hopPolicy { return &ratio{percent: percent, retries: 1} })
		mu.Lock()
		budgets[percent] = got
		mu.Unlock()
	})
	for _, row := range []struct {
		d                int
		attempts         [3]string // of n = 2, 3 and 4
		ten, extra, more string    // of budgets of 10 %, what is extra then, and 20 %
	}{
		{1, [3]string{"2", "3", "4"}, "1.1000", "10.0 %", "1.200"},
		{3, [3]string{"8", "27", "64"}, "1.3310", "33.1 %", "1.728"},
		{4, [3]string{"16", "81", "256"}, "1.4641", "46.4 %", "2.074"},
		{5, [3]string{"32", "243", "1024"}, "1.6105", "61.1 %", "2.488"},
		{6, [3]string{"64", "729", "4096"}, "1.7716", "77.2 %", "2.986"},
		{9, [3]string{"512", "19683", "262144"}, "2.3579", "135.8 %", "5.160"},
		{16, [3]string{"65536"}, "", "", ""},
		{25, [3]string{"33554432"}, "10.8347", "983.5 %", "95.396"},
	} {
		for i, paper := range row.attempts {
			n := i + 2
			what, expected := fmt.Sprintf("d=%d n=%d", row.d, n), power(n, row.d)
			switch {
			case paper == "":
			case row.d > deepest:
				tab.formula(what, paper, strconv.Itoa(expected))
			default:
				tab.count(what, paper, []int{expected}, []int{attempts[n][row.d]})
			}
		}
		for i, paper := range []string{row.ten, row.more} {
			if paper == "" {
				continue
			}
			percent := 10 * (i + 1)
			what, expected := fmt.Sprintf("d=%d, a budget of %d %%", row.d, percent), math.Pow(1+float64(percent)/100, float64(row.d))
			if row.d > deepest {
				tab.formula(what, paper, share(expected))
				continue
			}
			load := float64(budgets[percent][row.d]) / float64(requests)
			tab.near(what, paper, expected, load, tolerance)
			if percent == 10 {
				tab.near(what+", extra", row.extra, expected-1, load-1, tolerance)
			}
		}
	}
	for _, d := range []int{1, 3, 9, 25} {
		measured := leafAttempts(t, d, newLease(t, rules{budget: 3, maxAttempts: 4}))
		tab.atMost(fmt.Sprintf("d=%d n=4, the SDK, 3 tokens a request", d), "-", 4, measured)
	}
}

// arrivals sends requests down a chain of d edges whose last service fails, each hop with a policy of its own, and returns
// how many arrived at each, the entry first: what is above the end of a chain is the end of a shorter one.
func arrivals(d, requests int, policy func() hopPolicy) []int {
	arrived := make([]int, d+1)
	below := pipe{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived[d]++
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	for at := d - 1; at >= 0; at-- {
		hop := policy()
		client := hop.transport(below)
		below = pipe{hop.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived[at]++
			if outcome(client.RoundTrip(r)) != nil {
				w.WriteHeader(http.StatusBadGateway)
			}
		}))}
	}
	ask := forwarder(below, "entry")
	for range requests {
		_ = ask(context.Background()) // it fails
	}
	return arrived
}
