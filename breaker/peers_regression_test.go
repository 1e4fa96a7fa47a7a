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

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// Faults of other breakers, by their number in the survey that this package was planned on. P047, P048 and P050 need the
// layers above: layers_regression_test.go. P035 is in adapters/budgethttp. The wall clock, P052, is A104.

// Six cancellations by the caller open gobreaker and failsafe-go with their defaults.
func TestRegression_P037_a_callers_cancellation_does_not_open_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		p.MinRequests, p.ConsecutiveFailures, p.SlowCall, p.SlowRatio = 1, 2, time.Second, 0.1
		b := New("payments", p, nil)
		for range 50 {
			permit, err := b.Allow()
			require.NoError(t, err)
			time.Sleep(2 * time.Second) // a slow one, too
			b.Done(&permit, outcome(context.Canceled))
		}
		require.Equal(t, Closed, b.State())
	})
}

// A cancellation that counts as a success closes a half-open breaker; one that is not counted, and not noticed, keeps its
// permit.
func TestRegression_P038_a_canceled_probe_neither_closes_nor_blocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		p.Probes = 1
		b := New("payments", p, nil)
		halfOpen(t, b)
		for range 20 {
			require.True(t, attempt(b, outcome(context.Canceled)))
			require.Equal(t, HalfOpen, b.State())
		}
		require.True(t, attempt(b, Success))
		require.Equal(t, Closed, b.State())
	})
}

// Half-open, a thousand calls at once and one probe, which ends in every way but well: a slot that is lost stays lost until
// the process restarts.
func TestRegression_P039_whatever_becomes_of_the_probe_the_next_is_admitted(t *testing.T) {
	endings := map[string]func(b *Breaker, p Permit){
		"panics": func(b *Breaker, p Permit) {
			defer func() { _ = recover() }()
			defer b.Done(&p, Ignored)
			panic("probe")
		},
		"calls_goexit": func(b *Breaker, p Permit) {
			defer b.Done(&p, Ignored)
			runtime.Goexit()
		},
		"hangs":                      func(*Breaker, Permit) { time.Sleep(settings().OpenFor + 1) },
		"is_canceled":                func(b *Breaker, p Permit) { b.Done(&p, outcome(context.Canceled)) },
		"is_refused_by_a_later_gate": func(b *Breaker, p Permit) { b.Done(&p, Ignored) },
	}
	for name, end := range endings {
		for _, limit := range []int{0, 1} {
			t.Run(name+map[int]string{0: "", 1: "/limited_in_flight"}[limit], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := settings()
					p.Probes, p.MaxInFlight = 1, limit
					b := New("payments", p, nil)
					halfOpen(t, b)
					for range 3 {
						var admitted, refused atomic.Int32
						var wg sync.WaitGroup
						for range 1000 {
							wg.Go(func() {
								permit, err := b.Allow()
								if err != nil {
									refused.Add(1)
									return
								}
								admitted.Add(1)
								time.Sleep(time.Millisecond)
								end(b, permit)
							})
						}
						wg.Wait()
						require.EqualValues(t, 1, admitted.Load())
						require.EqualValues(t, 999, refused.Load())
						require.Equal(t, HalfOpen, b.State(), "it proved nothing")
						require.NoError(t, b.Refuses())
					}
					require.True(t, attempt(b, Success))
					require.Equal(t, Closed, b.State())
					require.Zero(t, b.flying.out(b.now()), "no place in flight is lost")
				})
			})
		}
	}
}

// failsafe-go and mercari's breaker stay closed after ten panics. Here the caller says what a panic was.
func TestRegression_P040_a_panic_counts_as_what_its_caller_deferred(t *testing.T) {
	for o, want := range map[Outcome]State{Failure: Open, Ignored: Closed} {
		synctest.Test(t, func(t *testing.T) {
			p := settings()
			p.MinRequests = 10
			b := New("payments", p, nil)
			for range 10 {
				func() {
					defer func() { _ = recover() }()
					permit, err := b.Allow()
					require.NoError(t, err)
					defer b.Done(&permit, o)
					panic("in the attempt")
				}()
			}
			require.Equal(t, want, b.State())
		})
	}
}

// Closed, nothing bounds how many attempts hang before the first has failed; half-open, some let everybody through, which
// is A092.
func TestRegression_P041_no_stampede_closed_or_half_open(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		p.MaxInFlight, p.Probes = 5, 3
		b := New("payments", p, nil)
		stampede := func(want int) {
			var out, most, admitted int
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range 200 {
				wg.Go(func() {
					permit, err := b.Allow()
					if err != nil {
						return
					}
					mu.Lock()
					admitted++
					out++
					most = max(most, out)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					out--
					mu.Unlock()
					b.Done(&permit, Success)
				})
			}
			wg.Wait()
			require.Equal(t, want, most)
			require.Equal(t, want, admitted)
		}
		stampede(5)
		halfOpen(t, b)
		stampede(3)
		require.Equal(t, Closed, b.State())
		stampede(5)
	})
}

