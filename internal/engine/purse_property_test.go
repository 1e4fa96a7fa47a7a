package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A bag is the reference for the purse: every token is a thing that lies somewhere. It is slow, single-threaded, and
// shares nothing with the purse but the words.
type bag struct {
	places []place // of each token
	minted bool
	closed bool
	ended  bool
	kept   int
}

// place says where a token lies: with us, in lease number n (above 0), or gone for one of the reasons.
type place int

const (
	here place = -iota
	spentPlace
	lostPlace
	returnedPlace
)

func (b *bag) count(p place) (n int) {
	for _, at := range b.places {
		if at == p {
			n++
		}
	}
	return n
}

func (b *bag) lent() (n int) {
	for _, at := range b.places {
		if at > 0 {
			n++
		}
	}
	return n
}

// move moves up to n tokens, and says how many there were.
func (b *bag) move(from, to place, n int) (moved int) {
	for i, at := range b.places {
		if at == from && moved < n {
			b.places[i] = to
			moved++
		}
	}
	return moved
}

func (b *bag) reserve() string {
	switch {
	case b.ended || b.closed && b.count(here) == 0:
		return "settled"
	case b.count(here) > 0:
		b.move(here, spentPlace, 1)
		return "reserved"
	case b.lent() > 0:
		return "may come home"
	}
	return "exhausted"
}

func (b *bag) refund() {
	if b.closed {
		b.move(spentPlace, lostPlace, 1)
	} else {
		b.move(spentPlace, here, 1)
	}
}

// lend moves into a lease what the rules of lending allow: nothing after the close, never what is kept or the profile
// reserves; where the tokens were minted one stays, unless it is the only one and nothing is out.
func (b *bag) lend(number, reserve int) int {
	have := b.count(here)
	if b.closed || have == 0 {
		return 0
	}
	stay := reserve
	if b.kept > stay {
		stay = b.kept
	}
	last := have == 1 && b.lent() == 0
	if b.minted && !last && stay < 1 {
		stay = 1
	}
	if have <= stay {
		return 0
	}
	return b.move(here, place(number), have-stay)
}

func (b *bag) settle(number, returned, retries int) {
	home := here
	if b.closed {
		home = lostPlace
	}
	b.move(place(number), home, returned)
	b.move(place(number), spentPlace, retries)
	b.move(place(number), lostPlace, len(b.places))
}

func (b *bag) keep(n int) {
	if !b.closed {
		b.kept = max(0, min(n, b.count(here)))
	}
}

func (b *bag) close() int {
	if b.closed {
		return 0
	}
	b.closed = true
	return b.move(here, returnedPlace, b.count(here)-b.kept)
}

func (b *bag) end() {
	b.move(here, lostPlace, len(b.places))
	b.closed, b.ended = true, true
}

func (b *bag) balance() Balance {
	return Balance{
		Granted: len(b.places), Held: b.count(here), Lent: b.lent(), Spent: b.count(spentPlace), Lost: b.count(lostPlace),
		Returned: b.count(returnedPlace), Closed: b.closed,
	}
}

var reservationNames = map[reservation]string{
	reserved: "reserved", mayComeHome: "may come home", exhausted: "exhausted", settled: "settled",
}

// add is what a balance's parts come to.
func (b Balance) add() int { return b.Held + b.Lent + b.Spent + b.Lost + b.Returned }

