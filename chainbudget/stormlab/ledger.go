package stormlab

import (
	"time"

	"github.com/chainbudget/chainbudget-go/breaker"
)

func (s *Scenario) interval() time.Duration {
	if s.Interval == 0 {
		return time.Second
	}
	return s.Interval
}

func (s *Scenario) intervals() int { return int((s.Duration + s.interval() - 1) / s.interval()) }

// ledger counts what happens in one cell, by the interval in which it happens. What happens after the last request has come counts in a
// window of its own, behind the timeline. Nothing is kept of a request.
type ledger struct {
	interval int64
	duration int64
	windows  []window
	services []served
	denied   map[string]int64 // by the gate's word, over the whole run
	reached  int              // intervals that are over
	last     int64            // when the latest request came from outside
}

// window is one interval.
type window struct {
	sent, good, failed int64
	latency            *histogram // of the good; nil = there were none
	services           []counts
	sentTo             []int64 // from outside, by service, without those of clients, which depend on what happened before
	open               int64   // breakers that are not closed at its end
	minted, lost       int64   // tokens, up to its end
	storms             storms
}

// counts are those of one service in one interval.
type counts struct {
	arrivals, failed, rejected int64
	attempts, retries          int64 // that it made
}

// served is what is counted of one service over the whole run.
type served struct{ latency histogram }

func newLedger(s *Scenario) *ledger {
	n := s.intervals() + 1
	l := &ledger{interval: int64(s.interval()), duration: int64(s.Duration), windows: make([]window, n), services: make([]served, len(s.Services)), denied: make(map[string]int64)}
	all, sent := make([]counts, n*len(s.Services)), make([]int64, n*len(s.Services))
	for i := range l.windows {
		from, to := i*len(s.Services), (i+1)*len(s.Services)
		l.windows[i].services, l.windows[i].sentTo = all[from:to:to], sent[from:to:to]
	}
	return l
}

func (l *ledger) at(now int64) *window {
	if now >= l.duration {
		return &l.windows[len(l.windows)-1]
	}
	return &l.windows[now/l.interval]
}

func (l *ledger) sent(to *service, now int64, expected bool) {
	w := l.at(now)
	w.sent++
	l.last = now
	if expected {
		w.sentTo[to.index]++
	}
}

func (l *ledger) ended(ok bool, now, took int64) {
	w := l.at(now)
	if !ok {
		w.failed++
		return
	}
	w.good++
	if w.latency == nil {
		w.latency = new(histogram)
	}
	w.latency.add(took)
}

func (l *ledger) storm(s storm, now int64) {
	if s.hops > 0 {
		l.at(now).storms.add(s)
	}
}

func (l *ledger) arrived(s *service, now int64) { l.at(now).services[s.index].arrivals++ }

func (l *ledger) rejected(s *service, now int64) { l.at(now).services[s.index].rejected++ }

func (l *ledger) answered(s *service, now, took int64, err error) {
	if err != nil {
		l.at(now).services[s.index].failed++
		return
	}
	l.services[s.index].latency.add(took)
}

func (l *ledger) attempt(e *edge, now int64, retry bool) {
	c := &l.at(now).services[e.caller.index]
	c.attempts++
	if retry {
		c.retries++
	}
}

// look takes down the state of breakers and tokens at the end of interval i.
func (l *ledger) look(i int, services []*service) {
	w := &l.windows[i]
	l.reached = i + 1
	for _, s := range services {
		if s.sdk == nil {
			continue
		}
		for _, e := range s.edges {
			if e.dep.Breaker().State() != breaker.Closed {
				w.open++
			}
		}
		minted, lost := s.sdk.Tokens()
		w.minted += minted
		w.lost += lost
	}
}

// close takes down what is known when everything has ended.
func (l *ledger) close(services []*service) {
	for _, s := range services {
		if s.sdk == nil {
			continue
		}
		for _, d := range s.sdk.Totals().Dependencies {
			for reason, n := range d.Denied {
				l.denied[reason] += n
			}
		}
	}
}

// merge adds another cell's counts.
func (l *ledger) merge(o *ledger) {
	l.reached, l.last = min(l.reached, o.reached), max(l.last, o.last)
	for i := range l.windows {
		w, x := &l.windows[i], &o.windows[i]
		w.sent, w.good, w.failed = w.sent+x.sent, w.good+x.good, w.failed+x.failed
		w.open, w.minted, w.lost = w.open+x.open, w.minted+x.minted, w.lost+x.lost
		w.storms.merge(&x.storms)
		if w.latency == nil {
			w.latency = x.latency
		} else if x.latency != nil {
			w.latency.merge(x.latency)
		}
		for k := range w.services {
			a, b := &w.services[k], &x.services[k]
			a.arrivals, a.failed, a.rejected = a.arrivals+b.arrivals, a.failed+b.failed, a.rejected+b.rejected
			a.attempts, a.retries = a.attempts+b.attempts, a.retries+b.retries
			w.sentTo[k] += x.sentTo[k]
		}
	}
	for reason, n := range o.denied {
		l.denied[reason] += n
	}
	for k := range l.services {
		l.services[k].latency.merge(&o.services[k].latency)
	}
}
