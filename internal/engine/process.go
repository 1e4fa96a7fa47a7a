package engine

import (
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// pacer lets at most so many retries out in any 60 seconds: those of the whole process, or those with one profile. A retry
// is reserved when it is decided, and counts from then on; its minute begins when it goes out, so that waits between the
// two cannot pile up more than the limit. Only reservations are decided about, on one number by compare-and-swap. All
// methods may be called by many goroutines at once.
type pacer struct {
	start time.Time
	limit atomic.Int64 // in a minute; 0 = none
	used  atomic.Int64 // reserved, or sent in a second that may still be within the minute
	swept atomic.Int64 // the second up to which what has left the minute was taken off used
	// slots count what was sent in one second each: the second since start, and in the last bits the count.
	slots [paceSlots]atomic.Uint64
}

const (
	// paceSeconds is how many begun seconds count: the present one and the sixty before it, of which the first may lie
	// wholly within the minute. So up to a second more than a minute counts, never less.
	paceSeconds   = 61
	paceSlots     = 64 // the next power of two: a slot is used again when its second has left
	paceCountBits = 24
	paceCount     = 1<<paceCountBits - 1 // more than the largest limit
)

func newPacer(limit int) *pacer {
	p := new(pacer)
	p.init(limit)
	return p
}

// pacerOf returns the limit that all dependencies with a profile share, nil if the profile has none.
func (s *SDK) pacerOf(p *profiles.Profile) *pacer {
	if p.ProcessBudget <= 0 {
		return nil
	}
	if known, ok := s.pacers.Load(p.Name); ok {
		return known.(*pacer)
	}
	made, _ := s.pacers.LoadOrStore(p.Name, newPacer(p.ProcessBudget))
	return made.(*pacer)
}

// init starts the clock. It is called once, before p is shared.
func (p *pacer) init(limit int) {
	p.start = time.Now()
	p.change(limit)
}

// change sets the limit, also while retries are under way. What went out without a limit is not known.
func (p *pacer) change(limit int) { p.limit.Store(int64(limit)) }

func (p *pacer) second() int64 { return int64(time.Since(p.start) / time.Second) }

// has reports whether a retry could be reserved.
func (p *pacer) has() bool {
	if p == nil {
		return true
	}
	limit := p.limit.Load()
	if limit == 0 || p.used.Load() < limit {
		return true
	}
	p.sweep()
	return p.used.Load() < limit
}

// take reserves a retry. Without a limit there is nothing to hold, and held is false: then it must be neither refunded nor
// sent.
func (p *pacer) take() (allowed, held bool) {
	if p == nil {
		return true, false
	}
	for {
		limit, used := p.limit.Load(), p.used.Load()
		switch {
		case limit == 0:
			return true, false
		case used >= limit:
			p.sweep()
			if p.used.Load() >= limit {
				return false, false
			}
		case p.used.CompareAndSwap(used, used+1):
			return true, true
		}
	}
}

// reading returns how many retries count in this minute, and the limit; 0 = there is none.
func (p *pacer) reading() (used, limit int64) {
	p.sweep()
	return max(0, p.used.Load()), p.limit.Load()
}

// ProcessBudget returns how many retries of the whole process count in this minute, and how many may; 0 = any number.
func (s *SDK) ProcessBudget() (used, limit int64) { return s.process.reading() }

// refund gives a reservation back whose retry does not go out.
func (p *pacer) refund() { p.used.Add(-1) }

// sent says that a reserved retry goes out now: its minute begins.
func (p *pacer) sent() {
	for {
		now := p.second()
		slot := &p.slots[now%paceSlots]
		v := slot.Load()
		switch second := int64(v >> paceCountBits); {
		case second == now:
			if slot.CompareAndSwap(v, v+1) {
				return
			}
		case second < now: // by a whole round: it has left the minute
			if slot.CompareAndSwap(v, uint64(now)<<paceCountBits|1) {
				p.used.Add(-int64(v & paceCount))
				return
			}
		} // else the clock was read too long ago
	}
}

// sweep takes off used what has left the minute. Each count is taken off once, by whoever empties its slot.
func (p *pacer) sweep() {
	now := p.second()
	if p.swept.Load() == now {
		return
	}
	for i := range p.slots {
		slot := &p.slots[i]
		v := slot.Load()
		if n := v & paceCount; n > 0 && int64(v>>paceCountBits) <= now-paceSeconds && slot.CompareAndSwap(v, v-n) {
			p.used.Add(-int64(n))
		}
	}
	p.swept.Store(now)
}
