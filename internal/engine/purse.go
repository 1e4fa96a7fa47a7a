package engine

import (
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// Purse is a hop's account of the tokens that it holds for one inbound request. The whole account is one word, so that
// every change is one compare-and-swap and the account is conserved at every moment (I3). The zero value holds nothing;
// [Purse.open] grants tokens once, before the purse is shared. A Purse must not be copied.
type Purse struct {
	word    atomic.Uint64
	granted uint8
	minted  bool // granted here, not by a caller

	retries atomic.Int32 // retries that this hop put on the wire
	below   atomic.Int32 // retries that returns reported

	// holders are the dependencies that hold a lease, for the bound on waiting. A purse has at most as many leases
	// out as tokens; those beyond the slots are only remembered by overflow, which errs on the long side.
	holders  [4]atomic.Pointer[Dependency]
	overflow atomic.Int64

	changed atomic.Pointer[chan struct{}] // closed when tokens come home; made by the first that waits
}

// account is the purse's word, taken apart.
type account struct {
	held     uint8 // here, free to spend or lend
	lent     uint8 // out in leases
	spent    uint8 // retries made or reserved here, and reported by callees
	lost     uint8 // gone: leases without a return, tokens that came home too late
	returned uint8 // handed back to the caller when the purse closed
	kept     uint8 // of those held, set aside for after the close
	out      uint8 // leases out that hold a token
	closed   bool
	ended    bool
}

func unpack(w uint64) account {
	return account{
		held: uint8(w), lent: uint8(w >> 8), spent: uint8(w >> 16), lost: uint8(w >> 24), returned: uint8(w >> 32),
		kept: uint8(w >> 40), out: uint8(w>>48) & 0x3f, closed: w>>62&1 != 0, ended: w>>63 != 0,
	}
}

func (a account) pack() uint64 {
	w := uint64(a.held) | uint64(a.lent)<<8 | uint64(a.spent)<<16 | uint64(a.lost)<<24 | uint64(a.returned)<<32 |
		uint64(a.kept)<<40 | uint64(a.out)<<48
	if a.closed {
		w |= 1 << 62
	}
	if a.ended {
		w |= 1 << 63
	}
	return w
}

// maxLeases is how many leases may hold tokens at once: what the word has room for.
const maxLeases = 63

func (p *Purse) open(tokens int, minted bool) {
	p.granted = uint8(min(max(tokens, 0), otelprop.MaxTokens))
	p.minted = minted
	p.word.Store(account{held: p.granted}.pack())
}

// change applies f until it wins. f returns false to leave the account as it is. The account goes in and out by value: a
// pointer given to a function value would put it on the heap.
func (p *Purse) change(f func(account) (account, bool)) (account, bool) {
	for {
		w := p.word.Load()
		a, ok := f(unpack(w))
		if !ok {
			return a, false
		}
		if p.word.CompareAndSwap(w, a.pack()) {
			return a, true
		}
	}
}

type reservation uint8

const (
	reserved    reservation = iota // one token was taken
	mayComeHome                    // the purse is empty, but leases are out
	exhausted                      // the purse is empty, and nothing is out
	settled                        // the return has been sent
)

// reserve takes a token for a retry. It counts as spent from now on.
func (p *Purse) reserve() reservation {
	for {
		w := p.word.Load()
		a := unpack(w)
		if r := a.reservable(); r != reserved {
			return r
		}
		a.held--
		a.spent++
		if a.closed {
			a.kept-- // what is held after the close is what was kept
		}
		if p.word.CompareAndSwap(w, a.pack()) {
			return reserved
		}
	}
}

// reservable says what reserve would answer now, without taking anything.
func (a account) reservable() reservation {
	switch {
	case a.ended, a.closed && a.held == 0:
		return settled
	case a.held > 0:
		return reserved
	case a.out > 0:
		return mayComeHome
	default:
		return exhausted
	}
}

func (p *Purse) peek() reservation { return unpack(p.word.Load()).reservable() }

// refund gives a reserved token back: its attempt did not go out.
func (p *Purse) refund() {
	p.change(func(a account) (account, bool) {
		a.spent--
		switch {
		case a.closed:
			a.lost++
		default:
			a.held++
		}
		return a, true
	})
	p.notify()
}

// lease is what one attempt carries. It belongs to one goroutine.
type lease struct {
	tokens uint8
	slot   int8 // index in holders, -1 for none
}

// lend moves into one attempt everything that the purse holds, except what must stay: what was kept, the profile's
// reserve, and for a purse that minted one token, which goes out only while nothing else is lent.
func (p *Purse) lend(reserve int, dep *Dependency) lease {
	for {
		w := p.word.Load()
		a := unpack(w)
		if a.closed || a.held == 0 || a.out >= maxLeases {
			return lease{slot: -1}
		}
		stay := max(int(a.kept), reserve)
		if p.minted && (a.held >= 2 || a.lent > 0) {
			stay = max(stay, 1)
		}
		n := int(a.held) - stay
		if n <= 0 {
			return lease{slot: -1}
		}
		a.held -= uint8(n)
		a.lent += uint8(n)
		a.out++
		if p.word.CompareAndSwap(w, a.pack()) {
			return lease{tokens: uint8(n), slot: p.hold(dep)}
		}
	}
}

func (p *Purse) hold(dep *Dependency) int8 {
	for i := range p.holders {
		if p.holders[i].Load() == nil && p.holders[i].CompareAndSwap(nil, dep) {
			return int8(i)
		}
	}
	if t := int64(dep.latency.typical()); t > p.overflow.Load() {
		p.overflow.Store(t)
	}
	return -1
}

// settle takes a lease home. returned is what the callee sent back and retries what it reported; the rest of the lease
// is gone. A lease is settled once: later calls do nothing (I1: nothing comes home twice).
func (p *Purse) settle(l *lease, returned, retries int) {
	n := l.tokens
	l.tokens = 0
	if retries > 0 {
		p.below.Add(int32(min(retries, otelprop.MaxTokens)))
	}
	if n == 0 {
		return
	}
	if l.slot >= 0 {
		p.holders[l.slot].Store(nil)
	}
	home := uint8(min(max(returned, 0), int(n)))
	used := uint8(min(max(retries, 0), int(n-home)))
	for {
		w := p.word.Load()
		a := unpack(w)
		a.lent -= n
		a.out--
		a.spent += used
		a.lost += n - home - used
		if a.closed {
			a.lost += home
		} else {
			a.held += home
		}
		if p.word.CompareAndSwap(w, a.pack()) {
			break
		}
	}
	p.notify()
}

// home takes a whole lease back: its request provably never left.
func (p *Purse) home(l *lease) { p.settle(l, int(l.tokens), 0) }

// lose gives a whole lease up: nobody said what became of it.
func (p *Purse) lose(l *lease) { p.settle(l, 0, 0) }

// keep sets up to n of the tokens now held aside for after the close and returns how many.
func (p *Purse) keep(n int) int {
	a, _ := p.change(func(a account) (account, bool) {
		if a.closed {
			return a, false
		}
		a.kept = uint8(min(max(n, 0), int(a.held)))
		return a, true
	})
	return int(a.kept)
}

// close is the moment at which the return goes out: what the purse holds and did not keep is handed back. Only the
// first call hands anything back.
func (p *Purse) close() (returned int) {
	a, ok := p.change(func(a account) (account, bool) {
		if a.closed {
			return a, false
		}
		a.kept = min(a.kept, a.held)
		a.returned = a.held - a.kept
		a.held = a.kept
		a.closed = true
		return a, true
	})
	if !ok {
		return 0
	}
	p.notify()
	return int(a.returned)
}

// end is the moment at which the handler is done: nothing of this purse can be used any more.
func (p *Purse) end() {
	_, ok := p.change(func(a account) (account, bool) {
		if a.ended {
			return a, false
		}
		a.lost += a.held
		a.held, a.kept = 0, 0
		a.closed, a.ended = true, true
		return a, true
	})
	if ok {
		p.notify()
	}
}

// notify wakes everybody that waits for a lease to come home. The account is changed before; a waiter announces itself
// before it looks at the account. So either the waiter sees the change, or this call sees the waiter.
func (p *Purse) notify() {
	if p.changed.Load() == nil {
		return
	}
	if c := p.changed.Swap(nil); c != nil {
		close(*c)
	}
}

// watch returns a channel that is closed at the next change after this call.
func (p *Purse) watch() <-chan struct{} {
	for {
		if c := p.changed.Load(); c != nil {
			return *c
		}
		c := make(chan struct{})
		if p.changed.CompareAndSwap(nil, &c) {
			return c
		}
	}
}

// slowest is the typical attempt time of the slowest dependency that holds a lease, 0 if it is not known.
func (p *Purse) slowest() time.Duration {
	var t time.Duration
	known := uint8(0)
	for i := range p.holders {
		if d := p.holders[i].Load(); d != nil {
			known++
			t = max(t, d.latency.typical())
		}
	}
	if unpack(p.word.Load()).out > known { // not all slots: those may be free again while the lease that found none is out
		t = max(t, time.Duration(p.overflow.Load()))
	}
	return t
}

func (p *Purse) held() int { return int(unpack(p.word.Load()).held) }

// Balance is one moment of a purse. Held, Lent, Spent, Lost and Returned always add up to Granted (I3).
type Balance struct {
	Granted, Held, Lent, Spent, Lost, Returned int
	Closed                                     bool
}

// Balance returns the account as it is now.
func (p *Purse) Balance() Balance {
	a := unpack(p.word.Load())
	return Balance{
		Granted: int(p.granted), Held: int(a.held), Lent: int(a.lent), Spent: int(a.spent), Lost: int(a.lost),
		Returned: int(a.returned), Closed: a.closed,
	}
}
