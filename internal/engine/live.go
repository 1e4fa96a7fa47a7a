package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// live is what is kept for the live page only: nothing until somebody watches. The zero value is ready to use.
type live struct {
	recents atomic.Pointer[recents]

	mu      sync.Mutex
	closed  bool
	history *history      // nil = nobody watches
	stop    chan struct{} // ends the sampling
	done    chan struct{} // closed when it has ended
}

// Watch begins to remember decisions and rates for the live page. It starts a goroutine, which Close ends. Again, and
// after Close, it does nothing.
func (s *SDK) Watch() {
	l := &s.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.history != nil || l.closed {
		return
	}
	l.recents.Store(new(recents))
	l.history = newHistory(s)
	l.stop, l.done = make(chan struct{}), make(chan struct{})
	go l.history.sample(s, l.stop, l.done)
}

// History returns the rates of the last minutes; it is empty before [SDK.Watch].
func (s *SDK) History() History {
	s.live.mu.Lock()
	h := s.live.history
	s.live.mu.Unlock()
	if h == nil {
		return History{}
	}
	return h.read()
}

// close ends the sampling, and returns when nothing of it runs any more. What was seen stays.
func (l *live) close() {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if l.stop == nil || closed {
		return
	}
	close(l.stop)
	<-l.done
}

// Rates are what happened in one second.
type Rates struct{ Attempts, Failures, Retries, Denials uint32 }

// History is how much happened in each of the last seconds, the oldest first.
type History struct {
	// End is when the latest second was over.
	End time.Time
	// Seconds is the latest second's number, from 1 for the first one that was watched.
	Seconds int
	// All is the sum over all dependencies; Dependencies has those of each, of at most historyDependencies.
	All          []Rates
	Dependencies map[string][]Rates
}

const (
	historySize         = 605 // seconds: ten minutes of steps of five that are over
	historyDependencies = 100 // that are told apart: the first that there are, by name where they came in the same second. 16 bytes a second each: 1 MB in all
)

// history samples the counters once a second.
type history struct {
	mu      sync.Mutex
	begun   time.Time
	seconds int // that were sampled
	end     time.Time
	all     series
	each    map[string]*series
}

// series are the rates of one dependency, or of all.
type series struct {
	before [4]int64 // the counters at the last sample
	rates  [historySize]Rates
}

func newHistory(s *SDK) *history {
	h := &history{begun: time.Now(), each: make(map[string]*series)}
	h.end = h.begun
	h.take(s, h.begun) // what was before is no rate of the first second
	return h
}

func (h *history) sample(s *SDK, stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			h.take(s, time.Now())
		}
	}
}

// take adds what was counted since the last sample. A second in which nobody came to sample, because the machine slept or
// had other work, is empty, and what happened in it is in the next one.
func (h *history) take(s *SDK, now time.Time) {
	counted := s.Totals().Dependencies
	h.mu.Lock()
	defer h.mu.Unlock()
	second := int((now.Sub(h.begun) + time.Second/2) / time.Second) // a tick is early or late by a little
	for h.seconds < second {
		h.seconds = max(h.seconds+1, second-historySize)
		h.blank()
	}
	var sum [4]int64
	for _, name := range slices.Sorted(maps.Keys(counted)) { // so that it is no chance who is told apart
		t := counted[name]
		reading := t.rates()
		for i, n := range reading {
			sum[i] += n
		}
		one := h.each[name]
		if one == nil {
			if len(h.each) >= historyDependencies {
				continue
			}
			one = new(series) // all its calls are of this second: it did not exist before
			h.each[name] = one
		}
		h.put(one, reading)
	}
	h.put(&h.all, sum)
	h.end = now
}

// place is where the latest second's rates are.
func (h *history) place() int { return h.seconds % historySize }

func (h *history) blank() {
	h.all.rates[h.place()] = Rates{}
	for _, one := range h.each {
		one.rates[h.place()] = Rates{}
	}
}

// put adds what was counted to the latest second.
func (h *history) put(s *series, reading [4]int64) {
	if h.seconds > 0 { // what was before the first second is no rate
		since := func(i int) uint32 { return uint32(max(0, reading[i]-s.before[i])) }
		r := &s.rates[h.place()]
		*r = Rates{r.Attempts + since(0), r.Failures + since(1), r.Retries + since(2), r.Denials + since(3)}
	}
	s.before = reading
}

// rates returns the counters that are plotted.
func (t *DependencyTotals) rates() [4]int64 {
	var failures, denials int64
	for _, n := range t.Claims {
		failures += n
	}
	for _, n := range t.Denied {
		denials += n
	}
	return [4]int64{t.Attempts, failures, t.Retries, denials}
}

func (h *history) read() History {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := History{End: h.end, Seconds: h.seconds, All: h.list(&h.all), Dependencies: make(map[string][]Rates, len(h.each))}
	for name, one := range h.each {
		out.Dependencies[name] = h.list(one)
	}
	return out
}

func (h *history) list(s *series) []Rates {
	n := min(h.seconds, historySize)
	list := make([]Rates, n)
	for i := range list {
		list[i] = s.rates[(h.seconds-n+1+i)%historySize]
	}
	return list
}
