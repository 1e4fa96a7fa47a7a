package breaker

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// probes are the permits of a half-open era. Breaker.mu guards what is not atomic.
type probes struct {
	want  int // have to succeed
	done  int // have succeeded
	out   int
	slots []slot
	times []time.Duration // overdue sorts here, so that it does not allocate

	// What admits reads.
	free   atomic.Int64
	due    atomic.Int64 // from when on the oldest of the probes that are out can be replaced; MaxInt64 = never
	flying atomic.Bool  // the oldest holds a place in flight
}

// slot is one permit.
type slot struct {
	state  slotState
	serial uint32 // of the probe that holds it, so that one who lost it cannot report for the next
	due    time.Duration
	began  time.Duration
	flying bool // it holds a place in flight, which goes back when it leaves the slot
}

type slotState uint8

const (
	slotFree slotState = iota
	slotOut
	slotDone // its probe succeeded
)

func newProbes(want int) *probes {
	ps := new(probes)
	ps.resize(want)
	return ps
}

// resize changes how many have to succeed. Those that are out stay out, also where they are more than that.
func (ps *probes) resize(want int) {
	ps.want = want
	if more := want - len(ps.slots); more > 0 {
		ps.slots = append(ps.slots, make([]slot, more)...)
		ps.times = make([]time.Duration, len(ps.slots))
	}
	ps.tally()
}

// enough reports whether those that have succeeded suffice.
func (ps *probes) enough() bool { return ps.done >= ps.want }

// admits reports whether there is a permit to give, or one to take back. It takes no lock.
func (ps *probes) admits(now time.Duration) bool {
	return ps.free.Load() > 0 || int64(now) > ps.due.Load()
}

// spare is how many places in flight the next probe gets from the one that it replaces. It takes no lock.
func (ps *probes) spare() int {
	if ps.free.Load() <= 0 && ps.flying.Load() {
		return 1
	}
	return 0
}

// find returns a free slot, or that of the probe whose time has been over for longest; nil = there is none to give.
func (ps *probes) find(now time.Duration) (i int, s *slot) {
	switch {
	case !ps.admits(now):
		return -1, nil
	case ps.free.Load() > 0:
		i = slices.IndexFunc(ps.slots, func(s slot) bool { return s.state == slotFree })
	default:
		i = ps.oldest()
	}
	return i, &ps.slots[i]
}

// oldest returns which of the probes that are out runs out of time first; -1 = none is out.
func (ps *probes) oldest() int {
	oldest := -1
	for i := range ps.slots {
		if s := &ps.slots[i]; s.state == slotOut && (oldest < 0 || s.due < ps.slots[oldest].due) {
			oldest = i
		}
	}
	return oldest
}

// ticket names a slot, and in its upper half the probe that holds it.
type ticket uint64

// take gives slot i to a probe that begins at now.
func (ps *probes) take(i int, now, limit time.Duration, flying bool) ticket {
	s := &ps.slots[i]
	s.state, s.began, s.due, s.flying = slotOut, now, now+limit, flying
	s.serial++
	ps.tally()
	return ticket(s.serial)<<32 | ticket(i)
}

// held returns the slot of a probe, or nil if it has given it up.
func (ps *probes) held(t ticket) *slot {
	if s := &ps.slots[uint32(t)]; s.state == slotOut && s.serial == uint32(t>>32) {
		return s
	}
	return nil
}

// tally updates the numbers.
func (ps *probes) tally() {
	ps.done, ps.out = 0, 0
	for _, s := range ps.slots {
		switch s.state {
		case slotOut:
			ps.out++
		case slotDone:
			ps.done++
		}
	}
	free := ps.want - ps.done - ps.out
	due, flying := int64(math.MaxInt64), false
	if oldest := ps.oldest(); oldest >= 0 {
		due, flying = int64(ps.slots[oldest].due), ps.slots[oldest].flying
	}
	if free < 0 {
		due = int64(ps.overdue(1 - free))
	}
	ps.flying.Store(flying)
	ps.due.Store(due)
	ps.free.Store(int64(free))
}

// overdue returns when n of the probes that are out have run out of time. It is asked after want was made smaller: so
// many have to be given up before fewer than want are left.
func (ps *probes) overdue(n int) time.Duration {
	due := ps.times[:0]
	for _, s := range ps.slots {
		if s.state == slotOut {
			due = append(due, s.due)
		}
	}
	slices.Sort(due)
	if n > len(due) {
		return math.MaxInt64
	}
	return due[n-1]
}
