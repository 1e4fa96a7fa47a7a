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
	older  atomic.Pointer[[]aged] // nil = none; from rings that this one took over from
}

// Block counts what happened in one slice of time.
type Block struct {
	age   int64 // in periods since the start
	cells []cell
}

// cell is one of several counters that goroutines choose from at random, each on a cache line of its own: on one
// counter, 16 cores would wait for each other.
type cell struct {
	ok, failed, slow atomic.Uint64
	_                [40]byte
}

// Sums are what a window holds. The slow are among the other two.
type Sums struct{ OK, Failed, Slow uint64 }

// Init sets the span, which must be above zero. It is called once, before the ring is shared.
func (r *Ring) Init(span time.Duration) {
	// As gobreaker divides its interval, so that both agree on what is inside. The largest spans would overflow.
	r.Period = span/parts + min(1, span%parts)
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
func (r *Ring) Sum(elapsed time.Duration) (s Sums) {
	age := r.age(elapsed)
	for i := range r.blocks {
		if b := r.blocks[i].Load(); b != nil && b.age > age-parts {
			b.addTo(&s)
		}
	}
	if older := r.older.Load(); older != nil {
		from := r.from(elapsed)
		for _, a := range *older {
			if a.end > from {
				a.block.addTo(&s)
			}
		}
	}
	return s
}

func (b *Block) addTo(s *Sums) {
	for i := range b.cells {
		c := &b.cells[i]
		s.OK += c.ok.Load()
		s.Failed += c.failed.Load()
		s.Slow += c.slow.Load()
	}
}

func (r *Ring) age(elapsed time.Duration) int64 {
	return max(0, int64(elapsed/r.Period))
}

// from is when the window at elapsed begins.
func (r *Ring) from(elapsed time.Duration) time.Duration {
	return time.Duration(r.age(elapsed)-(parts-1)) * r.Period
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

// AddSlow counts one event that took long.
func (b *Block) AddSlow(success bool) {
	b.Add(success)
	b.cells[0].slow.Add(1)
}

// cells returns the power of two, at most 8, that covers the processors at work.
func cells() int {
	n := 1
	for n < 8 && n < runtime.GOMAXPROCS(0) {
		n *= 2
	}
	return n
}
