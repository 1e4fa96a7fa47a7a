package breaker

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Half-open lets the herd through (sony/gobreaker#53 and others).
func TestRegression_A092_half_open_admits_exactly_the_probes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	for _, probes := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			p := settings()
			p.Probes = probes
			b := New("payments", p, nil)
			halfOpen(t, b)
			var admitted, refused atomic.Int32
			var wg sync.WaitGroup
			for range 1000 {
				wg.Go(func() {
					permit, err := b.Allow()
					var open *OpenError
					switch {
					case err == nil:
						admitted.Add(1)
						time.Sleep(200 * time.Millisecond)
						b.Done(&permit, Success)
					case errors.As(err, &open):
						refused.Add(1)
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, probes, admitted.Load())
			require.EqualValues(t, 1000-probes, refused.Load())
			require.Equal(t, Closed, b.State())
		})
	}
}

// The same on real threads, where the race detector and the scheduler have their say.
func TestRegression_A092_half_open_on_real_threads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	p := settings()
	p.Probes, p.OpenFor, p.ProbeTimeout = 3, 10*time.Millisecond, time.Hour
	for range 20 {
		b := New("payments", p, nil)
		open(t, b)
		for !ready(b) {
			runtime.Gosched()
		}
		var admitted atomic.Int32
		var ready, wg sync.WaitGroup
		ready.Add(64)
		for range 64 {
			wg.Go(func() {
				ready.Done()
				ready.Wait()
				if _, err := b.Allow(); err == nil {
					admitted.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 3, admitted.Load())
	}
}

// A probe whose end says nothing keeps its permit for ever (resilience4j#544 and others).
func TestRegression_A093_every_ending_of_a_probe_gives_its_permit_back(t *testing.T) {
	endings := map[string]func(b *Breaker, p Permit){
		"ignored":           func(b *Breaker, p Permit) { b.Done(&p, Ignored) },
		"canceled":          func(b *Breaker, p Permit) { b.Done(&p, outcome(context.Canceled)) },
		"blocked_by_others": func(b *Breaker, p Permit) { defer b.Done(&p, Ignored) },
		"panic": func(b *Breaker, p Permit) {
			defer func() { _ = recover() }()
			defer b.Done(&p, Ignored)
			panic("probe")
		},
		"goexit": func(b *Breaker, p Permit) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer b.Done(&p, Ignored)
				runtime.Goexit()
			}()
			<-done
		},
		"hangs": func(*Breaker, Permit) { time.Sleep(settings().OpenFor + 1) }, // the default
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := settings()
				p.Probes = 1
				b := New("payments", p, nil)
				halfOpen(t, b)
				for range 3 {
					permit, err := b.Allow()
					require.NoError(t, err)
					require.False(t, ready(b))
					end(b, permit)
					require.Equal(t, HalfOpen, b.State(), "it proved nothing")
					require.True(t, ready(b))
				}
				require.True(t, attempt(b, Success))
				require.Equal(t, Closed, b.State())
			})
		})
	}
}

func TestRegression_A093_hung_probe_gives_up_at_its_time_and_not_before(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		p.Probes, p.ProbeTimeout = 2, 3*time.Second
		b := New("payments", p, nil)
		halfOpen(t, b)
		first, err := b.Allow()
		require.NoError(t, err)
		time.Sleep(time.Second)
		second, err := b.Allow()
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.False(t, ready(b), "the first has its full three seconds")
		time.Sleep(1 * time.Nanosecond)
		third, err := b.Allow()
		require.NoError(t, err)
		require.False(t, ready(b), "the second has not had its time")

		b.Done(&first, Failure)
		require.Equal(t, HalfOpen, b.State(), "too late: its permit is the third's")
		b.Done(&second, Success)
		b.Done(&third, Success)
		require.Equal(t, Closed, b.State())
	})
}

// Callers that go away open the breaker of a healthy backend (cockroachdb#35433 and others).
func TestRegression_A094_cancellations_count_for_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		for range 100 {
			require.True(t, attempt(b, outcome(context.Canceled)))
		}
		require.Equal(t, Closed, b.State())
		ok, failed := b.Counts()
		require.Zero(t, ok+failed)

		// Nor does one close a half-open breaker, as a success would.
		halfOpen(t, b)
		for range 10 {
			require.True(t, attempt(b, outcome(context.Canceled)))
			require.Equal(t, HalfOpen, b.State())
		}
	})
}

// outcome judges as the callers of this package have to.
func outcome(err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, context.Canceled):
		return Ignored
	}
	return Failure
}

// Refusals that count as failures keep the breaker open for ever (go-kratos#2777).
func TestRegression_A095_refusals_do_not_keep_it_open(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		open(t, b)
		opened := b.phase().until
		for range 10_000 {
			time.Sleep(b.phase().rules.openFor / 20_000)
			require.False(t, attempt(b, Failure))
		}
		require.Equal(t, opened, b.phase().until)
		time.Sleep(b.phase().rules.openFor)
		for range 3 {
			require.True(t, attempt(b, Success))
		}
		require.Equal(t, Closed, b.State())
	})
}

// A dependency that hangs is seen when attempts end, not while they hang (sony/gobreaker#91): the package comment says so, and
// this holds it to that. The attempt timeout bounds how long it takes.
func TestRegression_A097_attempts_count_when_they_end(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		hanging := make([]Permit, 100)
		for i := range hanging {
			var err error
			hanging[i], err = b.Allow()
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		require.Equal(t, Closed, b.State())
		for i := range 20 {
			require.Equal(t, Closed, b.State())
			b.Done(&hanging[i], Failure)
		}
		require.Equal(t, Open, b.State())
	})
}

