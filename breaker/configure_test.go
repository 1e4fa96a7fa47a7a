package breaker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// changed returns the default settings with changes.
func changed(change func(p *profiles.Breaker)) profiles.Breaker {
	p := settings()
	change(&p)
	return p
}

func TestConfigure_open(t *testing.T) {
	for name, tt := range map[string]struct {
		openFor time.Duration
		left    func(old, now time.Duration) time.Duration // of the old timer, and of a new one
	}{
		"longer_waits_for_the_timer_that_runs": {time.Hour, func(old, _ time.Duration) time.Duration { return old }},
		"shorter_than_what_is_left":            {100 * time.Millisecond, func(_, now time.Duration) time.Duration { return now }},
		"same":                                 {5 * time.Second, func(old, _ time.Duration) time.Duration { return old }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New("payments", settings(), nil)
				open(t, b)
				time.Sleep(time.Second)
				old := b.phase().until - b.now()
				b.Configure(changed(func(p *profiles.Breaker) { p.OpenFor, p.MinRequests = tt.openFor, 7 }))
				require.Equal(t, Open, b.State())
				want := tt.left(old, time.Duration(float64(tt.openFor)*b.jitter))
				_, err := b.Allow()
				var refused *OpenError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, want, refused.RetryIn())
				time.Sleep(want)
				require.Error(t, b.Refuses())
				time.Sleep(1 * time.Nanosecond)
				require.NoError(t, b.Refuses())
				require.True(t, attempt(b, Failure))
				require.Equal(t, time.Duration(float64(tt.openFor)*b.jitter), b.phase().until-b.now(), "the next time is the new one, the jitter the same")
			})
		})
	}
}

func TestConfigure_half_open(t *testing.T) {
	probes := func(n int) profiles.Breaker { return changed(func(p *profiles.Breaker) { p.Probes = n }) }
	start := func(t *testing.T, n int) (*Breaker, []Permit) {
		b := New("payments", probes(n), nil)
		halfOpen(t, b)
		out := make([]Permit, n)
		for i := range out {
			var err error
			out[i], err = b.Allow()
			require.NoError(t, err)
		}
		require.Error(t, b.Refuses())
		return b, out
	}
	t.Run("more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, out := start(t, 2)
			b.Configure(probes(3))
			third, err := b.Allow()
			require.NoError(t, err)
			require.Error(t, b.Refuses())
			b.Done(&out[0], Success)
			b.Done(&out[1], Success)
			require.Equal(t, HalfOpen, b.State())
			b.Done(&third, Success)
			require.Equal(t, Closed, b.State())
		})
	})
	t.Run("fewer_than_are_out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, out := start(t, 5)
			b.Configure(probes(2))
			b.Done(&out[0], Ignored)
			b.Done(&out[1], Ignored)
			b.Done(&out[2], Ignored)
			require.Error(t, b.Refuses(), "two are still out")
			b.Done(&out[3], Success)
			require.Error(t, b.Refuses())
			require.Equal(t, HalfOpen, b.State())
			b.Done(&out[4], Success)
			require.Equal(t, Closed, b.State())
		})
	})
	t.Run("fewer_and_all_hang", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, out := start(t, 5)
			b.Configure(probes(2))
			time.Sleep(settings().OpenFor)
			require.Error(t, b.Refuses())
			time.Sleep(1 * time.Nanosecond)
			for range 2 {
				require.NoError(t, b.Refuses())
				_, err := b.Allow()
				require.NoError(t, err)
			}
			require.Error(t, b.Refuses())
			b.Done(&out[4], Failure)
			require.Equal(t, Open, b.State(), "a probe that nobody replaced still counts")
		})
	})
	t.Run("enough_have_succeeded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, out := start(t, 5)
			b.Done(&out[0], Success)
			b.Done(&out[1], Success)
			b.Configure(probes(2))
			require.Equal(t, Closed, b.State())
			for i := range out {
				b.Done(&out[i], Failure)
			}
			ok, failed := b.Counts()
			require.Zero(t, ok+failed)
		})
	})
	t.Run("a_failure_in_flight_opens", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, out := start(t, 2)
			b.Configure(probes(4))
			copied := out[0]
			b.Done(&out[0], Failure)
			require.Equal(t, Open, b.State())
			b.Done(&copied, Failure)
			require.Equal(t, Open, b.State())
		})
	})
}

