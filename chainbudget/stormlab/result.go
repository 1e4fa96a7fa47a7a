package stormlab

import (
	"math"
	"time"
)

// Result is what came of a scenario. Two runs of one scenario with one seed give the same Result, on any machine and any
// number of processors.
type Result struct {
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
	// Partial says that the run was ended before its time: what is here is what had happened by then.
	Partial bool `json:"partial"`
	// Ended is why, where the scenario itself is the reason: more was under way than the lab holds.
	Ended    string    `json:"ended,omitempty"`
	Variants []Outcome `json:"variants"`
	// Verdicts has one entry for each threshold and variant that it is about.
	Verdicts []Verdict `json:"verdicts"`
}

// Pass reports whether every threshold was kept. A partial result does not pass if there are any.
func (r *Result) Pass() bool {
	for _, v := range r.Verdicts {
		if !v.OK || r.Partial {
			return false
		}
	}
	return true
}

// Outcome is what came of one variant. Latencies are of requests that succeeded, in milliseconds; each is at most 3.2 % too
// long.
type Outcome struct {
	Name     string  `json:"name"`
	Sent     int64   `json:"sent"` // requests from outside
	Good     int64   `json:"good"`
	Failed   int64   `json:"failed"`
	Attempts int64   `json:"attempts"` // between services
	Retries  int64   `json:"retries"`
	Success  float64 `json:"success"`
	// Storms counts failures because of which at least one hop retried. Radius is how many hops between the cause and the entry did
	// because of one of them at most, MeanRadius on average, and Farthest how many calls from its cause the farthest one was.
	Storms     int64   `json:"storms"`
	Radius     int64   `json:"radius"`
	MeanRadius float64 `json:"mean_radius"`
	Farthest   int64   `json:"farthest"`
	// Denied counts what the SDK's gates refused, by their words: retries, and with breaker_open also first attempts.
	Denied   map[string]int64 `json:"denied"`
	P50      float64          `json:"p50_ms"`
	P95      float64          `json:"p95_ms"`
	P99      float64          `json:"p99_ms"`
	Services []ServiceOutcome `json:"services"`
	// Timeline ends where a partial result does. What happened after the last request had come is in the sums only.
	Timeline []IntervalOutcome `json:"timeline"`
}

// ServiceOutcome is what one service saw.
type ServiceOutcome struct {
	Name     string `json:"name"`
	Arrivals int64  `json:"arrivals"`
	// Load is Arrivals as a multiple of what would have come without a single retry and without a failure.
	Load     float64 `json:"load"`
	Failed   int64   `json:"failed"`
	Rejected int64   `json:"rejected"` // by a full queue or too many in flight; they are in Failed, too
	Attempts int64   `json:"attempts"` // that it made
	Retries  int64   `json:"retries"`
	P95      float64 `json:"p95_ms"` // of what it answered well
}

// IntervalOutcome is one interval of the timeline.
type IntervalOutcome struct {
	At       float64 `json:"at_s"` // its beginning
	Sent     int64   `json:"sent"`
	Good     int64   `json:"good"`
	Failed   int64   `json:"failed"`
	Attempts int64   `json:"attempts"`
	Retries  int64   `json:"retries"`
	P95      float64 `json:"p95_ms"`
	// Open is how many breakers are not closed at its end; Minted and Lost are tokens since the beginning.
	Open   int64 `json:"breakers_open"`
	Minted int64 `json:"tokens_minted"`
	Lost   int64 `json:"tokens_lost"`
	// Arrivals are those at each service, in the order of the scenario.
	Arrivals []int64 `json:"arrivals"`
}

// Verdict is whether a variant kept to a threshold. Measured is nil, and the threshold missed, where there was nothing to measure: no
// request, or for a latency none that succeeded.
type Verdict struct {
	Variant  string   `json:"variant"`
	Metric   Metric   `json:"metric"`
	Service  string   `json:"service,omitempty"`
	From     float64  `json:"from_s,omitempty"`  // of the threshold, in seconds
	Until    float64  `json:"until_s,omitempty"` // 0 = the end
	Measured *float64 `json:"measured"`
	Min      *float64 `json:"min,omitempty"`
	Max      *float64 `json:"max,omitempty"`
	OK       bool     `json:"ok"`
	// Shows is what it shows if OK, in the scenario's words.
	Shows string `json:"shows,omitempty"`
}