// A late report writes where the next attempt reads (gojek/heimdall#63): run with -race.
func TestRegression_A101_late_results_race_with_nothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	p := settings()
	p.OpenFor, p.Window, p.MinRequests = 10*time.Millisecond, 100*time.Millisecond, 2
	b := New("payments", p, func(string, State, State) {})
	stop := time.Now().Add(200 * time.Millisecond)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			var late [8]Permit
			for n := 0; time.Now().Before(stop); n++ {
				b.Done(&late[n%8], Outcome((n+i)%3))
				late[n%8], _ = b.Allow()
				ready(b)
				b.State()
				b.Counts()
			}
		})
	}
	wg.Wait()
	// Whatever happened, it recovers.
	recovered := func() bool {
		attempt(b, Success)
		return b.State() == Closed
	}
	for deadline := time.Now().Add(10 * time.Second); !recovered(); runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "stuck %v", b.State())
	}
}

// A failed probe is shown as what it was (brexhq/CrabTrap#13).
func TestRegression_A102_failed_probe_is_open_half_open_open(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []State
		b := New("payments", settings(), func(_ string, from, to State) { seen = append(seen, from, to) })
		halfOpen(t, b)
		require.True(t, attempt(b, Failure))
		require.Equal(t, Open, b.State())
		require.False(t, ready(b))
		require.Equal(t, []State{Closed, Open, Open, HalfOpen, HalfOpen, Open}, seen)
	})
}

// A jump of the wall clock moves the open time (apache/brpc#3268). To an instant that was stored before, a clock set an
// hour ahead looks as if its own wall part were an hour earlier; its monotonic part stays. On the real clock, because
// the instants of a synctest bubble have no monotonic part.
func TestRegression_A104_wall_clock_does_not_matter(t *testing.T) {
	p := settings()
	p.OpenFor = 30 * time.Minute
	b := New("payments", p, nil)
	open(t, b)
	setWall(t, &b.base, -1)
	require.Equal(t, Open, b.State(), "the clock was set an hour ahead")
	require.False(t, attempt(b, Success))

	p.OpenFor = 10 * time.Millisecond
	b = New("payments", p, nil)
	open(t, b)
	setWall(t, &b.base, 1)
	deadline := time.Now().Add(10 * time.Second)
	for b.State() == Open {
		require.True(t, time.Now().Before(deadline), "the clock was set an hour back")
		runtime.Gosched()
	}
	require.True(t, attempt(b, Success))
}

// setWall moves the wall part of an instant and leaves the monotonic one: the seconds begin at bit 30 of the first word of
// a time.Time that has both.
func setWall(t *testing.T, instant *time.Time, hours int64) {
	t.Helper()
	before := instant.Round(0)
	*(*uint64)(unsafe.Pointer(instant)) += uint64(hours*3600) << 30
	require.Equal(t, time.Duration(hours)*time.Hour, instant.Round(0).Sub(before))
}

// Fault: a result of an older state decides the new one.
func TestRegression_results_of_an_older_state_count_for_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		var old [10]Permit
		for i := range old {
			old[i], _ = b.Allow()
		}
		halfOpen(t, b)
		probe, err := b.Allow()
		require.NoError(t, err)
		b.Done(&old[0], Failure)
		require.Equal(t, HalfOpen, b.State())
		b.Done(&old[1], Success)
		ok, _ := b.Counts()
		require.Zero(t, ok)
		b.Done(&probe, Success)
		attempt(b, Success)
		stale, err := b.Allow()
		require.NoError(t, err)
		copied := stale
		b.Done(&stale, Success)
		require.Equal(t, Closed, b.State())
		b.Done(&copied, Failure)
		for i := range old[2:] {
			b.Done(&old[2+i], Failure)
		}
		ok, failed := b.Counts()
		require.Zero(t, ok+failed)
	})
}

// Fault: gobreaker's two-step breaker counts a result for each time that it is told.
func TestRegression_second_done_does_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		p, err := b.Allow()
		require.NoError(t, err)
		for range 5 {
			b.Done(&p, Success)
			b.Done(&p, Failure)
		}
		ok, failed := b.Counts()
		require.EqualValues(t, 1, ok)
		require.Zero(t, failed)
		b.Done(nil, Failure)
		b.Done(new(Permit), Failure)

		// Half-open, even a copy does nothing.
		halfOpen(t, b)
		p, err = b.Allow()
		require.NoError(t, err)
		first, second := p, p
		b.Done(&p, Success)
		b.Done(&first, Failure)
		require.Equal(t, HalfOpen, b.State())
		b.Done(&second, Success)
		attempt(b, Success)
		require.Equal(t, HalfOpen, b.State())
		ok, _ = b.Counts()
		require.EqualValues(t, 2, ok)
	})
}

// Fault: a fixed window misses a burst across its edge.
func TestRegression_burst_across_an_edge_opens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		p.Window = time.Second
		b := New("payments", p, nil)
		time.Sleep(950 * time.Millisecond)
		for range 10 {
			attempt(b, Failure)
		}
		time.Sleep(100 * time.Millisecond)
		for range 10 {
			attempt(b, Failure)
		}
		require.Equal(t, Open, b.State())
	})
}

// Fault: one goroutine for each breaker. goleak in TestMain fails this package if New starts any.
func TestRegression_A100_breakers_start_no_goroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 1000 {
		open(t, New("payments", settings(), nil))
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}
