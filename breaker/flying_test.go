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

func limited(n int) profiles.Breaker {
	return changed(func(p *profiles.Breaker) { p.MaxInFlight = n })
}

// take admits n attempts.
func take(t *testing.T, b *Breaker, n int) []Permit {
	t.Helper()
	out := make([]Permit, n)
	for i := range out {
		var err error
		out[i], err = b.Allow()
		require.NoError(t, err)
	}
	return out
}

func TestFlying_permits_of_an_old_phase_give_their_place_back_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", limited(30), nil)
		old := take(t, b, 5)
		open(t, b)
		require.Equal(t, 5, b.flying.out(b.now()))
		time.Sleep(b.phase().rules.openFor + 1)
		probes := take(t, b, 3)
		require.Equal(t, 8, b.flying.out(b.now()))
		b.Done(&old[0], Failure)
		require.Equal(t, 7, b.flying.out(b.now()))
		b.Done(&probes[0], Failure)
		require.Equal(t, Open, b.State())
		for range 2 {
			for i := range probes {
				b.Done(&probes[i], Success)
			}
			for i := range old {
				b.Done(&old[i], Success)
			}
		}
		require.Zero(t, b.flying.out(b.now()))
	})
}

func TestFlying_limit_changes_with_permits_out(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", limited(10), nil)
		out := take(t, b, 10)
		b.Configure(limited(4))
		var full *OpenError
		require.ErrorAs(t, b.Refuses(), &full)
		require.Equal(t, 4, full.MaxInFlight)
		for i := range 6 {
			b.Done(&out[i], Success)
			require.Error(t, b.Refuses(), "%d are out", 9-i)
		}
		b.Done(&out[6], Success)
		require.NoError(t, b.Refuses(), "three are")
		b.Configure(limited(5))
		more := take(t, b, 2)
		require.Error(t, b.Refuses())
		b.Configure(settings())
		uncounted := take(t, b, 100)
		b.Configure(limited(6))
		last := take(t, b, 1)
		require.Error(t, b.Refuses(), "what began without a limit has no place")
		for _, list := range [][]Permit{out, more, uncounted, last} {
			for i := range list {
				b.Done(&list[i], Success)
			}
		}
		require.Zero(t, b.flying.out(b.now()))
		ok, _ := b.Counts()
		require.EqualValues(t, 10+2+100+1, ok)
	})
}

// An attempt that is never reported takes a place for two hours at most.
func TestFlying_a_lost_permit_comes_back(t *testing.T) {
	for _, began := range []time.Duration{0, time.Minute, time.Hour - 1, time.Hour, 90 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := New("payments", limited(3), nil)
			time.Sleep(began)
			lost := take(t, b, 3)
			require.Error(t, b.Refuses())
			time.Sleep(time.Hour)
			require.Error(t, b.Refuses(), "an attempt may take an hour")
			time.Sleep(time.Hour)
			require.NoError(t, b.Refuses())
			next := take(t, b, 3)
			require.Error(t, b.Refuses())
			for i := range lost {
				b.Done(&lost[i], Success)
			}
			require.Error(t, b.Refuses(), "late, they give back nothing that is not theirs")
			for i := range next {
				b.Done(&next[i], Success)
			}
			require.Zero(t, b.flying.out(b.now()))
		})
	}
}

// A probe that hangs must not hold the place of the one that replaces it.
func TestFlying_a_hung_probe_leaves_its_place_to_the_next(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limited(1)
		p.Probes = 1
		b := New("payments", p, nil)
		halfOpen(t, b)
		hung := take(t, b, 1)
		for range 3 {
			require.Error(t, b.Refuses())
			time.Sleep(settings().OpenFor + 1)
			require.NoError(t, b.Refuses())
			next := take(t, b, 1)
			b.Done(&hung[0], Failure)
			require.Equal(t, 1, b.flying.out(b.now()))
			hung = next
		}
		b.Done(&hung[0], Success)
		require.Equal(t, Closed, b.State())
		require.Zero(t, b.flying.out(b.now()))
	})
}

