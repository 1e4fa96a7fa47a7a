package breaker

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// Settings change while attempts begin and end on all processors: each result counts once, whichever window it began in.
func TestStress_configure_loses_no_result(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	synctest.Test(t, func(t *testing.T) { // for its clock: nothing ages meanwhile
		p := settings()
		p.FailureRatio = 1
		b := New("payments", p, nil)
		attempt(b, Success)
		var stop atomic.Bool
		var changes sync.WaitGroup
		changes.Go(func() {
			for i := 0; !stop.Load(); i++ {
				p.Window = time.Duration(10+min(i/20, 50)%2) * time.Second // fewer changes than slices are kept apart
				p.MinRequests = 1 + i%3
				p.MaxInFlight = i % 2 * 1000
				p.ConsecutiveFailures = i % 3 * 1_000_000
				b.Configure(p)
				b.Merge(time.Now(), time.Second, [][3]uint64{{uint64(i % 10), 0, 0}})
				runtime.Gosched()
			}
		})
		const callers, each = 8, 3000
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for i := range each {
					attempt(b, Outcome(1+i%2))
				}
			})
		}
		wg.Wait()
		stop.Store(true)
		changes.Wait()
		require.Equal(t, Closed, b.State())
		ok, failed := b.Counts()
		require.EqualValues(t, 1+callers*each/2, ok)
		require.EqualValues(t, callers*each/2, failed)
		require.Zero(t, b.flying.out(b.now()))
	})
}

// Whoever looks at the counts while the window changes sees all of them.
func TestStress_counts_do_not_dip(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	p := settings()
	p.Window = time.Hour
	b := New("payments", p, nil)
	attempt(b, Success)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				if ok, _ := b.Counts(); ok != 1 {
					t.Errorf("%d successes", ok)
					return
				}
			}
		})
	}
	for i := range 20_000 {
		p.Window = time.Hour + time.Duration(i%2)*time.Minute
		b.Configure(p)
	}
	stop.Store(true)
	wg.Wait()
}

// Everything at once: run with -race. The changes are told in order, one at a time, and in the end it works.
func TestStress_everything_at_once(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	p := settings()
	p.Window, p.MinRequests, p.OpenFor, p.ProbeTimeout = 20*time.Millisecond, 2, time.Millisecond, 5*time.Millisecond
	var mu sync.Mutex
	last, told := Closed, 0
	var b *Breaker
	b = New("payments", p, func(_ string, from, to State) {
		if !mu.TryLock() {
			t.Error("told twice at once")
			return
		}
		defer mu.Unlock()
		if from != last || from == to {
			t.Errorf("%v to %v after %v", from, to, last)
		}
		last = to
		told++
		b.Counts()
	})
	stop := time.Now().Add(300 * time.Millisecond)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var late [8]Permit
			for n := i; time.Now().Before(stop); n++ {
				b.Done(&late[n%8], Outcome(n%3))
				late[n%8], _ = b.Allow()
				_ = b.Refuses()
				b.State()
				b.Counts()
			}
			for n := range late {
				b.Done(&late[n], Ignored)
			}
		})
	}
	wg.Go(func() {
		for n := 0; time.Now().Before(stop); n++ {
			q := p
			q.Probes = 1 + n%4
			q.Window = time.Duration(1+n%3) * 10 * time.Millisecond
			q.MaxInFlight = n % 5 * 10
			q.ConsecutiveFailures = n % 7
			q.SlowCall, q.SlowRatio = time.Duration(n%2)*time.Millisecond, 0.5
			if n%50 == 0 {
				q = profiles.Breaker{}
			}
			b.Configure(q)
			runtime.Gosched()
		}
		b.Configure(p)
	})
	wg.Go(func() {
		for n := uint64(0); time.Now().Before(stop); n++ {
			b.Merge(time.Now(), time.Millisecond, [][3]uint64{{n % 5, n % 3, 1}, {1, 1, 0}})
			runtime.Gosched()
		}
		b.Merge(time.Now(), time.Millisecond, nil)
	})
	wg.Wait()
	require.NotZero(t, told)
	require.Zero(t, b.flying.out(b.now()), "every permit came back")
	recovered := func() bool {
		attempt(b, Success)
		return b.State() == Closed
	}
	for deadline := time.Now().Add(10 * time.Second); !recovered(); runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "stuck %v", b.State())
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, Closed, last)
}