// TestPurse_AgainstReference runs random sequences of operations on a purse and on a bag of tokens, and compares every
// answer and every balance. It is I3 one operation at a time.
func TestPurse_AgainstReference(t *testing.T) {
	const sequences, operations = 4000, 64
	deps := []*Dependency{{}, {}, {}, {}, {}, {}}
	for i, d := range deps {
		for range minSamples {
			d.latency.add(time.Duration(i+1) * time.Millisecond)
		}
	}
	done := map[string]int{}
	for sequence := range sequences {
		r := rand.New(rand.NewPCG(uint64(sequence), 1))
		tokens, minted := pickTokens(r), r.IntN(2) == 0
		var purse Purse
		purse.open(tokens, minted)
		model := &bag{places: make([]place, max(0, min(tokens, 99))), minted: minted}
		type openLease struct {
			lease
			number int
			dep    int
		}
		var (
			leases  []openLease
			pending int // reserved, and neither made nor given back
			log     []string
		)
		say := func(format string, a ...any) { log = append(log, fmt.Sprintf(format, a...)) }
		ending := r.IntN(operations) // closing is rare, or nothing happens after it
		for step := range operations {
			operation := r.IntN(9)
			if operation >= 7 && step < ending {
				operation = r.IntN(7)
			}
			switch operation {
			case 0, 1:
				want := model.reserve()
				say("reserve: %s", want)
				if peeked := reservationNames[purse.peek()]; peeked != want {
					t.Fatalf("sequence %d: peek says %s\n%s", sequence, peeked, strings.Join(log, "\n"))
				}
				if got := reservationNames[purse.reserve()]; got != want {
					t.Fatalf("sequence %d: reserve says %s\n%s", sequence, got, strings.Join(log, "\n"))
				}
				if want == "reserved" {
					pending++
				}
				done["reserve "+want]++
			case 2:
				if pending == 0 {
					continue
				}
				pending--
				say("refund")
				model.refund()
				purse.refund()
				done["refund"]++
			case 3, 4:
				number, reserve, dep := step+1, r.IntN(8)/3, r.IntN(len(deps))
				want := model.lend(number, reserve)
				say("lend %d with reserve %d: %d", number, reserve, want)
				l := purse.lend(reserve, deps[dep])
				if int(l.tokens) != want {
					t.Fatalf("sequence %d: lend gives %d\n%s", sequence, l.tokens, strings.Join(log, "\n"))
				}
				if want > 0 {
					done["lend"]++
				}
				leases = append(leases, openLease{l, number, dep})
			case 5:
				if len(leases) == 0 {
					continue
				}
				i := r.IntN(len(leases))
				l := leases[i]
				// A hostile or broken callee may say anything; what is not lent cannot come back.
				n := int(l.tokens)
				returned, retries := r.IntN(n+3)-1, r.IntN(n+3)-1
				switch r.IntN(4) {
				case 0:
					say("home %d", l.number)
					model.settle(l.number, n, 0)
					purse.home(&l.lease)
				case 1:
					say("lose %d", l.number)
					model.settle(l.number, 0, 0)
					purse.lose(&l.lease)
				default:
					say("settle %d: %d returned, %d retries", l.number, returned, retries)
					model.settle(l.number, returned, retries)
					purse.settle(&l.lease, returned, retries)
				}
				if r.IntN(2) == 0 { // its return came twice
					say("settle %d again", l.number)
					purse.settle(&l.lease, n, n)
					done["settle twice"]++
				}
				leases = slices.Delete(leases, i, i+1)
				done["settle"]++
			case 6:
				n := r.IntN(4) - 1
				say("keep %d", n)
				model.keep(n)
				if got := purse.keep(n); got != model.kept && !model.closed {
					t.Fatalf("sequence %d: keep gives %d, want %d\n%s", sequence, got, model.kept, strings.Join(log, "\n"))
				}
				done["keep"]++
			case 7:
				want := model.close()
				say("close: %d", want)
				if got := purse.close(); got != want {
					t.Fatalf("sequence %d: close gives %d\n%s", sequence, got, strings.Join(log, "\n"))
				}
				done["close"]++
			case 8:
				if r.IntN(3) > 0 {
					continue
				}
				say("end")
				model.end()
				purse.end()
				done["end"]++
			}
			got, want := purse.Balance(), model.balance()
			if got != want {
				t.Fatalf("sequence %d: balance %+v, want %+v\n%s", sequence, got, want, strings.Join(log, "\n"))
			}
			if got.add() != got.Granted { // I3
				t.Fatalf("sequence %d: %+v does not add up to what was granted\n%s", sequence, got, strings.Join(log, "\n"))
			}
			var slowest time.Duration
			for _, l := range leases {
				if l.tokens > 0 {
					slowest = max(slowest, deps[l.dep].latency.typical())
				}
			}
			if got := purse.slowest(); got < slowest {
				t.Fatalf("sequence %d: the slowest holder takes %v, want at least %v\n%s", sequence, got, slowest, strings.Join(log, "\n"))
			}
		}
	}
	t.Log(done)
	for _, operation := range []string{"reserve reserved", "reserve settled", "reserve may come home", "reserve exhausted", "refund",
		"lend", "settle", "settle twice", "keep", "close", "end"} {
		if done[operation] < 1000 {
			t.Errorf("%s happened %d times in %d sequences, want 1000", operation, done[operation], sequences)
		}
	}
}

// pickTokens returns a grant, mostly small, sometimes out of range.
func pickTokens(r *rand.Rand) int {
	switch r.IntN(10) {
	case 0:
		return 90 + r.IntN(20)
	case 1:
		return -r.IntN(3)
	default:
		return r.IntN(8)
	}
}