// Attempts that hang since before it opened keep their places, so that a probe may be one too many. It takes no slot then.
func TestFlying_a_probe_that_is_refused_takes_no_slot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []State
		b := New("payments", limited(23), func(_ string, _, to State) { seen = append(seen, to) })
		out := take(t, b, 3)
		open(t, b)
		b.Configure(limited(3))
		time.Sleep(b.phase().rules.openFor + 1)
		_, err := b.Allow()
		var full *OpenError
		require.ErrorAs(t, err, &full)
		require.Equal(t, 3, full.MaxInFlight)
		require.Same(t, err, b.Refuses())
		require.Equal(t, []State{Open}, seen)
		b.Done(&out[0], Ignored)
		probe := take(t, b, 1)
		require.Error(t, b.Refuses(), "the limit, where two more probes might go")
		b.Done(&out[1], Ignored)
		b.Done(&out[2], Ignored)
		more := take(t, b, 2)
		for _, p := range append(more, probe...) {
			b.Done(&p, Success)
		}
		require.Equal(t, []State{Open, HalfOpen, Closed}, seen)
	})
}

// Clocks are read before the word, so that one may be of the hour that has just ended, or, from a caller who kept it, of
// long ago.
func TestFlying_late_readings(t *testing.T) {
	var f flying
	require.True(t, f.take(time.Hour, 3))
	require.True(t, f.take(time.Hour-1, 3))
	require.Equal(t, 2, f.out(time.Hour))
	require.Equal(t, 1, f.out(2*time.Hour), "each leaves with its own hour")
	f.give(time.Hour - 1)
	require.Equal(t, 1, f.out(time.Hour))
	for range 3 { // a copy of a permit
		f.give(time.Hour - 1)
		require.Equal(t, 1, f.out(time.Hour))
	}
	f.give(time.Hour)
	f.give(time.Hour)
	require.Zero(t, f.out(time.Hour))

	require.True(t, f.take(10*time.Hour, 3))
	require.True(t, f.take(time.Hour, 3), "admitted and not counted")
	require.Equal(t, 1, f.out(10*time.Hour))
	f.give(time.Hour)
	require.Equal(t, 1, f.out(10*time.Hour))
}

func TestFlying_holds_the_largest_limit(t *testing.T) {
	var f flying
	for range 1_000_000 {
		if !f.take(0, 1_000_000) {
			t.Fatal("refused")
		}
	}
	require.False(t, f.take(0, 1_000_000))
	require.Equal(t, 1_000_000, f.out(0))
	require.Equal(t, 1_000_000, f.out(time.Hour))
	f.give(0)
	require.True(t, f.take(time.Hour, 1_000_000))
	require.False(t, f.take(time.Hour, 1_000_000))
	require.Equal(t, 1, f.out(2*time.Hour))
}

func TestFlying_stress_never_more_than_the_limit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	b := New("payments", limited(3), nil)
	var out, admitted atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20_000 {
				p, err := b.Allow()
				if err != nil {
					continue
				}
				admitted.Add(1)
				if n := out.Add(1); n > 3 {
					t.Errorf("%d are out", n)
				}
				runtime.Gosched()
				out.Add(-1)
				b.Done(&p, Success)
			}
		})
	}
	wg.Wait()
	require.NotZero(t, admitted.Load())
	require.Zero(t, b.flying.out(b.now()))
	ok, _ := b.Counts()
	require.EqualValues(t, admitted.Load(), ok)
}

func TestFlying_stress_loses_no_place(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	var f flying
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50_000 {
				f.take(0, 1000)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1000, f.out(0))
	for range 8 {
		wg.Go(func() {
			for range 50_000 {
				f.give(0)
				f.take(0, 1000)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1000, f.out(0), "each takes what it gave")
}