// A result of an older state decides the new one.
func TestRegression_P042_results_of_an_older_state_count_for_nothing(t *testing.T) {
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

// gobreaker's two-step breaker counts a result for each time that it is told.
func TestRegression_P045_second_done_does_nothing(t *testing.T) {
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

// A fixed window misses a burst across its edge.
func TestRegression_P044_burst_across_an_edge_opens(t *testing.T) {
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

// gobreaker deadlocks when its callback reads Counts.
func TestRegression_P043_hook_runs_outside_locks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		var seen []State
		b = New("payments", settings(), func(name string, from, to State) {
			require.Equal(t, "payments", name)
			require.Equal(t, to, b.State())
			b.Counts()
			ready(b)
			if p, err := b.Allow(); err == nil {
				b.Done(&p, Ignored)
			}
			seen = append(seen, from, to)
		})
		halfOpen(t, b)
		for range 3 {
			attempt(b, Success)
		}
		require.Equal(t, []State{Closed, Open, Open, HalfOpen, HalfOpen, Closed}, seen)
	})
}

// A classifier that panics leaves an attempt without an outcome: gobreaker counts 1 request, 0 successes, 0 failures, and a
// half-open one waits for it for ever.
func TestRegression_P046_a_panic_while_judging_gives_the_permit_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		p.Probes, p.MaxInFlight = 1, 2
		b := New("payments", p, nil)
		judge := func() Outcome { panic("classifier") }
		call := func() (err error) {
			defer func() { _ = recover() }()
			permit, err := b.Allow()
			if err != nil {
				return err
			}
			defer b.Done(&permit, Ignored)
			b.Done(&permit, judge())
			return nil
		}
		for range 10 {
			require.NoError(t, call())
		}
		halfOpen(t, b)
		for range 10 {
			require.NoError(t, call())
			require.Equal(t, HalfOpen, b.State())
		}
		require.Zero(t, b.flying.out(b.now()))
	})
}

// An error that says only that something is open leaves the reader to guess what, and for how long.
func TestRegression_P049_refusal_names_dependency_and_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		open(t, b)
		_, err := b.Allow()
		var refused *OpenError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "payments", refused.Name)
		require.Equal(t, b.phase().rules.openFor, refused.RetryIn())
		time.Sleep(time.Second)
		require.Equal(t, b.phase().rules.openFor-time.Second, refused.RetryIn())
		require.Contains(t, err.Error(), "breaker of payments is open for another "+(b.phase().rules.openFor-time.Second).Round(time.Millisecond).String())
		time.Sleep(b.phase().rules.openFor)
		require.Zero(t, refused.RetryIn())
		for range 3 {
			_, err = b.Allow()
			require.NoError(t, err)
		}
		_, err = b.Allow()
		require.ErrorAs(t, err, &refused)
		require.Zero(t, refused.RetryIn())
		require.EqualError(t, err, "chainbudget: breaker of payments is half-open and its probes are out")
		require.Zero(t, (&OpenError{Name: "made in a test"}).RetryIn())
	})
}

// goresilience and kratos count their own refusals as failures, and stay shut.
func TestRegression_P051_refusals_count_for_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		p.MaxInFlight, p.ConsecutiveFailures, p.MinRequests = 1, 3, 1
		b := New("payments", p, nil)
		held, err := b.Allow()
		require.NoError(t, err)
		for range 100 {
			_, err := b.Allow()
			require.Error(t, err)
		}
		require.Equal(t, Closed, b.State())
		ok, failed := b.Counts()
		require.Zero(t, ok+failed)
		b.Done(&held, Success)
		require.True(t, attempt(b, Success))
	})
}

// One shared gobreaker gains nothing from a second core. Here, what happens most takes no lock: with the lock taken away,
// all of it still goes.
func TestRegression_P054_the_usual_path_takes_no_lock(t *testing.T) {
	all := settings()
	all.ConsecutiveFailures, all.SlowCall, all.SlowRatio, all.MaxInFlight = 5, time.Minute, 0.5, 10
	for name, p := range map[string]profiles.Breaker{"ratio": settings(), "every_rule": all} {
		t.Run(name, func(t *testing.T) {
			b := New("payments", p, nil)
			attempt(b, Failure) // so that a success has a row to end
			b.mu.Lock()
			require.True(t, attempt(b, Success))
			require.True(t, attempt(b, Ignored))
			require.NoError(t, b.Refuses())
			b.mu.Unlock()
			open(t, b)
			b.mu.Lock()
			require.False(t, attempt(b, Success))
			require.Error(t, b.Refuses())
			b.mu.Unlock()
		})
	}
}

func TestOpenError_is_found_by_errors_as(t *testing.T) {
	_, found := errors.AsType[*OpenError](errors.Join(errors.New("other"), &OpenError{Name: "payments"}))
	require.True(t, found)
}
