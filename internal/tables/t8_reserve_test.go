//go:build !race

package tables

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// TestT8 counts in virtual time how many retries a second the budget of Finagle and Linkerd sustains when everything fails
// and a call may be repeated as often as the budget allows.
func TestT8_finagle_and_linkerd_reserve_NoRace(t *testing.T) {
	tab := newTable(t, "T8", "Finagle's and Linkerd's retry budget, 20 %, 10 a second, 10 s: retries a second over 100 s", "")
	defer tab.print()
	const profile = "extends: read-heavy, retry: {max_attempts: 99, attempt_timeout: 0s}, backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}, " +
		"budget: {kind: reserve, ratio: 20%, min_per_second: 10, ttl: 10s}, " + gatesOff

	tab.near("initial balance", "100", 100, newClient(t, profile, 8, nil).level(), 0)
	rows := []struct {
		rate    int
		retries float64
		share   string
	}{{1, 10.2, "1020 %"}, {10, 12, "120 %"}, {50, 20, "40 %"}, {100, 30, "30 %"}, {1000, 210, "21 %"}}
	measured := make([]float64, len(rows))
	inParallel(t, len(rows), func(t *testing.T, i int) {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, profile, 80+uint64(i), func(c *engine.Config) { c.NoSleep = false })
			const settled, end = 20 * time.Second, 120 * time.Second
			every := time.Second / time.Duration(rows[i].rate)
			start, before := time.Now(), int64(0)
			for at := time.Duration(0); at < end; at += every {
				time.Sleep(time.Until(start.Add(at)))
				if at == settled {
					before = c.totals().Retries
				}
				c.ask(1, 1, 99)
			}
			measured[i] = float64(c.totals().Retries-before) / (end - settled).Seconds()
		})
	})
	for i, row := range rows {
		// Slices of a second: at either end of the time one may be half counted.
		tab.near(fmt.Sprintf("%d requests a second", row.rate), fmt.Sprintf("%v, %s of traffic", row.retries, row.share), row.retries, measured[i], .02*row.retries)
	}
}
