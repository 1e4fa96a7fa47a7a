//go:build !race

package tables

import (
	"fmt"
	"sync"
	"testing"
)

// TestT3a finds the share of failures at which the AWS SDKs' retry quota begins to drain, by running the bucket below and
// above it: what a request takes from the quota on average is zero in between.
func TestT3a_where_the_quota_begins_to_drain_NoRace(t *testing.T) {
	const requests, apart = 300_000, .01
	tab := newTable(t, "T3a", "share of failures at which the AWS quota begins to drain, from what is drawn on either side of it",
		fmt.Sprintf("%d requests on either side, seeds 3000 + 10 × row", requests))
	defer tab.print()
	for i, row := range []struct {
		cost, attempts int
		paper          float64
	}{
		{5, 2, .358}, {5, 3, .321}, {5, 4, .312},
		{10, 2, .270}, {10, 3, .246}, {10, 4, .242},
		{14, 2, .234}, {14, 3, .215}, {14, 4, .212},
	} {
		// Each side has a quota so large that neither end is met, and starts from its middle.
		var drift [2]float64
		t.Run(fmt.Sprintf("c=%d_M=%d", row.cost, row.attempts), func(t *testing.T) {
			for side := range drift {
				t.Run(fmt.Sprintf("side_%d", side), func(t *testing.T) {
					t.Parallel()
					const quota = 100_000
					c := newClient(t, fmt.Sprintf("extends: aws-standard, retry: {max_attempts: %d}, budget: {burst: %d, cost: %d, throttled_cost: %d}, %s",
						row.attempts, quota, row.cost, row.cost, gatesOff), 3000+uint64(10*i+side), nil)
					for c.level() > quota/2 {
						c.ask(1, 1, row.attempts)
					}
					p, before := row.paper-apart, c.level()
					if side == 1 {
						p = row.paper + apart
					}
					if s := c.ask(requests, p, row.attempts); s.denied > 0 || c.level() == quota {
						t.Errorf("the quota came to its end: level %v, %d refusals", c.level(), s.denied)
					}
					drift[side] = (c.level() - before) / requests
				})
			}
		})
		zero := row.paper - apart + 2*apart*drift[0]/(drift[0]-drift[1])
		tab.near(fmt.Sprintf("c=%d M=%d", row.cost, row.attempts), fmt.Sprintf("%.1f %%", 100*row.paper), row.paper, zero, .0025)
	}
}

// TestT3b counts the retries that the quota refuses around those points.
func TestT3b_retries_that_the_quota_refuses_NoRace(t *testing.T) {
	const requests = 200_000
	tab := newTable(t, "T3b", fmt.Sprintf("retries of %d requests that the AWS quota of 500 refuses, 3 attempts", requests), "seeds 3500 + row")
	defer tab.print()
	rows := []struct {
		cost    int
		p       float64
		paper   string
		low, up int
	}{
		{14, .18, "about 0", 0, 10},
		{14, .20, "about 0", 0, 100},
		{14, .21, "0 to 600", 0, 600},
		{14, .22, "2,000 to 3,600", 2000, 3600},
		{14, .25, "16,300 ± 1,500", 14_800, 17_800},
		{5, .31, "0", 0, 0},
		{5, .33, "5,100 ± 1,200", 3900, 6300},
		{5, .36, "21,000 ± 1,500", 19_500, 22_500},
	}
	denied := make([]int, len(rows))
	var mu sync.Mutex
	t.Run("rows", func(t *testing.T) {
		for i, row := range rows {
			t.Run(fmt.Sprintf("c=%d_p=%v", row.cost, row.p), func(t *testing.T) {
				t.Parallel()
				c := newClient(t, fmt.Sprintf("extends: aws-standard, budget: {cost: %d, throttled_cost: %d}, %s", row.cost, row.cost, gatesOff), 3500+uint64(i), nil)
				s := c.ask(requests, row.p, 3)
				mu.Lock()
				defer mu.Unlock()
				denied[i] = s.denied
			})
		}
	})
	for i, row := range rows {
		tab.between(fmt.Sprintf("c=%d p=%.2f", row.cost, row.p), row.paper, row.low, row.up, denied[i])
	}
}
