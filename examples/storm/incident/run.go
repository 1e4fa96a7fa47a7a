package incident

import (
	"bytes"
	"context"
	_ "embed" // the catalogs
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

//go:embed retry-catalog.yaml
var catalogFile []byte

//go:embed today-catalog.yaml
var todayFile []byte

// Catalog returns the catalog that both services load, with the chain's budget set.
func Catalog(budget int) []byte {
	return bytes.Replace(catalogFile, []byte("chain: {budget: 3}"), fmt.Appendf(nil, "chain: {budget: %d}", budget), 1)
}

// Side is one of the two runs.
type Side struct {
	Name     string          `json:"name"`
	Ledger   LedgerCounts    `json:"ledger"`
	Services []ServiceCounts `json:"services"`
	Summary  Summary         `json:"summary"`
	Ticks    []Tick          `json:"ticks"`
}

// Result is the whole incident.
type Result struct {
	// Rate is the baseline in payments a second, Workers what the ledger serves at once.
	Rate    int `json:"rate"`
	Workers int `json:"ledger_workers"`
	// Seconds is how long the load lasted, FaultFrom and FaultTo when the fault began and ended.
	Seconds   float64 `json:"seconds"`
	FaultFrom float64 `json:"fault_from_s"`
	FaultTo   float64 `json:"fault_to_s"`
	// Stalled is the longest time that the machine kept a user waiting before the request went out: its own doing, not
	// the services'. Where it is long, the load came in bursts.
	Stalled float64 `json:"stalled_ms"`
	// Complete is false when the run was interrupted; there are then no Targets.
	Complete bool     `json:"complete"`
	Before   Side     `json:"before"`
	After    Side     `json:"after"`
	Targets  []Target `json:"targets"`
}

// Progress is what can be said while the incident runs. Loads are what arrived at the ledger since the last report, as
// multiples of the baseline.
type Progress struct {
	Elapsed, Whole time.Duration
	Fault          bool
	Before, After  float64
}

// Run plays the incident. dir is where the catalog is written; progress is called about four times a second, from one
// goroutine. When ctx ends the result holds what there is, and Run returns no error for that.
func Run(ctx context.Context, s Settings, dir string, progress func(Progress)) (*Result, error) {
	catalog, today := filepath.Join(dir, "retry-catalog.yaml"), ""
	if err := os.WriteFile(catalog, Catalog(s.Budget), 0o600); err != nil {
		return nil, fmt.Errorf("write the ledger's catalog: %w", err)
	}
	if s.Watcher != nil {
		today = filepath.Join(dir, "today-catalog.yaml")
		if err := os.WriteFile(today, todayFile, 0o600); err != nil {
			return nil, fmt.Errorf("write the catalog of before: %w", err)
		}
	}
	list := arrivals(s)
	var worlds [2]*world
	for i, plan := range []struct{ name, catalog string }{{Before, today}, {After, catalog}} {
		w, err := newWorld(s, plan.name, plan.catalog)
		if err != nil {
			if i == 1 {
				_ = worlds[0].shut()
			}
			return nil, err
		}
		worlds[i] = w
	}
	if s.Watcher != nil {
		if err := s.Watcher.Ready(ctx); err != nil {
			for _, w := range worlds {
				_ = w.shut()
			}
			return nil, err
		}
	}
	start := time.Now().Add(100 * time.Millisecond) // both runs have begun to wait for it by then
	for _, w := range worlds {
		w.begin(start)
	}

	watched, stop := context.WithCancel(ctx)
	var watching, sending sync.WaitGroup
	watching.Go(func() { watch(watched, s, start, worlds, progress) })
	var late [2]time.Duration
	for i, w := range worlds {
		sending.Go(func() { late[i] = send(ctx, w, list, start) })
	}
	sending.Wait()
	length := min(max(time.Since(start), 0), s.Duration)
	stop()
	watching.Wait()
	var problems [2]error
	var shutting sync.WaitGroup
	for i, w := range worlds {
		shutting.Go(func() { problems[i] = w.shut() }) // a watcher makes it wait
	}
	shutting.Wait()
	if err := errors.Join(problems[:]...); err != nil {
		return nil, err
	}

	r := &Result{
		Rate: s.Rate, Workers: s.workers(), Seconds: length.Seconds(), FaultFrom: s.faultFrom().Seconds(), FaultTo: s.faultTo().Seconds(),
		Stalled: milliseconds(max(late[0], late[1])), Complete: ctx.Err() == nil, Before: worlds[0].side(s, length), After: worlds[1].side(s, length),
	}
	if r.Complete {
		r.Targets = targets(&r.Before, &r.After, fullQueue(r.Workers))
	}
	return r, nil
}

// side reads what the servers of a world counted. Nothing runs in it any more, but handlers that were cut off may still
// be on their way out.
func (w *world) side(s Settings, length time.Duration) Side {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for _, one := range []*service{w.grab, w.goes} {
		one.mu.Lock()
		defer one.mu.Unlock()
	}
	return Side{
		Name: w.name, Ledger: w.ledger.counts, Services: []ServiceCounts{w.grab.counts, w.goes.counts},
		Summary: w.summary(s, length), Ticks: w.timeline(length),
	}
}

// watch reports progress from the ledgers' counters.
func watch(ctx context.Context, s Settings, start time.Time, worlds [2]*world, progress func(Progress)) {
	ticker := time.NewTicker(tickLength)
	defer ticker.Stop()
	var last [2]int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		elapsed := max(time.Since(start), 0)
		var loads [2]float64
		for i, w := range worlds {
			w.ledger.mu.Lock()
			now := w.ledger.counts.Arrivals
			w.ledger.mu.Unlock()
			loads[i] = float64(now-last[i]) / (float64(s.Rate) * tickLength.Seconds())
			last[i] = now
		}
		progress(Progress{
			Elapsed: min(elapsed, s.Duration), Whole: s.Duration, Fault: elapsed >= s.faultFrom() && elapsed < s.faultTo(),
			Before: loads[0], After: loads[1],
		})
	}
}
