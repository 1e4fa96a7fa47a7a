package stormlab

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Run runs every variant of s, one after the other, and returns what came of it. It takes virtual time only: a run is as long
// as its events take to compute.
//
// When ctx ends, no further requests come; the result of what had happened by then is returned, marked as partial.
// So it is when more than 200,000 requests and calls are under way at once; the error says so then, and with it comes that result. It
// is as repeatable as any other.
// progress, if not nil, is told several times a second, on a goroutine of Run's, what share of the whole is done. The error
// is that of [Scenario.Validate]. Run must not be called in a bubble of testing/synctest.
func (s *Scenario) Run(ctx context.Context, progress func(share float64)) (*Result, error) {
	return s.run(ctx, progress, maxUnderWay)
}

func (s *Scenario) run(ctx context.Context, progress func(share float64), most int) (*Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	var done atomic.Int64
	if progress != nil {
		all := float64(len(s.Variants)) * float64(max(s.Cells, 1)) * float64(s.intervals())
		defer every(progressInterval, func() { progress(min(float64(done.Load())/max(all, 1), 1)) })()
	}
	visits := s.visitsOf()
	r := &Result{Name: s.Name, Seed: s.Seed, Variants: []Outcome{}, Verdicts: []Verdict{}}
	for i := range s.Variants {
		if stop.Load() {
			break
		}
		v := &s.Variants[i]
		counted, over := s.runVariant(v, most, &stop, &done)
		r.Variants = append(r.Variants, s.outcome(v.Name, counted, visits))
		for k := range s.Expect {
			if e := &s.Expect[k]; e.Variant == "" || e.Variant == v.Name {
				r.Verdicts = append(r.Verdicts, s.verdict(e, v.Name, counted, visits))
			}
		}
		if over != nil {
			r.Partial, r.Ended = true, over.text(v.Name, max(s.Cells, 1))
			return r, errors.New("stormlab: " + r.Ended)
		}
	}
	r.Partial = stop.Load()
	return r, nil
}

const progressInterval = 200 * time.Millisecond

// every calls f again and again until the function that it returns is called, which calls it once more.
func every(interval time.Duration, f func()) (end func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-over:
				f()
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

// runVariant runs all cells, side by side, and returns what they counted together, and the earliest overrun of a cell.
func (s *Scenario) runVariant(v *Variant, most int, stop *atomic.Bool, done *atomic.Int64) (*ledger, *crowd) {
	ledgers := make([]*ledger, max(s.Cells, 1))
	crowds := make([]*crowd, len(ledgers))
	var cells sync.WaitGroup
	for i := range ledgers {
		cells.Add(1)
		go func() {
			defer cells.Done()
			bubble(func() {
				c := newCell(s, v, i, most/len(ledgers), stop, done)
				c.run()
				ledgers[i], crowds[i] = c.counted, c.crowd
			})
		}()
	}
	cells.Wait()
	for _, l := range ledgers[1:] {
		ledgers[0].merge(l)
	}
	// Cells know nothing of each other, an overrun neither: when one learned of it would be the machine's choice.
	var over *crowd
	for _, o := range crowds {
		if o != nil && (over == nil || o.at < over.at) {
			over = o
		}
	}
	return ledgers[0], over
}

// bubble runs f in virtual time, and returns when all goroutines that f started have ended. A test's bubble is the only one
// that Go has; it needs nothing of the test that it is given, which a test of this package watches over.
func bubble(f func()) {
	synctest.Test(new(testing.T), func(*testing.T) { f() })
}