func milliseconds(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

// round keeps six significant digits: more says nothing, and makes reports hard to read.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// visitsOf returns how often each service is reached by one request to each service, where nothing fails: visits[i][k] is
// how often i's requests reach k.
func (s *Scenario) visitsOf() [][]float64 {
	index := make(map[string]int, len(s.Services))
	for i := range s.Services {
		index[s.Services[i].Name] = i
	}
	visits := make([][]float64, len(s.Services))
	var of func(i int) []float64
	of = func(i int) []float64 {
		if visits[i] != nil {
			return visits[i]
		}
		row := make([]float64, len(s.Services))
		row[i] = 1
		for k := range s.Services[i].Calls {
			call := &s.Services[i].Calls[k]
			weight := float64(max(call.Times, 1))
			if call.Share > 0 {
				weight *= call.Share
			}
			for to, n := range of(index[call.To]) {
				row[to] += weight * n
			}
		}
		visits[i] = row
		return row
	}
	for i := range s.Services {
		of(i)
	}
	return visits
}

// outcome makes the numbers of a variant from what was counted.
func (s *Scenario) outcome(name string, l *ledger, visits [][]float64) Outcome {
	sum := s.sum(l, 0, 0, visits)
	o := Outcome{
		Name: name, Sent: sum.sent, Good: sum.good, Failed: sum.failed, Success: round(share(sum.good, sum.good+sum.failed)), Denied: l.denied,
		Storms: sum.storms.count, Radius: sum.storms.most, MeanRadius: round(sum.storms.mean()), Farthest: sum.storms.farthest,
		P50: milliseconds(sum.latency.percentile(.5)), P95: milliseconds(sum.latency.percentile(.95)), P99: milliseconds(sum.latency.percentile(.99)),
		Services: []ServiceOutcome{}, Timeline: []IntervalOutcome{},
	}
	for k := range s.Services {
		c := &sum.services[k]
		o.Attempts += c.attempts
		o.Retries += c.retries
		o.Services = append(o.Services, ServiceOutcome{
			Name: s.Services[k].Name, Arrivals: c.arrivals, Load: round(per(float64(c.arrivals), sum.expected[k])), Failed: c.failed, Rejected: c.rejected,
			Attempts: c.attempts, Retries: c.retries, P95: milliseconds(l.services[k].latency.percentile(.95)),
		})
	}
	for i := range l.windows[:l.reached] {
		w := &l.windows[i]
		at := IntervalOutcome{
			At: round((time.Duration(i) * s.interval()).Seconds()), Sent: w.sent, Good: w.good, Failed: w.failed,
			Open: w.open, Minted: w.minted, Lost: w.lost,
		}
		if w.latency != nil {
			at.P95 = milliseconds(w.latency.percentile(.95))
		}
		for k := range w.services {
			at.Arrivals = append(at.Arrivals, w.services[k].arrivals)
			at.Attempts += w.services[k].attempts
			at.Retries += w.services[k].retries
		}
		o.Timeline = append(o.Timeline, at)
	}
	return o
}

// sums are the counts of a part of the timeline.
type sums struct {
	sent, good, failed int64
	latency            histogram
	storms             storms
	services           []counts
	expected           []float64 // arrivals without retries and failures
}

// sum adds up the intervals that begin from one moment until another, 0 = to the end.
func (s *Scenario) sum(l *ledger, from, until time.Duration, visits [][]float64) *sums {
	t := &sums{services: make([]counts, len(s.Services)), expected: make([]float64, len(s.Services))}
	for i := range l.windows {
		if at := time.Duration(i) * s.interval(); at < from || until > 0 && at >= until {
			continue
		}
		w := &l.windows[i]
		t.sent, t.good, t.failed = t.sent+w.sent, t.good+w.good, t.failed+w.failed
		t.storms.merge(&w.storms)
		if w.latency != nil {
			t.latency.merge(w.latency)
		}
		for k := range w.services {
			a, b := &t.services[k], &w.services[k]
			a.arrivals, a.failed, a.rejected = a.arrivals+b.arrivals, a.failed+b.failed, a.rejected+b.rejected
			a.attempts, a.retries = a.attempts+b.attempts, a.retries+b.retries
			end := s.Duration
			if i >= l.reached { // of a run that was ended before its time
				end = time.Duration(l.last)
			}
			if sent := float64(w.sentTo[k]) + s.clientsOf(k, i, end); sent > 0 {
				for to, n := range visits[k] {
					t.expected[to] += sent * n
				}
			}
		}
	}
	return t
}

// clientsOf returns how many requests clients would send to service k in interval i, up to an end, if none failed.
func (s *Scenario) clientsOf(k, i int, end time.Duration) (sent float64) {
	from := time.Duration(i) * s.interval()
	until := min(from+s.interval(), end)
	for n := range s.Traffic {
		t := &s.Traffic[n]
		if t.Clients == 0 || t.To != s.Services[k].Name {
			continue
		}
		last := until
		if t.Until > 0 {
			last = min(last, t.Until)
		}
		if during := last - max(from, t.From); during > 0 {
			sent += float64(t.Clients) * float64(during) / float64(t.Every)
		}
	}
	return sent
}

func share(part, whole int64) float64 { return per(float64(part), float64(whole)) }

// per is 0 where there is no whole.
func per(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
