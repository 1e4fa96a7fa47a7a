package engine

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A ledger of retries is the reference for the pacer: it knows each, and the begun second in which it went out.
type paceLedger struct {
	reserved int
	sent     []int64 // seconds
}

func (l *paceLedger) used(now int64) (n int) {
	for _, second := range l.sent {
		if second > now-paceSeconds {
			n++
		}
	}
	return l.reserved + n
}

// TestProperty_pacer_agrees_with_a_ledger drives both through the same retries, refunds, changes of the limit and pauses. Beside what
// the ledger says, no 60 s may have more retries than the largest limit that held since they began.
func TestProperty_pacer_agrees_with_a_ledger(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 60))
			limit := 1 + random.IntN(20)
			p, ledger, start := newPacer(limit), paceLedger{}, time.Now()
			var moments []time.Duration
			highest := limit
			for step := range 3000 {
				now := int64(time.Since(start) / time.Second)
				switch random.IntN(8) {
				case 0, 1, 2, 3:
					want := ledger.used(now) < limit
					require.Equal(t, want, p.has(), "step %d", step)
					allowed, held := p.take()
					require.Equal(t, want, allowed, "step %d: %d used of %d", step, ledger.used(now), limit)
					require.Equal(t, allowed, held)
					if allowed {
						ledger.reserved++
					}
				case 4, 5:
					if ledger.reserved > 0 {
						p.sent()
						ledger.reserved--
						ledger.sent = append(ledger.sent, now)
						moments = append(moments, time.Since(start))
					}
				case 6:
					if ledger.reserved > 0 {
						p.refund()
						ledger.reserved--
					}
				default:
					time.Sleep(time.Duration(random.ExpFloat64() * float64(2*time.Second)))
					if random.IntN(50) == 0 {
						time.Sleep(time.Duration(random.IntN(200)) * time.Second)
					}
					if random.IntN(100) == 0 {
						limit = 1 + random.IntN(20)
						highest = max(highest, limit)
						p.change(limit)
					}
				}
			}
			require.Greater(t, len(moments), 10, "the test shows something")
			for i := range moments {
				in, _ := slices.BinarySearch(moments, moments[i]+time.Minute)
				require.LessOrEqual(t, in-i, highest, "retries in the 60 s from %v", moments[i])
			}
		})
	}
}

func TestPacer_gives_its_whole_allowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(60)
		drain := func() (taken int) {
			for {
				if allowed, _ := p.take(); !allowed {
					return taken
				}
				p.sent()
				taken++
			}
		}
		assert.Equal(t, 60, drain())
		time.Sleep(60 * time.Second)
		assert.Zero(t, drain(), "60 s are not over for a window of whole seconds")
		time.Sleep(time.Second)
		assert.Equal(t, 60, drain())
		time.Sleep(time.Hour)
		assert.Equal(t, 60, drain(), "an idle hour saves nothing up")
		p.change(70)
		assert.Equal(t, 10, drain(), "a higher limit counts what went out before")
		p.change(5)
		time.Sleep(61 * time.Second)
		assert.Equal(t, 5, drain())
		p.change(0)
		allowed, held := p.take()
		assert.True(t, allowed && !held && p.has())
		allowed, held = (*pacer)(nil).take()
		assert.True(t, allowed && !held && (*pacer)(nil).has())
	})
}

// TestPacer_waits_do_not_pile_up: what is reserved counts until it goes out, however long that takes.
func TestPacer_waits_do_not_pile_up(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(2)
		for range 2 {
			allowed, _ := p.take()
			require.True(t, allowed)
		}
		time.Sleep(10 * time.Minute)
		assert.False(t, p.has(), "both are still on their way")
		p.sent()
		p.refund()
		assert.True(t, p.has())
		allowed, _ := p.take()
		assert.True(t, allowed)
		assert.False(t, p.has())
	})
}

// TestPacer_conserves_under_concurrency: many goroutines at each moment of virtual time, and at every one of them no more
// than the limit are used; in the end nothing is.
func TestPacer_conserves_under_concurrency(t *testing.T) {
	before := runtime.GOMAXPROCS(8)
	defer runtime.GOMAXPROCS(before)
	synctest.Test(t, func(t *testing.T) {
		const limit = 20
		p := newPacer(limit)
		var taken, refunded atomic.Int64
		var over atomic.Int64
		var all sync.WaitGroup
		for g := range uint64(32) {
			all.Go(func() {
				random := rand.New(rand.NewPCG(g, 8))
				for range 300 {
					time.Sleep(time.Duration(random.IntN(40)) * 100 * time.Millisecond)
					allowed, held := p.take()
					if p.used.Load() > limit {
						over.Add(1)
					}
					if !held {
						continue
					}
					_ = allowed
					taken.Add(1)
					time.Sleep(time.Duration(random.IntN(20)) * 100 * time.Millisecond)
					if random.IntN(4) == 0 {
						refunded.Add(1)
						p.refund()
					} else {
						p.sent()
					}
				}
			})
		}
		all.Wait()
		assert.Zero(t, over.Load(), "more than the limit in use")
		assert.Greater(t, refunded.Load(), int64(10))
		assert.Greater(t, taken.Load(), int64(10*limit/2), "ten minutes' worth, half used up")
		in := 0
		for i := range p.slots {
			in += int(p.slots[i].Load() & paceCount)
		}
		assert.EqualValues(t, in, p.used.Load(), "what is used is what lies in the slots")
		time.Sleep(paceSeconds * time.Second)
		require.True(t, p.has())
		p.sweep()
		assert.Zero(t, p.used.Load())
	})
}
