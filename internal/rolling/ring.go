package rolling

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
)

// parts is how many slices of time a window is divided into: what leaves it, leaves in steps of a tenth.
const parts = 10

// Ring is the window without a clock: it is told how long after its start things happen. Each slice of time has a block
// of counters of its own that is never cleared or used again, so that nobody who is late can count into another time:
// a ring of cleared counters would need a lock for that.
type Ring struct {
	Period time.Duration // the slice of time that a block covers
	blocks [parts]atomic.Pointer[Block]
}

// Block counts what happened in one slice of time.
type Block struct {
	age   int64 // in periods since the start
	cells []cell
}

// cell is one of several counters that goroutines choose from at random, each on a cache line of its own: on one
// counter, 16 cores would wait for each other.
type cell struct {
	ok, failed atomic.Uint64
	_          [48]byte
}

// Init sets the span. It is called once, before the ring is shared.
func (r *Ring) Init(span time.Duration) {
	// As gobreaker divides its interval, so that both agree on what is inside.
	r.Period = (span + parts - 1) / parts
}

// At returns the block of the slice at elapsed.
func (r *Ring) At(elapsed time.Duration) *Block {
	age := r.age(elapsed)
	p := &r.blocks[age%parts]
	b := p.Load()
	if b != nil && b.age == age {
		return b
	}
	return r.begin(p, age)
}

// begin puts a new block in the place of one that has left the window.
func (r *Ring) begin(p *atomic.Pointer[Block], age int64) *Block {
	var fresh *Block
	for {
		old := p.Load()
		switch {
		case old != nil && old.age == age:
			return old
		case old != nil && old.age > age:
			// A goroutine was stopped here for a whole window. Its event has left the window: count it nowhere.
			return &Block{age: age, cells: make([]cell, 1)}
		case fresh == nil:
			fresh = &Block{age: age, cells: make([]cell, cells())}
		}
		if p.CompareAndSwap(old, fresh) {
			return fresh
		}
	}
}

// Sum adds up what is in the window at elapsed.
func (r *Ring) Sum(elapsed time.Duration) (ok, failed uint64) {
	age := r.age(elapsed)
	for i := range r.blocks {
		b := r.blocks[i].Load()
		if b == nil || b.age <= age-parts {
			continue
		}
		for j := range b.cells {
			ok += b.cells[j].ok.Load()
			failed += b.cells[j].failed.Load()
		}
	}
	return ok, failed
}

func (r *Ring) age(elapsed time.Duration) int64 {
	return max(0, int64(elapsed/r.Period))
}

// Add counts one event.
func (b *Block) Add(success bool) {
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
