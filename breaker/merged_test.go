package breaker

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

func TestMerge_opens_at_once_with_what_others_saw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		var seen []State
		b = New("payments", settings(), func(_ string, from, to State) {
			b.Counts() // with no lock held
			seen = append(seen, from, to)
		})
		time.Sleep(3 * time.Second)
		for range 5 {
			attempt(b, Success)
			attempt(b, Failure)
		}
		b.Merge(time.Now(), time.Second, [][3]uint64{{2, 3, 0}, {3, 1, 0}})
		require.Equal(t, Closed, b.State(), "9 failures of 19")
		ok, failed := b.Counts()
		require.Equal(t, []uint64{5, 5}, []uint64{ok, failed}, "its own, as before")
		b.Merge(time.Now(), time.Second, [][3]uint64{{2, 3, 0}, {3, 2, 0}})
		require.Equal(t, []State{Closed, Open}, seen, "10 of 20")
	})
}

func TestMerge_counts_with_the_next_failure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		time.Sleep(3 * time.Second)
		b.Merge(time.Now(), time.Second, [][3]uint64{{0, 12, 0}, {0, 7, 0}})
		require.Equal(t, Closed, b.State(), "19 of 19, and 20 are needed")
		attempt(b, Failure)
		require.Equal(t, Open, b.State())
	})
}

func TestMerge_replaces_and_forgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		time.Sleep(3 * time.Second)
		for range 5 {
			b.Merge(time.Now(), time.Second, [][3]uint64{{0, 15, 0}})
		}
		require.Equal(t, Closed, b.State(), "15, however often they are told")
		b.Merge(time.Now(), time.Second, nil)
		for range 19 {
			attempt(b, Failure)
		}
		require.Equal(t, Closed, b.State(), "19 of its own")
		b.Merge(time.Now(), time.Second, [][3]uint64{{30, 0, 0}})
		attempt(b, Failure)
		require.Equal(t, Closed, b.State(), "others see that it works: 20 of 50")
		b.Merge(time.Now(), 0, [][3]uint64{{30, 0, 0}})
		attempt(b, Failure)
		require.Equal(t, Open, b.State())
	})
}

// Without another Merge, what was merged leaves the window as the breaker's own does: a store that went away is gone after
// one window.
func TestMerge_ages_out(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		p.MinRequests, p.FailureRatio = 1, 0.5
		b := New("payments", p, nil)
		time.Sleep(time.Minute)
		slices := make([][3]uint64, 15)
		for i := range slices {
			slices[i] = [3]uint64{10, 0, 0}
		}
		b.Merge(time.Now(), time.Second, slices)
		for left := 10; left >= 0; left-- {
			b.mu.Lock()
			got := b.others.sum(b.now(), b.phase())
			b.mu.Unlock()
			require.EqualValues(t, 10*left, got.OK, "only what lies within the window")
			time.Sleep(time.Second)
		}
		attempt(b, Failure)
		require.Equal(t, Open, b.State(), "1 of 1: its own view")
	})
}

func TestMerge_counts_only_what_began_after_it_closed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		time.Sleep(time.Minute)
		outage := [][3]uint64{{0, 0, 0}, {0, 50, 0}, {0, 50, 0}, {0, 50, 0}}
		b.Merge(time.Now(), time.Second, outage)
		require.Equal(t, Open, b.State())
		b.Merge(time.Now(), time.Second, outage)
		time.Sleep(b.phase().rules.openFor + 1)
		attempt(b, Success)
		b.Merge(time.Now(), time.Second, outage)
		attempt(b, Success)
		attempt(b, Success)
		require.Equal(t, Closed, b.State(), "half-open, only probes decide")
		for range 5 {
			b.Merge(time.Now(), time.Second, outage)
			require.Equal(t, Closed, b.State(), "the last outage is over")
			outage = append([][3]uint64{{10, 0, 0}}, outage...)
			time.Sleep(time.Second)
		}
		b.Merge(time.Now(), time.Second, [][3]uint64{{0, 50, 0}})
		require.Equal(t, Open, b.State(), "the next is not")
	})
}

func TestMerge_slow_but_not_in_a_row(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := changed(func(p *profiles.Breaker) {
			p.ConsecutiveFailures, p.SlowCall, p.SlowRatio, p.FailureRatio = 3, time.Second, 0.3, 1
		})
		b := New("payments", p, nil)
		time.Sleep(time.Minute)
		b.Merge(time.Now(), time.Second, [][3]uint64{{80, 20, 29}})
		require.Equal(t, Closed, b.State())
		attempt(b, Failure)
		attempt(b, Failure)
		require.Equal(t, Closed, b.State(), "two in a row, and 29 of 102 slow")
		b.Merge(time.Now(), time.Second, [][3]uint64{{80, 20, 40}})
		require.Equal(t, Open, b.State(), "40 of 102 slow")
	})
}

// Other processes' counts come from a store that anybody may have written to.
func TestMerge_survives_nonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const huge = math.MaxUint64
		times := []time.Time{{}, time.Now().Add(-1000 * time.Hour), time.Now(), time.Now().Add(1000 * time.Hour)}
		periods := []time.Duration{math.MinInt64, -1, 0, 1, time.Second, math.MaxInt64}
		endless := make([][3]uint64, 100_000)
		for i := range endless {
			endless[i] = [3]uint64{huge, huge, huge}
		}
		for _, at := range times {
			for _, period := range periods {
				b := New("payments", settings(), nil)
				time.Sleep(time.Minute)
				b.Merge(at, period, endless)
				require.LessOrEqual(t, len(b.others.slices), 1000)
				b.mu.Lock()
				s := b.others.sum(b.now(), b.phase())
				b.mu.Unlock()
				require.Equal(t, s.OK, s.Failed)
				require.LessOrEqual(t, s.Slow, s.OK+s.Failed)
				b.Merge(at, period, [][3]uint64{{0, 0, huge}})
				require.True(t, b.State() == Open || b.State() == Closed)
			}
		}
		// What is said to come from the future is from now: it ages.
		b := New("payments", settings(), nil)
		time.Sleep(time.Minute)
		b.Merge(time.Now().Add(time.Hour), time.Second, [][3]uint64{{100, 0, 0}})
		time.Sleep(11 * time.Second)
		for range 20 {
			attempt(b, Failure)
		}
		require.Equal(t, Open, b.State())
		var none *Breaker
		none.Merge(time.Now(), time.Second, endless)
	})
}

func TestMerge_keeps_nothing_of_the_callers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		time.Sleep(time.Minute)
		slices := [][3]uint64{{10, 1, 0}}
		b.Merge(time.Now(), time.Second, slices)
		slices[0] = [3]uint64{0, 1000, 0}
		attempt(b, Failure)
		require.Equal(t, Closed, b.State())
	})
}

// A process that starts in an outage knows of it as soon as its fleet tells, and not only after a window.
func TestMerge_counts_what_was_before_the_first_closed_phase(t *testing.T) {
	b := New("payments", profiles.Breaker{Window: 10 * time.Second, FailureRatio: 0.5, MinRequests: 20, OpenFor: time.Second, Probes: 1}, nil)
	slices := make([][3]uint64, 10)
	slices[9] = [3]uint64{0, 20, 0}
	b.Merge(time.Now().Add(-time.Hour), 900*time.Millisecond, slices)
	require.Equal(t, Closed, b.State(), "an hour old")
	b.Merge(time.Now(), 900*time.Millisecond, slices)
	require.Equal(t, Open, b.State())
}