func TestConfigure_closed_keeps_its_counts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil) // 10 s, in slices of one
		for range 10 {
			attempt(b, Failure)
			attempt(b, Success)
			attempt(b, Success)
			time.Sleep(time.Second)
		}
		early, err := b.Allow()
		require.NoError(t, err)
		requireCounts := func(ok, failed int) {
			t.Helper()
			gotOK, gotFailed := b.Counts()
			require.Equal(t, []int{ok, failed}, []int{int(gotOK), int(gotFailed)})
		}
		requireCounts(18, 9)
		window := func(d time.Duration) {
			b.Configure(changed(func(p *profiles.Breaker) { p.Window = d }))
		}
		window(20 * time.Second)
		requireCounts(18, 9)
		time.Sleep(5 * time.Second)
		requireCounts(18, 9)
		b.Done(&early, Failure)
		requireCounts(18, 10)
		window(10 * time.Second)
		requireCounts(8, 5) // from the sixth second on: nine slices and what has begun of the tenth
		window(time.Minute)
		requireCounts(8, 5)
		time.Sleep(time.Hour)
		requireCounts(0, 0)
	})
}

func TestConfigure_opens_at_once_where_the_new_rule_says_so(t *testing.T) {
	for name, p := range map[string]profiles.Breaker{
		"ratio":       changed(func(p *profiles.Breaker) { p.FailureRatio = 0.25 }),
		"minimum":     changed(func(p *profiles.Breaker) { p.FailureRatio, p.MinRequests = 0.25, 8 }),
		"still_below": changed(func(p *profiles.Breaker) { p.FailureRatio = 0.26 }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b *Breaker
				var seen []State
				b = New("payments", settings(), func(_ string, from, to State) {
					b.Counts() // with no lock held
					seen = append(seen, from, to)
				})
				for i := range 20 {
					attempt(b, map[bool]Outcome{true: Failure, false: Success}[i%4 == 0])
				}
				b.Configure(settings())
				require.Empty(t, seen, "nothing has changed")
				b.Configure(p)
				if name == "still_below" {
					require.Empty(t, seen)
					return
				}
				require.Equal(t, []State{Closed, Open}, seen)
				require.Equal(t, Open, b.State())
			})
		})
	}
}

func TestConfigure_without_a_breaker_admits_everything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []State
		b := New("payments", settings(), func(_ string, from, to State) { seen = append(seen, from, to) })
		old, err := b.Allow()
		require.NoError(t, err)
		halfOpen(t, b)
		probe, err := b.Allow()
		require.NoError(t, err)
		b.Configure(profiles.Breaker{})
		require.Equal(t, []State{Closed, Open, Open, HalfOpen, HalfOpen, Closed}, seen)
		require.Equal(t, Closed, b.State())
		require.NoError(t, b.Refuses())
		during, err := b.Allow()
		require.NoError(t, err)
		for range 100 {
			require.True(t, attempt(b, Failure))
		}
		b.Merge(time.Now(), time.Second, [][3]uint64{{0, 100, 0}})
		ok, failed := b.Counts()
		require.Zero(t, ok+failed)
		require.Equal(t, Closed, b.State())

		b.Configure(settings())
		for _, p := range []*Permit{&old, &probe, &during} {
			b.Done(p, Failure)
		}
		ok, failed = b.Counts()
		require.Zero(t, ok+failed, "closed and empty")
		open(t, b)
		var none *Breaker
		none.Configure(settings())
	})
}

// What happens in a callback of a change that Configure or Merge caused is told after it.
func TestConfigure_and_merge_call_hooks_in_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		var seen []State
		depth := 0
		b = New("payments", settings(), func(_ string, _, to State) {
			depth++
			defer func() { depth-- }()
			require.Equal(t, 1, depth, "one at a time")
			seen = append(seen, to)
			switch len(seen) {
			case 1: // opened by Merge
				time.Sleep(b.phase().rules.openFor + 1)
				attempt(b, Success)
			case 2: // half-open, one has succeeded
				b.Configure(changed(func(p *profiles.Breaker) { p.Probes = 1 }))
			case 3: // closed by Configure
				time.Sleep(time.Second)
				b.Merge(time.Now(), time.Second, [][3]uint64{{0, 50, 0}})
			}
		})
		time.Sleep(time.Second)
		b.Merge(time.Now(), time.Second, [][3]uint64{{0, 50, 0}})
		require.Equal(t, []State{Open, HalfOpen, Closed, Open}, seen)
		require.Equal(t, Open, b.State())
	})
}
