package incident

import (
	"slices"
	"time"
)

// Tick is a quarter of a second of a run, made from the servers' records. A rate is per second.
type Tick struct {
	// At is when the tick begins, in seconds.
	At float64 `json:"at_s"`
	// Offered is the payments that arrived at the services; Load, and the Retries in it, the requests that arrived at
	// the ledger; Served those that it answered with success, Rejected those that found its queue full.
	Offered  int `json:"offered"`
	Load     int `json:"load"`
	Retries  int `json:"retries"`
	Served   int `json:"served"`
	Rejected int `json:"rejected_queue_full"`
	// Queue is the most that waited at the ledger.
	Queue int `json:"queue"`
	// P95 is the 95th percentile of the time that the services took for the payments they answered in this tick, and
	// P95OK that of the successes among them, in milliseconds; 0 where there are none.
	P95   float64 `json:"p95_ms"`
	P95OK float64 `json:"p95_ok_ms"`
	// Breakers is the state of each service's breaker as its payments met it: closed, open (all were refused),
	// half_open (some were: it lets probes through, or changed within the tick), or none.
	Breakers map[string]string `json:"breakers"`
}

// timeline makes the ticks of a run of that length. Answers after the end of the load count in the last tick.
func (w *world) timeline(length time.Duration) []Tick {
	n := int((length + tickLength - 1) / tickLength)
	if n == 0 {
		return nil
	}
	index := func(at time.Duration) int { return min(int(at/tickLength), n-1) }
	ticks := make([]Tick, n)
	all, ok := make([][]time.Duration, n), make([][]time.Duration, n)
	for i := range ticks {
		ticks[i] = Tick{At: (time.Duration(i) * tickLength).Seconds(), Breakers: map[string]string{}}
	}
	arrived := map[string][]int{}
	for _, e := range w.ledger.entries {
		if arrived[e.caller] == nil {
			arrived[e.caller] = make([]int, n)
		}
		i := index(e.arrived)
		arrived[e.caller][i]++
		t := &ticks[i]
		t.Load++
		if e.retry {
			t.Retries++
		}
		if e.outcome == rejected {
			t.Rejected++
		}
		t.Queue = max(t.Queue, e.waiting)
		if e.outcome == served {
			ticks[index(e.ended)].Served++
		}
	}
	for _, s := range []*service{w.grab, w.goes} {
		for _, p := range s.payments {
			ticks[index(p.arrived)].Offered++
			if p.ended == 0 {
				continue
			}
			i := index(p.ended)
			all[i] = append(all[i], p.ended-p.arrived)
			if p.ok {
				ok[i] = append(ok[i], p.ended-p.arrived)
			}
		}
		refused := make([]int, n)
		for _, at := range s.refusals {
			refused[index(at)]++
		}
		for i := range ticks {
			sent := 0
			if list := arrived[s.name]; list != nil {
				sent = list[i]
			}
			ticks[i].Breakers[s.name] = s.state(sent, refused[i])
		}
	}
	for i := range ticks {
		ticks[i].P95, ticks[i].P95OK = p95(all[i]), p95(ok[i])
	}
	return ticks
}

func (s *service) state(sent, refused int) string {
	switch {
	case !s.breaker:
		return "none"
	case refused == 0:
		return "closed"
	case sent == 0:
		return "open"
	default:
		return "half_open"
	}
}

// p95 returns the 95th percentile by the nearest rank, in milliseconds; 0 for an empty list, which it sorts.
func p95(list []time.Duration) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	rank := (len(list)*95 + 99) / 100
	return milliseconds(list[rank-1])
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
