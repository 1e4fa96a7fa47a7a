//go:build !race

package tables

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// headSampler keeps the traces of a share of the requests, drawn before anything is known of them.
type headSampler struct {
	share  float64
	random *rand.Rand
}

func (s headSampler) keeps() bool { return s.random.Float64() < s.share }

// TestT21 counts how many requests it takes until a sampled trace has caught a failure, and how many failures of the same
// kind the SDK's own counters have.
func TestT21_sampled_failures_NoRace(t *testing.T) {
	const failing, parts = .001, 8
	tab := newTable(t, "T21", "requests for each captured failure, 1/(share of traces kept x share of failures)",
		fmt.Sprintf("%d and %d requests, seeds 2100 to 2117; 1,000,000 for the SDK, seed 21", sampled(1_000_000_000), sampled(100_000_000)))
	defer tab.print()
	for i, row := range []struct {
		failing, sampling float64
		requests          int
		paper             string
	}{{failing, .0001, sampled(1_000_000_000), "10^7"}, {.01, .01, sampled(100_000_000), "-"}} {
		var caught [parts]int
		inParallel(t, parts, func(_ *testing.T, part int) {
			random := rand.New(rand.NewPCG(uint64(2100+10*i+part), 21))
			sampler := headSampler{row.sampling, random}
			for range row.requests / parts {
				if random.Float64() < row.failing && sampler.keeps() {
					caught[part]++
				}
			}
		})
		sum := 0
		for _, n := range caught {
			sum += n
		}
		each := 1 / row.failing / row.sampling
		// Of a count that chance decides, three standard deviations.
		tab.near(fmt.Sprintf("%g of the traces, %g of the requests fail: by what is expected", row.sampling, row.failing), row.paper, 1,
			float64(row.requests)/float64(sum)/each, 3/math.Sqrt(float64(row.requests)/each))
	}

	c := newClient(t, "extends: no-retry, retry: {attempt_timeout: 0s}, budget: disabled, "+gatesOff, 21, nil)
	asked := c.ask(1_000_000, failing, 1)
	counted := 0
	for _, n := range c.totals().Claims {
		counted += int(n)
	}
	tab.count("failures of 1,000,000 requests that the SDK's counters have", "-", []int{asked.failedFirst}, []int{counted})
}
