//go:build !race

package tables

import (
	"fmt"
	"sync"
	"testing"
)

// grpcThrottle is a profile with gRPC's tokens.
func grpcThrottle(maxAttempts, maxTokens int) string {
	return fmt.Sprintf("extends: read-heavy, retry: {max_attempts: %d, attempt_timeout: 0s}, budget: {kind: throttle, ratio: 10%%, burst: %d}, ", maxAttempts, maxTokens) + gatesOff
}

// TestT7 counts what gRPC's retry throttling does, by the budget of that kind. A failure costs its token before it is asked whether there is a
// retry for it: so a call that is to be retried needs ten successes more than the level itself does.
func TestT7_grpc_throttle_NoRace(t *testing.T) {
	tab := newTable(t, "T7", "gRPC's retry throttling, maxTokens 10, tokenRatio 0.1", "20 times 40,000 requests on either side of the break-even share, seeds 700 to 739")
	defer tab.print()

	full := newClient(t, grpcThrottle(99, 10), 7, nil)
	tab.count("failures from full until retries stop", "5", []int{5}, []int{full.ask(1, 1, 99).attempts})

	// from brings the level of a new client down to half, or to nothing.
	from := func(level float64) *client {
		c := newClient(t, grpcThrottle(2, 10), 7, nil)
		for c.level() > level {
			c.ask(1, 1, 2)
		}
		return c
	}
	until := func(c *client, resumed func(*client) bool) (successes int) {
		for !resumed(c) {
			c.ask(1, 0, 2)
			successes++
		}
		return successes
	}
	passes := func(c *client) bool { return c.level() > 5 }
	tab.count("successes from 0 until they resume", "51", []int{51}, []int{until(from(0), passes)})
	tab.count("successes from 5 until they resume", "1", []int{1}, []int{until(from(5), passes)})
	for _, row := range []struct {
		what      string
		level     float64
		successes int
	}{{"successes from 0 until a failed call is retried", 0, 61}, {"successes from 5 until a failed call is retried", 5, 11}} {
		n := 0
		for ; ; n++ {
			c := from(row.level)
			c.ask(n, 0, 2)
			if c.ask(1, 1, 2).attempts == 2 {
				break
			}
		}
		tab.count(row.what, "-", []int{row.successes}, []int{n})
	}

	// The break-even share lies where the level neither rises nor falls: it is run below and above it.
	const requests, rounds, apart, even = 40_000, 20, .004, 1. / 11
	var drift [2]float64
	t.Run("break_even", func(t *testing.T) {
		for side := range drift {
			t.Run(fmt.Sprintf("side_%d", side), func(t *testing.T) {
				t.Parallel()
				p, sum := even-apart, 0.
				if side == 1 {
					p = even + apart
				}
				for round := range uint64(rounds) {
					c := newClient(t, grpcThrottle(1, 1000), 700+2*round+uint64(side), nil)
					for c.level() > 500 {
						c.ask(1, 1, 1)
					}
					c.ask(requests, p, 1)
					if l := c.level(); l <= 0 || l >= 1000 {
						t.Errorf("the bucket came to its end: %v", l)
					}
					sum += c.level() - 500
				}
				drift[side] = sum / requests / rounds
			})
		}
	})
	zero := even - apart + 2*apart*drift[0]/(drift[0]-drift[1])
	tab.near("break-even failure share", "9.09 %", even, zero, .001)
}

// inParallel runs f for each of n rows on all processors.
func inParallel(t *testing.T, n int, f func(t *testing.T, i int)) {
	t.Helper()
	var mu sync.Mutex
	next := 0
	t.Run("rows", func(t *testing.T) {
		for worker := range 2 {
			t.Run(fmt.Sprintf("worker_%d", worker), func(t *testing.T) {
				t.Parallel()
				for {
					mu.Lock()
					i := next
					next++
					mu.Unlock()
					if i >= n {
						return
					}
					f(t, i)
				}
			})
		}
	})
}
