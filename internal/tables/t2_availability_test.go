//go:build !race

package tables

import (
	"fmt"
	"math"
	"testing"
)

const allAsked = 1_000_000 // requests of each row of T2 and T2b

// within is how far a share of n requests may lie from the published one: .001, or with fewer requests what chance allows and the two
// buckets, one for each half of them, that were full at the start.
func within(expected float64, n int) float64 {
	return math.Max(.001, chance(expected, n)+2*100/float64(n))
}

// TestT2 draws what a 10 % budget that first attempts fund makes of a dependency's availability: up to its share every failure gets
// its second attempt, beyond it a tenth of the requests does.
func TestT2_availability_under_a_budget_NoRace(t *testing.T) {
	asked := sampled(allAsked)
	tab := newTable(t, "T2", "availability under a 10 % budget that requests fund", fmt.Sprintf("%d requests a row, seeds 200 + 10 × row", asked))
	defer tab.print()
	for i, row := range []struct {
		a         float64
		perceived float64
		removed   float64
		load      float64
	}{
		{.999, .999999, .999, 1.001},
		{.99, .9999, .99, 1.01},
		{.98, .9996, .98, 1.02},
		{.95, .9975, .95, 1.05},
		{.90, .99, .9, 1.1},
		{.88, .968, .733, 1.1},
		{.85, .935, .567, 1.1},
		{.80, .88, .4, 1.1},
		{.70, .77, .233, 1.1},
		{.50, .55, .1, 1.1},
	} {
		s := inShards(t, fmt.Sprintf("a=%v", row.a), func(t *testing.T, shard uint64) sample {
			c := newClient(t, "extends: read-heavy, retry: {max_attempts: 2, attempt_timeout: 0s}, budget: {ratio: 10%, fund: requests, burst: 100}, "+gatesOff, 200+uint64(10*i)+shard, nil)
			return c.ask(asked/2, 1-row.a, 2)
		})
		what := fmt.Sprintf("a=%.3f ", row.a)
		tab.near(what+"perceived", fmt.Sprint(row.perceived), row.perceived, s.success(), within(row.perceived, asked))
		tab.near(what+"load", fmt.Sprint(row.load), row.load, s.load(), within(row.load-1, asked))
		// Of the failed first attempts, as many as chance and the full bucket of the start allow; the paper has three places.
		removed := 1 - float64(asked-s.good)/float64(s.failedFirst)
		tab.near(what+"errors removed", fmt.Sprint(row.removed), row.removed, removed,
			chance(row.removed, s.failedFirst)+math.Min(within(row.perceived, asked)/(1-row.a), .003))
	}
}

// TestT2b draws the bucket that successes fund. It gives less than T2's in the same fault: at 20 % failures 86.96 %, not 88 %.
func TestT2b_a_bucket_that_successes_fund_NoRace(t *testing.T) {
	asked := sampled(allAsked)
	tab := newTable(t, "T2b", "a bucket that successes fund, 0.1 each, at most 3 retries", fmt.Sprintf("%d requests a row, seeds 300 + 10 × row", asked))
	defer tab.print()
	for i, row := range []struct{ f, load, success float64 }{
		{.1, 1.0989, .9890}, {.2, 1.0870, .8696}, {.5, 1.0526, .5263}, {1, 1, 0},
	} {
		s := inShards(t, fmt.Sprintf("f=%v", row.f), func(t *testing.T, shard uint64) sample {
			c := newClient(t, "extends: read-heavy, retry: {max_attempts: 4, attempt_timeout: 0s}, budget: {ratio: 10%, fund: successes, burst: 100}, "+gatesOff, 300+uint64(10*i)+shard, nil)
			return c.ask(asked/2, row.f, 4)
		})
		what := fmt.Sprintf("f=%.1f ", row.f)
		tab.near(what+"load", fmt.Sprint(row.load), row.load, s.load(), within(row.load-1, asked))
		tab.near(what+"success", fmt.Sprint(row.success), row.success, s.success(), within(row.success, asked))
	}
}
