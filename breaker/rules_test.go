package breaker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// slowAttempt sends one attempt that takes d.
func slowAttempt(t *testing.T, b *Breaker, d time.Duration, o Outcome) {
	t.Helper()
	p, err := b.Allow()
	require.NoError(t, err)
	time.Sleep(d)
	b.Done(&p, o)
}

func TestRules_failures_in_a_row(t *testing.T) {
	for name, tt := range map[string]struct {
		outcomes string // f, s, i; the last one is the one that opens
		opens    bool
	}{
		"three":                       {"fff", true},
		"two":                         {"ff", false},
		"a_success_ends_the_row":      {"ffsff", false},
		"and_the_next_begins":         {"ffsfff", true},
		"what_is_ignored_ends_no_row": {"fiifif", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New("payments", changed(func(p *profiles.Breaker) { p.ConsecutiveFailures = 3 }), nil)
				for i, o := range tt.outcomes {
					require.Equal(t, Closed, b.State(), "after %d", i)
					attempt(b, map[rune]Outcome{'f': Failure, 's': Success, 'i': Ignored}[o])
					time.Sleep(time.Hour) // a row has no window
				}
				require.Equal(t, tt.opens, b.phase().state == Open)
			})
		})
	}
}

func TestRules_a_row_begins_when_the_settings_ask_for_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := func(n int) profiles.Breaker {
			return changed(func(p *profiles.Breaker) { p.ConsecutiveFailures = n })
		}
		b := New("payments", settings(), nil)
		attempt(b, Failure)
		attempt(b, Failure)
		b.Configure(row(3))
		attempt(b, Failure)
		attempt(b, Failure)
		require.Equal(t, Closed, b.State())
		b.Configure(row(4))
		attempt(b, Failure)
		require.Equal(t, Closed, b.State())
		b.Configure(row(3))
		require.Equal(t, Open, b.State(), "three in a row, and three are enough now")
		time.Sleep(b.phase().rules.openFor + 1)
		for range 3 {
			attempt(b, Success)
		}
		attempt(b, Failure)
		attempt(b, Failure)
		require.Equal(t, Closed, b.State(), "a closed breaker begins with no row")
	})
}

func TestRules_slow_calls(t *testing.T) {
	slow := changed(func(p *profiles.Breaker) {
		p.Window, p.MinRequests, p.SlowCall, p.SlowRatio = time.Hour, 10, time.Second, 0.5
	})
	t.Run("a_slow_success_is_slow_and_no_failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := New("payments", slow, nil)
			for range 5 {
				slowAttempt(t, b, time.Second-1, Success)
			}
			for range 4 {
				slowAttempt(t, b, time.Second, Success)
			}
			ok, failed := b.Counts()
			require.EqualValues(t, 9, ok)
			require.Zero(t, failed)
			require.Equal(t, Closed, b.State())
			slowAttempt(t, b, time.Second, Success)
			require.Equal(t, Open, b.State(), "5 of 10")
		})
	})
	t.Run("a_slow_failure_counts_for_both", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := New("payments", slow, nil)
			for range 6 {
				slowAttempt(t, b, 0, Success)
			}
			for range 2 {
				slowAttempt(t, b, time.Minute, Failure)
			}
			for range 3 {
				slowAttempt(t, b, time.Minute, Success)
			}
			require.Equal(t, Closed, b.State(), "5 of 11 are slow")
			slowAttempt(t, b, time.Minute, Success)
			require.Equal(t, Open, b.State(), "6 of 12 are")
		})
	})
	t.Run("what_is_ignored_is_not_slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := New("payments", slow, nil)
			for range 100 {
				slowAttempt(t, b, time.Minute, Ignored)
			}
			require.Equal(t, Closed, b.State())
		})
	})
	t.Run("a_slow_probe_has_failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := New("payments", slow, nil)
			halfOpen(t, b)
			slowAttempt(t, b, time.Second, Success)
			require.Equal(t, Open, b.State())
		})
	})
	t.Run("turned_on_while_it_was_out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			off := slow
			off.SlowCall, off.SlowRatio = 0, 0
			b := New("payments", off, nil)
			out := make([]Permit, 10)
			for i := range out {
				out[i], _ = b.Allow()
			}
			time.Sleep(time.Minute)
			b.Configure(slow)
			for i := range out {
				require.Equal(t, Closed, b.State())
				b.Done(&out[i], Success)
			}
			require.Equal(t, Open, b.State())
		})
	})
	t.Run("without_a_share_nothing_is_slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := slow
			p.SlowRatio = 0
			b := New("payments", p, nil)
			for range 100 {
				slowAttempt(t, b, time.Minute, Success)
			}
			attempt(b, Failure)
			require.Equal(t, Closed, b.State())
		})
	})
	t.Run("off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := New("payments", settings(), nil)
			for range 100 {
				slowAttempt(t, b, time.Minute, Success)
			}
			require.Equal(t, Closed, b.State())
		})
	})
}

func TestRules_every_rule_allocates_nothing_NoRace(t *testing.T) {
	p := changed(func(p *profiles.Breaker) {
		p.Window, p.OpenFor, p.FailureRatio = time.Hour, time.Hour, 1
		p.ConsecutiveFailures, p.SlowCall, p.SlowRatio, p.MaxInFlight = 1000000, time.Nanosecond, 1, 10
	})
	b := New("payments", p, nil)
	p.SlowCall = time.Hour
	slices := make([][3]uint64, 60)
	for i := range slices {
		slices[i] = [3]uint64{5, 1, 1}
	}
	b.Configure(p)
	b.Merge(time.Now(), time.Microsecond, slices)
	attempt(b, Success)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		attempt(b, Success)
		attempt(b, Failure)
		attempt(b, Ignored)
		_ = b.Refuses()
	}))
	require.Zero(t, testing.AllocsPerRun(100, func() { b.Merge(time.Now(), time.Microsecond, slices) }), "a merge as large as the last")
	for range 10 {
		_, err := b.Allow()
		require.NoError(t, err)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() { attempt(b, Success) }), "refused by the limit")
	require.Equal(t, Closed, b.State())
}
