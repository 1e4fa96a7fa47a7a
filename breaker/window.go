package breaker

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
)

// parts is how many slices of time a window is divided into: what leaves it, leaves in steps of a tenth.
const parts = 10

// A Window counts successes and failures over the last span of time. Adding takes no lock and allocates nothing, except
// for one small block each time a tenth of the span begins. All methods may be called concurrently; a nil
// Window counts nothing.
type Window struct {
	ring  ring
	start time.Time // only ever compared with time.Since: its wall clock does not matter
}

// NewWindow returns an empty window over span, which is rounded up to a multiple of 10 ns. A span that is not above
// zero counts nothing: the result is nil.
func NewWindow(span time.Duration) *Window {
	if span <= 0 {
		return nil
	}
	w := &Window{start: time.Now()}
	w.ring.init(span)
	return w
}

// Add counts one event that happened now.
func (w *Window) Add(success bool) {
	if w != nil {
		w.ring.at(time.Since(w.start)).add(success)
	}
}

// Ratio returns how many of the events in the window were successes, and how many there were. Under concurrent
// adding it is right to within what is being added.
func (w *Window) Ratio() (ok, total uint64) {
	if w == nil {
		return 0, 0
	}
	ok, failed := w.ring.sum(time.Since(w.start))
	return ok, ok + failed
}

// ring is the window without a clock: it is told how long after its start things happen. Each slice of time has a block
// of counters of its own that is never cleared or used again, so that nobody who is late can count into another time:
// a ring of cleared counters would need a lock for that.
type ring struct {
	period time.Duration
	blocks [parts]atomic.Pointer[block]
}

type block struct {
	age   int64 // in periods since the start
	cells []cell
}

// cell is one of several counters that goroutines choose from at random, each on a cache line of its own: on one
// counter, 16 cores would wait for each other.
type cell struct {
	ok, failed atomic.Uint64
	_          [48]byte
}

func (r *ring) init(span time.Duration) {
	// As gobreaker divides its interval, so that both agree on what is inside.
	r.period = (span + parts - 1) / parts
}

// at returns the block of the slice at elapsed.
func (r *ring) at(elapsed time.Duration) *block {
	age := r.age(elapsed)
	p := &r.blocks[age%parts]
	b := p.Load()
	if b != nil && b.age == age {
		return b
	}
	return r.begin(p, age)
}

// begin puts a new block in the place of one that has left the window.
func (r *ring) begin(p *atomic.Pointer[block], age int64) *block {
	var fresh *block
	for {
		old := p.Load()
		switch {
		case old != nil && old.age == age:
			return old
		case old != nil && old.age > age:
			// A goroutine was stopped here for a whole window. Its event has left the window: count it nowhere.
			return &block{age: age, cells: make([]cell, 1)}
		case fresh == nil:
			fresh = &block{age: age, cells: make([]cell, cells())}
		}
		if p.CompareAndSwap(old, fresh) {
			return fresh
		}
	}
}

// sum adds up what is in the window at elapsed.
func (r *ring) sum(elapsed time.Duration) (ok, failed uint64) {
	age := r.age(elapsed)
	for i := range r.blocks {
		b := r.blocks[i].Load()
		if b == nil || b.age <= age-parts || b.age > age {
			continue
		}
		for j := range b.cells {
			ok += b.cells[j].ok.Load()
			failed += b.cells[j].failed.Load()
		}
	}
	return ok, failed
}

func (r *ring) age(elapsed time.Duration) int64 {
	return max(0, int64(elapsed/r.period))
}

func (b *block) add(success bool) {
	c := &b.cells[0]
	if len(b.cells) > 1 {
		c = &b.cells[rand.Uint32()&uint32(len(b.cells)-1)]
	}
	if success {
		c.ok.Add(1)
	} else {
		c.failed.Add(1)
	}
}

// cells returns the power of two, at most 8, that covers the processors at work.
func cells() int {
	n := 1
	for n < 8 && n < runtime.GOMAXPROCS(0) {
		n *= 2
	}
	return n
}