// TestPurse_Conserves lets many goroutines work on one purse while others read its balance: it adds up at every moment,
// and in the end every token is where the goroutines know that they left it.
func TestPurse_Conserves(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	const purses, workers, operations = 60, 12, 120
	for n := range purses {
		minted := n%2 == 0
		var purse Purse
		purse.open(1+n%20, minted)
		granted := purse.Balance().Granted
		var spent, lost, returned atomic.Int64
		var working, watching sync.WaitGroup
		stop := make(chan struct{})
		for range 2 {
			watching.Go(func() {
				for {
					b := purse.Balance()
					if b.add() != granted || max(b.Held, b.Lent, b.Spent, b.Lost, b.Returned) > granted {
						t.Errorf("%+v does not add up to %d", b, granted) // I3
						return
					}
					purse.slowest()
					select {
					case <-stop:
						return
					default:
						runtime.Gosched()
					}
				}
			})
		}
		for worker := range workers {
			working.Go(func() {
				r := rand.New(rand.NewPCG(uint64(n), uint64(worker)))
				var dep Dependency
				for step := range operations {
					switch {
					case r.IntN(3) == 0:
						if purse.reserve() == reserved {
							if r.IntN(4) > 0 {
								// Given back after the close it is lost, and nobody is told.
								purse.refund()
							} else {
								spent.Add(1)
							}
						}
					case worker == 0 && step == operations/2 && n%3 == 0:
						returned.Add(int64(purse.close()))
					default:
						l := purse.lend(r.IntN(2), &dep)
						lent := int(l.tokens)
						if lent == 0 {
							continue
						}
						runtime.Gosched()
						switch r.IntN(8) {
						case 0:
							lost.Add(int64(lent))
							purse.lose(&l)
						case 1:
							used := r.IntN(lent + 1)
							spent.Add(int64(used))
							purse.settle(&l, lent-used, used)
						default:
							purse.home(&l)
						}
						purse.settle(&l, lent, 0) // a second return
					}
				}
			})
		}
		working.Wait()
		close(stop)
		watching.Wait()
		b := purse.Balance()
		if b.Lent != 0 || b.Spent != int(spent.Load()) || b.Returned != int(returned.Load()) || b.Lost < int(lost.Load()) ||
			!b.Closed && b.Lost != int(lost.Load()) {
			t.Errorf("purse %d: %+v in the end; spent %d, lost %d, returned %d by the goroutines that did it", n, b, spent.Load(),
				lost.Load(), returned.Load())
		}
		if closed := purse.close(); closed > b.Held {
			t.Errorf("purse %d: closing returns %d of %d", n, closed, b.Held)
		}
	}
}

// TestPurse_WakesWhoeverWaits lets several goroutines wait for the one token of a purse, in all interleavings that the
// scheduler finds. A wake-up that got lost leaves the bubble without a goroutine that can run, which fails the test.
func TestPurse_WakesWhoeverWaits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	const rounds, waiters = 2000, 4
	synctest.Test(t, func(t *testing.T) {
		for round := range rounds {
			var purse Purse
			purse.open(1, false)
			l := purse.lend(0, new(Dependency))
			var got atomic.Int64
			var all sync.WaitGroup
			for range waiters {
				all.Go(func() {
					for {
						changed := purse.watch()
						switch purse.reserve() {
						case reserved:
							got.Add(1)
							purse.refund() // the next waiter's turn
							return
						case exhausted:
							// Somebody else has it for a moment; its refund is a change.
						}
						<-changed
					}
				})
			}
			all.Go(func() {
				if round%2 == 0 {
					synctest.Wait() // everybody waits already
				}
				purse.home(&l)
			})
			all.Wait()
			if got.Load() != waiters {
				t.Fatalf("round %d: %d of %d got the token", round, got.Load(), waiters)
			}
		}
	})
}

// TestPurse_EveryChangeWakes checks each change that can end a wait.
func TestPurse_EveryChangeWakes(t *testing.T) {
	for name, change := range map[string]func(*Purse, *lease){
		"home":   func(p *Purse, l *lease) { p.home(l) },
		"lose":   func(p *Purse, l *lease) { p.lose(l) },
		"settle": func(p *Purse, l *lease) { p.settle(l, 1, 1) },
		"refund": func(p *Purse, _ *lease) { p.refund() },
		"close":  func(p *Purse, _ *lease) { p.close() },
		"end":    func(p *Purse, _ *lease) { p.end() },
	} {
		t.Run(name, func(t *testing.T) {
			var purse Purse
			purse.open(3, false)
			if purse.reserve() != reserved {
				t.Fatal("no token to begin with")
			}
			l := purse.lend(0, new(Dependency))
			first, second := purse.watch(), purse.watch()
			select {
			case <-first:
				t.Fatal("woken before any change")
			default:
			}
			change(&purse, &l)
			for i, c := range []<-chan struct{}{first, second} {
				select {
				case <-c:
				default:
					t.Errorf("waiter %d sleeps on", i+1)
				}
			}
			select {
			case <-purse.watch():
				t.Error("a watch that began after the change is woken by it")
			default:
			}
		})
	}
}

// TestPurse_RemembersHoldersBeyondItsSlots has more leases out than the purse has slots for their holders: the bound on
// waiting must not forget the slow one when others come home first.
func TestPurse_RemembersHoldersBeyondItsSlots(t *testing.T) {
	quick, slow := new(Dependency), new(Dependency)
	for range minSamples {
		quick.latency.add(time.Millisecond)
		slow.latency.add(time.Second)
	}
	var purse Purse
	purse.open(5, false)
	var leases [5]lease
	for i := range leases {
		dep := quick
		if i == len(leases)-1 {
			dep = slow
		}
		leases[i] = purse.lend(len(leases)-1-i, dep) // one token each
		if leases[i].tokens != 1 {
			t.Fatalf("lease %d has %d tokens", i, leases[i].tokens)
		}
	}
	for i := range leases {
		if got := purse.slowest(); got != time.Second {
			t.Errorf("with %d leases home the slowest holder takes %v, want 1s", i, got)
		}
		purse.lose(&leases[i])
	}
	if got := purse.slowest(); got != 0 {
		t.Errorf("with all leases home the slowest holder takes %v, want 0", got)
	}
}
