package rolling

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Against a list of all events, through many spans. An event knows until when its slice lasts; where the span
// changes, the slice ends.
func TestTakeOver_property_equals_a_list(t *testing.T) {
	type event struct {
		end           time.Duration
		success, slow bool
	}
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		span := time.Second
		r := new(Ring)
		r.Init(span)
		var now time.Duration
		var events []event
		from := func() time.Duration { return (now/r.Period - (parts - 1)) * r.Period }
		for step := range 2000 {
			switch roll := random.IntN(20); {
			case roll < 12:
				began := max(0, now-time.Duration(random.Int64N(int64(span)))*time.Duration(random.IntN(2)))
				e := event{(began/r.Period + 1) * r.Period, random.IntN(2) > 0, random.IntN(3) == 0}
				events = append(events, e)
				if b := r.At(began); e.slow {
					b.AddSlow(e.success)
				} else {
					b.Add(e.success)
				}
			case roll < 18:
				now += time.Duration(random.Int64N(int64(span) / 4))
			case roll < 19:
				now += time.Duration(random.Int64N(int64(3 * span)))
			default:
				was := from()
				span = time.Duration(1+random.IntN(3000)) * time.Millisecond
				next := new(Ring)
				next.Init(span)
				next.TakeOver(r, now)
				r = next
				kept := events[:0]
				for _, e := range events {
					if e.end = min(e.end, now+1); e.end > was && e.end > from() {
						kept = append(kept, e)
					}
				}
				events = kept
			}
			var want Sums
			for _, e := range events {
				switch {
				case e.end <= from():
					continue
				case e.success:
					want.OK++
				default:
					want.Failed++
				}
				if e.slow {
					want.Slow++
				}
			}
			if got := r.Sum(now); got != want {
				t.Fatalf("seed %d, step %d, span %v at %v: %+v, want %+v", seed, step, span, now, got, want)
			}
		}
	}
}

// However often the span changes within one window: what is kept is bounded, and nothing is lost.
func TestTakeOver_is_bounded(t *testing.T) {
	r := new(Ring)
	r.Init(time.Minute)
	var want Sums
	for i := range 1000 {
		now := time.Duration(i) * 5 * time.Millisecond // five seconds in all
		r.At(now).AddSlow(i%3 == 0)
		if i%3 == 0 {
			want.OK++
		} else {
			want.Failed++
		}
		want.Slow++
		next := new(Ring)
		next.Init(time.Minute + time.Duration(i%2)*time.Second)
		next.TakeOver(r, now)
		next.TakeOver(r, now)
		r = next
		require.Equal(t, want, r.Sum(now))
		if older := r.older.Load(); older != nil {
			require.LessOrEqual(t, len(*older), maxOlder)
		}
	}
	require.Equal(t, want, r.Sum(50*time.Second))
	// In a small window, what was put together counts as long as its youngest.
	const now = 999 * 5 * time.Millisecond
	small := new(Ring)
	small.Init(time.Second)
	small.TakeOver(r, now)
	require.GreaterOrEqual(t, small.Sum(now).Slow, uint64(900/5))
	require.Zero(t, r.Sum(2*time.Minute))
}

// Others count while the span changes, each into the ring that it found: all of it is there.
func TestTakeOver_stress_loses_nothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	var current atomic.Pointer[Ring]
	first := new(Ring)
	first.Init(time.Hour)
	current.Store(first)
	var clock, added atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Like an attempt: what the ring was replaced during is counted in the next.
				r := current.Load()
				at := time.Duration(clock.Add(1)) * time.Microsecond
				b := r.At(at)
				if now := current.Load(); now != r {
					b = now.At(at)
				}
				b.Add(true)
				added.Add(1)
			}
		})
	}
	last := first
	for i := range 30 {
		for until := added.Load() + 500; added.Load() < until; {
			runtime.Gosched()
		}
		next := new(Ring)
		next.Init(time.Hour + time.Duration(i%2)*time.Minute)
		now := time.Duration(clock.Load()) * time.Microsecond
		next.TakeOver(last, now)
		current.Store(next)
		next.TakeOver(last, now)
		last = next
	}
	close(stop)
	wg.Wait()
	require.EqualValues(t, added.Load(), last.Sum(time.Duration(clock.Load())*time.Microsecond).OK)
}
