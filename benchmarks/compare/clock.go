package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

// side is one subject of a row, ready to be timed.
type side struct {
	subject subject.Subject
	run     *subject.Run
	workers []subject.Op
	n       int       // operations in one round of one worker
	rounds  []float64 // nanoseconds of one operation in each round, in processor time
	reals   []float64 // the same in real time
}

func open(path, who string, workers int) (*side, error) {
	s, err := subject.Find(path, who)
	if err != nil {
		return nil, err
	}
	d := &side{subject: s, run: s.Open(), workers: make([]subject.Op, max(workers, 1))}
	for i := range d.workers {
		d.workers[i] = d.run.Worker()
	}
	return d, nil
}

// calibrate finds how many operations take about one round.
func (d *side) calibrate(round time.Duration) error {
	for d.n = 16; ; d.n *= 2 {
		used, took, err := d.once()
		if err != nil {
			return err
		}
		if len(d.workers) == 1 {
			took = used
		}
		if took >= round/4 {
			d.n = max(1, int(float64(d.n)*float64(round)/float64(took)))
			return nil
		}
	}
}

// once lets every worker do its operations, all at the same time, and returns how much processor time that used and how
// long it took.
func (d *side) once() (used, took time.Duration, err error) {
	loop := func(op subject.Op) error {
		for range d.n {
			if err := op(); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(d.workers))
	begin, before := time.Now(), processor()
	if len(d.workers) == 1 {
		errs[0] = loop(d.workers[0])
	} else {
		var all sync.WaitGroup
		for i, op := range d.workers {
			all.Go(func() { errs[i] = loop(op) })
		}
		all.Wait()
	}
	used, took = processor()-before, time.Since(begin)
	for _, err := range errs {
		if err != nil {
			return 0, 0, fmt.Errorf("%v: %w", d.subject, err)
		}
	}
	return used, took, nil
}

// round measures one round and keeps its times for one operation.
func (d *side) round() error {
	used, took, err := d.once()
	operations := float64(d.n * len(d.workers))
	d.rounds = append(d.rounds, float64(used)/operations)
	d.reals = append(d.reals, float64(took)/operations)
	return err
}

// interleave measures the sides round by round, in turn from the front and from the back, so that none always runs in
// the wake of the same other.
func interleave(sides []*side, rounds int, round time.Duration) error {
	runtime.GC()
	for _, d := range sides {
		if err := d.calibrate(round); err != nil {
			return err
		}
	}
	for i := range rounds {
		order := slices.Clone(sides)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, d := range order {
			if err := d.round(); err != nil {
				return err
			}
		}
	}
	return nil
}

// median returns NaN for no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// ratios compares two sides round by round, after taking off what bare costs, which may be nil. A round in which the peer
// adds nothing is left out.
func ratios(ours, peer, bare []float64) []float64 {
	list := make([]float64, 0, len(ours))
	for i := range ours {
		base := 0.0
		if bare != nil {
			base = bare[i]
		}
		if below := peer[i] - base; below > 0 {
			list = append(list, (ours[i]-base)/below)
		}
	}
	return list
}
