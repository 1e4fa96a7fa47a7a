//go:build !race

package tables

import (
	"fmt"
	"testing"
	"time"
)

// TestT16 counts what clients that fetch every 15 minutes, and every minute while that fails, send in the first minute after
// an outage: in the storm lab, at moments that are drawn, and with a policy for comparison minute by minute.
func TestT16_fetchers_NoRace(t *testing.T) {
	const every = 15
	clients := sampled(2000 * every)
	tab := newTable(t, "T16", "load in the first minute after an outage, clients that fetch every 15 minutes and retry every minute",
		fmt.Sprintf("%d clients in the lab, seed 1", clients))
	defer tab.print()

	const from = 20 // the outage begins
	outages := []int{1, 5, 10, 14, 15, 20}
	measured := make([]float64, len(outages))
	inParallel(t, len(outages), func(t *testing.T, i int) {
		s := fromLibrary(t, "fetchers")
		until := from + outages[i]
		s.Traffic[0].Clients = clients
		s.Faults[0].From, s.Faults[0].Until = from*time.Minute, time.Duration(until)*time.Minute
		s.Duration = time.Duration(until+1) * time.Minute
		s.Expect = nil
		run := inLab(t, s)["retry-after-a-minute"]
		measured[i] = float64(run.Timeline[until].Arrivals[run.index("api")]) / float64(clients) * every
	})
	for i, minutes := range outages {
		times := min(1+minutes, every)
		paper := fmt.Sprintf("%dx", times)
		usual := chance(float64(times)/every, clients) * every
		if times == every {
			usual = .01 // everybody comes
		}
		tab.near(fmt.Sprintf("outage of %d min", minutes), paper, float64(times), measured[i], usual)
	}
	for _, minutes := range outages {
		times := min(1+minutes, every)
		load := fetchers{perMinute: 1, every: every}.loads(from+minutes+1, from, from+minutes)
		tab.count(fmt.Sprintf("outage of %d min, minute by minute", minutes), fmt.Sprintf("%dx", times), []int{times}, load[from+minutes:])
	}
	for _, minutes := range outages {
		if minutes > every {
			continue
		}
		times := 1 + minutes
		load := fetchers{perMinute: 1, every: every, beside: true}.loads(from+minutes+1, from, from+minutes)
		tab.count(fmt.Sprintf("outage of %d min, the regular fetch goes on beside", minutes), fmt.Sprintf("%dx", times), []int{times}, load[from+minutes:])
	}
}
