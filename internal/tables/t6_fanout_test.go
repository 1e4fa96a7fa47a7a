//go:build !race

package tables

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"
)

const (
	allDrawn = 400_000 // requests of each row under a policy for comparison
	allMade  = 400_000 // calls of each row through the SDK
)

// TestT6 makes k calls in parallel, all of which are needed. What a leaf is lent is home when somebody needs it,
// and once its returns have shown that it is a leaf it is lent nothing: the purse is a pool, and must reach what a pool does.
func TestT6_fan_outs_that_succeed_NoRace(t *testing.T) {
	tab := newTable(t, "T6", "share of fan-outs that succeed, and the most retries of one request",
		fmt.Sprintf("%d requests for each policy, %d calls for the SDK, seeds 600 + 10 × row", sampled(allDrawn), sampled(allMade)))
	defer tab.print()
	drawn, made := sampled(allDrawn), sampled(allMade)
	for i, row := range []struct {
		k                      int
		p                      float64
		b                      int
		none, split, pool, all float64 // the paper's
	}{
		{5, .01, 3, .951, .980, 1.000, 1.000},
		{10, .01, 3, .904, .932, 1.000, 1.000},
		{10, .05, 3, .599, .693, .997, 1.000},
		{20, .01, 3, .818, .843, 1.000, 1.000},
		{50, .01, 3, .605, .623, .998, 1.000},
		{10, .05, 6, .599, .802, 1.000, 1.000},
	} {
		name := fmt.Sprintf("k=%d p=%.2f b=%d", row.k, row.p, row.b)
		seed := uint64(600 + 10*i)
		for j, other := range []struct {
			name   string
			policy sharePolicy
			paper  float64
			exact  float64
			worst  int
		}{
			{"none", retryNone, row.none, math.Pow(1-row.p, float64(row.k)), 0},
			{"equal split", splitEqually, row.split, split(row.k, row.b, row.p), row.b},
			{"pool", onePool, row.pool, pooled(row.k, row.b, row.p), row.b},
			{"copy", copyToEach, row.all, math.Pow(1-math.Pow(row.p, float64(row.b+1)), float64(row.k)), row.k * row.b},
		} {
			measured, _ := draw(seed+uint64(j), drawn, row.k, row.b, row.p, other.policy)
			tab.drawn(name+" "+other.name, places(other.paper), .001, other.exact, measured, drawn)
			_, most := draw(0, 1, row.k, row.b, 1, other.policy)
			tab.count(name+" "+other.name+", all fail", strconv.Itoa(other.worst), []int{other.worst}, []int{most})
		}
		run := fanRun{
			rules: rules{budget: row.b, maxAttempts: row.b + 1}, k: row.k, p: row.p, requests: made / row.k, latency: 5 * time.Millisecond,
		}
		got := run.run(t, name, seed)
		tab.drawn(name+" SDK", places(row.pool), .001, pooled(row.k, row.b, row.p), got.success, got.requests)
		tab.count(name+" SDK, requests that a pool decides otherwise", "0", []int{0}, []int{got.unlike})
		tab.atMost(name+" SDK, most retries", strconv.Itoa(row.b), row.b, got.retries)
		run.p, run.requests = 1, 10*shards
		got = run.run(t, name+" all fail", seed)
		tab.count(name+" SDK, all fail", strconv.Itoa(row.b), []int{row.b}, []int{got.retries})
	}
}

// places prints a figure of the paper as it does.
func places(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
