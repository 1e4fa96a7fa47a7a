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

	"github.com/chainbudget/chainbudget-go/profiles"
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

// Without a limit, a dependency that hangs is seen when attempts end, not while they hang (sony/gobreaker#91): the package comment says so, and
// this holds it to that. The attempt timeout bounds how long it takes, and a limit in flight how many it are.
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

func TestRegression_A097_a_limit_bounds_what_hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		p.MaxInFlight = 5
		b := New("payments", p, nil)
		var hanging []Permit
		for range 100 {
			permit, err := b.Allow()
			if err == nil {
				hanging = append(hanging, permit)
				continue
			}
			var full *OpenError
			require.ErrorAs(t, err, &full)
			require.Equal(t, 5, full.MaxInFlight)
			require.EqualError(t, err, "chainbudget: breaker of payments has all of its 5 attempts in flight")
			require.Zero(t, full.RetryIn())
			require.Same(t, err, b.Refuses())
		}
		require.Len(t, hanging, 5)
		require.Equal(t, Closed, b.State(), "the limit is no verdict on the dependency")
		time.Sleep(time.Second)
		for range 3 { // only the first counts
			b.Done(&hanging[0], Success)
		}
		next, err := b.Allow()
		require.NoError(t, err)
		_, err = b.Allow()
		require.Error(t, err)
		b.Done(&next, Ignored)
		require.NoError(t, b.Refuses())
	})
}

// Breakers made and configured anew by the hundred thousand: none leaves a goroutine, and what is dropped is gone.
func TestRegression_A099_breakers_are_released(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	p := settings()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for range 100_000 {
		New("payments", p, nil).Configure(profiles.Breaker{Window: time.Second, FailureRatio: 1, MinRequests: 1, Probes: 1})
	}
	require.Less(t, heap()-before, int64(1<<20), "nothing keeps them")
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)

	kept := make([]*Breaker, 1000)
	before = heap()
	for i := range kept {
		kept[i] = New("payments", p, nil)
	}
	require.Less(t, (heap()-before)/int64(len(kept)), int64(1024), "bytes of an idle breaker")
	runtime.KeepAlive(kept)
}

// One breaker, settings that change all the time while it is used: it stays as large as it was.
func TestRegression_A099_a_breaker_does_not_grow_with_its_reloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goroutines := runtime.NumGoroutine()
		b := New("payments", settings(), nil)
		p := settings()
		p.FailureRatio = 1
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		var before uint64
		for i := range 20_000 {
			p.Window = time.Duration(10+i%7) * time.Second
			p.MaxInFlight = i % 3 * 100
			b.Configure(p)
			attempt(b, Outcome(i%2)) // ignored or good
			attempt(b, Success)
			if i == 1000 {
				before = heap()
			}
		}
		require.Less(t, int64(heap())-int64(before), int64(256<<10))
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
		require.Equal(t, Closed, b.State())
		ok, _ := b.Counts()
		require.EqualValues(t, 30_000, ok, "and nothing that was counted is lost")
		runtime.KeepAlive(b)
	})
}

// One goroutine for each breaker, and a ticket that is not returned when the timer wins.
func TestRegression_A100_no_goroutines_and_all_places_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		for range 1000 {
			p := settings()
			p.MaxInFlight = 30
			b := New("payments", p, nil)
			late := make([]Permit, 30)
			for i := range late {
				var err error
				late[i], err = b.Allow()
				require.NoError(t, err)
			}
			require.Error(t, b.Refuses())
			for i := range late { // each attempt ran into its timeout; after twenty the breaker is open
				b.Done(&late[i], Failure)
			}
			require.Equal(t, Open, b.State())
			require.Zero(t, b.flying.out(b.now()))
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), before)
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

// A change of the settings loses the state, or is in force only after a restart (resilience4j#2365 and others).
func TestRegression_A103_new_settings_keep_the_state_and_are_in_force(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		b := New("payments", p, nil)
		open(t, b)
		until := b.phase().until
		time.Sleep(time.Second)
		p.FailureRatio, p.MinRequests, p.Probes = 0.1, 5, 1
		b.Configure(p)
		require.Equal(t, Open, b.State())
		require.Equal(t, until, b.phase().until, "the timer runs on")
		require.False(t, attempt(b, Success))
		time.Sleep(until - b.now() + 1)
		require.True(t, attempt(b, Success))
		require.Equal(t, Closed, b.State(), "one probe suffices now")
		for range 9 {
			attempt(b, Success)
		}
		attempt(b, Failure)
		require.Equal(t, Open, b.State(), "1 of 10")
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
