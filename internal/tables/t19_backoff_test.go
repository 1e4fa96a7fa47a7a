package tables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// TestT19 measures the bounds of backoffs: the SDK's by what its calls wait, others' with policies for comparison.
func TestT19_bounds_of_backoffs(t *testing.T) {
	tab := newTable(t, "T19", "bounds of backoffs, in ms", "4,000 waits of each kind, seed 19")
	defer tab.print()

	ceilings := func(what, profile string, status int, paper []int) {
		t.Helper()
		d := new(delays)
		c := newClient(t, fmt.Sprintf("extends: aws-standard, retry: {max_attempts: %d, statuses: [%d]}, budget: {burst: 1000}, %s%s", len(paper)+1, status, gatesOff, profile), 19, pinned(d))
		c.script(slices.Repeat([]answer{{status: status}}, len(paper)+1)...)
		tab.count(what, join(paper), paper, d.millis())
	}
	ceilings("AWS, transient", "", 503, []int{50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 20000, 20000})
	ceilings("AWS, throttled", "", 429, []int{1000, 2000, 4000, 8000, 16000, 20000, 20000})
	ceilings("25 ms, at most 250 ms", ", backoff: {base: 25ms, throttled_base: 250ms, cap: 250ms}", 503, []int{25, 50, 100, 200, 250, 250})

	// Slept, and not only drawn: the time that passes between attempts.
	const calls = 4000
	limits := []int{50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 20000}
	sum, most := make([]float64, len(limits)), make([]float64, len(limits))
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, fmt.Sprintf("extends: aws-standard, retry: {max_attempts: %d}, budget: disabled, %s", len(limits)+1, gatesOff), 19,
			func(c *engine.Config) { c.NoSleep = false })
		for range calls {
			n, last := -1, time.Now()
			chainbudget.Do(context.Background(), c.dep, func(context.Context) error {
				if n >= 0 {
					slept := time.Since(last).Seconds() * 1000
					sum[n] += slept
					most[n] = max(most[n], slept)
				}
				n, last = n+1, time.Now()
				return errFault
			}, chainbudget.Idempotent())
		}
	})
	for n, limit := range limits {
		// Of draws that are uniform over [0, limit]: three standard deviations of their mean.
		tolerance := 3 * float64(limit) / 3.4641 / 63.2
		tab.near(fmt.Sprintf("full jitter, mean of wait %d", n+1), fmt.Sprint(limit/2), float64(limit)/2, sum[n]/calls, tolerance)
		tab.add(fmt.Sprintf("full jitter, longest wait %d", n+1), fmt.Sprint(limit), fmt.Sprintf("%d to %d", limit*99/100, limit), share(most[n]), "none",
			most[n] <= float64(limit) && most[n] > float64(limit)*.99)
	}

	compare := func(what string, w wait, low, up []int) {
		t.Helper()
		random := rand.New(rand.NewPCG(19, 19))
		for n := range low {
			least, most := time.Hour, time.Duration(0)
			for range calls {
				d := w(n+1, random.Float64)
				least, most = min(least, d), max(most, d)
			}
			l, u := time.Duration(low[n])*time.Millisecond, time.Duration(up[n])*time.Millisecond
			slack := (u - l) / 100
			tab.add(fmt.Sprintf("%s, wait %d", what, n+1), fmt.Sprintf("%d to %d", low[n], up[n]), fmt.Sprintf("%d to %d", low[n], up[n]), fmt.Sprintf("%v to %v", least, most), "1 % inside",
				least >= l && least <= l+slack && most <= u && most >= u-slack)
		}
	}
	compare("Envoy", envoyWait, []int{0, 0, 0, 0}, []int{25, 75, 175, 250})
	compare("gRPC", grpcWait, []int{80, 160, 320}, []int{120, 240, 480})
}
