package incident

import (
	"fmt"
	"slices"
	"time"
)

// Summary is what a run comes to. Times are in milliseconds; what the run did not reach is 0.
type Summary struct {
	// LoadMean is the requests that arrived at the ledger while the fault lasted, as a multiple of the baseline, and
	// LoadPeak those of the busiest second of the run: as a multiple of the baseline too, or of what users asked for in
	// that second, if a machine that had stopped for a moment made that more.
	LoadMean float64 `json:"load_mean_in_fault"`
	LoadPeak float64 `json:"load_peak_second"`
	// P95Healthy is the p95 of the successes asked for in a second before the fault, and P95After that of a second from
	// two seconds after its end, each of the median second, so that one hiccup of the machine does not decide. P95Fault
	// is the p95 of all payments asked for during the fault.
	P95Healthy float64 `json:"p95_ok_healthy_ms"`
	P95Fault   float64 `json:"p95_in_fault_ms"`
	P95After   float64 `json:"p95_ok_after_ms"`
	// RecoveredIn is how many whole seconds after the end of the fault the first one began in which at least nine in ten
	// payments succeeded, with a p95 within 1.5 times the healthy one; -1 if there was none.
	RecoveredIn float64 `json:"recovered_in_s"`
	// OKHealthy, OKFault and OKAfter are the shares of the payments asked for in each phase that succeeded.
	OKHealthy float64 `json:"ok_share_healthy"`
	OKFault   float64 `json:"ok_share_in_fault"`
	OKAfter   float64 `json:"ok_share_after"`
}

// healthyFactor is how much slower than before the fault a service may be that has recovered.
const healthyFactor = 1.5

// summary looks at a run that lasted for length.
func (w *world) summary(s Settings, length time.Duration) Summary {
	var sum Summary
	from, to := s.faultFrom(), min(s.faultTo(), length)
	inFault := 0
	for _, e := range w.ledger.entries {
		if e.arrived >= from && e.arrived < to {
			inFault++
		}
	}
	if to > from {
		sum.LoadMean = float64(inFault) / (float64(s.Rate) * (to - from).Seconds())
	}
	sum.LoadPeak = w.peak(s.Rate)

	var fault []time.Duration
	var asked, answered [3]int
	before, later := map[int]*second{}, map[int]*second{}
	for _, p := range w.payments() {
		phase := 0
		switch {
		case p.arrived >= s.faultTo():
			phase = 2
			add(later, p, p.arrived-s.faultTo())
		case p.arrived >= from:
			phase = 1
			if p.ended > 0 {
				fault = append(fault, p.ended-p.arrived)
			}
		default:
			add(before, p, p.arrived)
		}
		asked[phase]++
		if p.ok {
			answered[phase]++
		}
	}
	sum.P95Healthy, sum.P95Fault, sum.P95After = medianP95(before, 0), p95(fault), medianP95(later, int(settleTime/time.Second))
	sum.OKHealthy, sum.OKFault, sum.OKAfter = share(answered[0], asked[0]), share(answered[1], asked[1]), share(answered[2], asked[2])
	sum.RecoveredIn = -1
	for i := range len(later) {
		one := later[i]
		if one != nil && share(len(one.ok), one.asked) >= 0.9 && p95(one.ok) <= healthyFactor*sum.P95Healthy {
			sum.RecoveredIn = float64(i)
			break
		}
	}
	return sum
}

// peak is the load of the busiest second.
func (w *world) peak(rate int) (peak float64) {
	var asked, arrived []time.Duration
	for _, p := range w.payments() {
		asked = append(asked, p.arrived)
	}
	for _, e := range w.ledger.entries {
		arrived = append(arrived, e.arrived)
	}
	slices.Sort(asked)
	slices.Sort(arrived)
	for i, to := range arrived {
		peak = max(peak, float64(i+1-upTo(arrived, to-time.Second))/float64(max(rate, upTo(asked, to)-upTo(asked, to-time.Second))))
	}
	return peak
}

// upTo returns how many of the sorted times are not after at.
func upTo(times []time.Duration, at time.Duration) int {
	i, _ := slices.BinarySearch(times, at+1)
	return i
}

// second is the payments asked for within one second.
type second struct {
	asked int
	ok    []time.Duration // how long the successes took
}

func add(seconds map[int]*second, p *payment, at time.Duration) {
	i := int(at / time.Second)
	if seconds[i] == nil {
		seconds[i] = &second{}
	}
	seconds[i].asked++
	if p.ok {
		seconds[i].ok = append(seconds[i].ok, p.ended-p.arrived)
	}
}

// medianP95 is the median of the p95s of the seconds from first on that had a success.
func medianP95(seconds map[int]*second, first int) float64 {
	var list []float64
	for i, one := range seconds {
		if i >= first && len(one.ok) > 0 {
			list = append(list, p95(one.ok))
		}
	}
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[(len(list)-1)/2]
}

func (w *world) payments() []*payment {
	return append(append([]*payment(nil), w.grab.payments...), w.goes.payments...)
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Target is one thing that the incident must show.
type Target struct {
	What string `json:"what"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
}

// fullQueue is how long a full queue takes in the fault.
func fullQueue(workers int) time.Duration {
	return queueLimit * serviceTime * faultFactor / time.Duration(workers)
}

// targets compares a complete incident with what was published, before, and with what is promised, after.
func targets(before, after *Side, full time.Duration) []Target {
	b, a := &before.Summary, &after.Summary
	limit := healthyFactor * a.P95Healthy
	return []Target{
		{"before: load on the ledger, busiest second", "about 4 x the baseline (at least 3.5)", fmt.Sprintf("%.2f x", b.LoadPeak), b.LoadPeak >= 3.5},
		{
			"before: p95 of all payments during the fault", fmt.Sprintf("above %.2g s, a full queue", full.Seconds()), fmt.Sprintf("%.2f s", b.P95Fault/1000),
			b.P95Fault > milliseconds(full),
		},
		{"before: the ledger's queue", fmt.Sprintf("full (%d)", queueLimit), fmt.Sprint(before.Ledger.QueueMax), before.Ledger.QueueMax == queueLimit},
		{"after: load on the ledger, busiest second", "at most 1.2 x the baseline", fmt.Sprintf("%.2f x", a.LoadPeak), a.LoadPeak <= 1.2},
		{
			"after: p95 of a second's successes, from 2 s after the fault", fmt.Sprintf("at most 1.5 x healthy (%.1f ms)", limit), fmt.Sprintf("%.1f ms", a.P95After),
			a.P95After > 0 && a.P95After <= limit,
		},
		{"after: as fast as before the fault again", "within 2 s of its end", recovered(a.RecoveredIn), a.RecoveredIn >= 0 && a.RecoveredIn <= settleTime.Seconds()},
		{"after: writes rejected because of a retry", "0", fmt.Sprint(after.Ledger.RejectedForRetry), after.Ledger.RejectedForRetry == 0},
	}
}

func recovered(in float64) string {
	if in < 0 {
		return "not within the run"
	}
	return fmt.Sprintf("the second that began %.0f s after it", in)
}
