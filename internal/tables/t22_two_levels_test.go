//go:build !race

package tables

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// TestT22 makes 10 calls in parallel to services that each call a leaf. The tokens are lent down some of the ten paths, and
// are needed on others: the entry has to wait for them, and for no longer than it may.
func TestT22_two_level_fan_outs_that_succeed_NoRace(t *testing.T) {
	tab := newTable(t, "T22", "share of fan-outs that succeed, every hop runs the SDK",
		fmt.Sprintf("%d requests on two levels, 2000 with stalls, %d and %d direct, seeds 2200 + 10 × row", sampled(10_000), sampled(50_000), sampled(8_000)))
	defer tab.print()
	tab.loose = true // calls in parallel wait for leases, and wake at one moment
	r := rules{budget: 3, maxAttempts: 4}
	for i, latency := range []time.Duration{15 * time.Millisecond, 100 * time.Millisecond} {
		name := fmt.Sprintf("two levels, k=10 p=0.05 %v a hop", latency)
		run := fanRun{rules: r, k: 10, p: .05, requests: sampled(10_000), latency: latency, twoLevels: true}
		got := run.run(t, name, uint64(2200+10*i))
		tab.atLeast(name, ".993 (simulated)", .985, got.success)
		tab.waits(name, got)
	}
	// Leases that come home late: what waits for them must give up in time.
	name := "two levels, 3 % of the leaves stall"
	run := fanRun{rules: r, k: 10, p: .05, requests: 2000, latency: 15 * time.Millisecond, twoLevels: true, stall: .03}
	got := run.run(t, name, 2240)
	tab.waits(name, got)
	tab.add(name+", waits in vain", "", "> 0", strconv.Itoa(got.inVain), "none", got.inVain > 0)
	for i, row := range []struct {
		k        int
		p        float64
		requests int
	}{{10, .05, 50_000}, {50, .01, 8_000}} {
		name := fmt.Sprintf("direct, k=%d p=%.2f", row.k, row.p)
		run := fanRun{rules: r, k: row.k, p: row.p, requests: sampled(row.requests), latency: 15 * time.Millisecond}
		got := run.run(t, name, uint64(2250+10*i))
		tab.atLeast(name, "≥ .995", .995, got.success)
		tab.waits(name, got)
	}
}

// waits adds the rows about one run's retries and waits.
func (tab *table) waits(name string, got fanResult) {
	tab.t.Helper()
	tab.atMost(name+", most retries", "3", 3, got.retries)
	tab.add(name+", longest hold", "DESIGN §3", "≤ the wait", fmt.Sprintf("%v, over by %v", got.held, got.over), "none", got.over == 0)
}
