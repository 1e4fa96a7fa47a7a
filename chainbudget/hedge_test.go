package chainbudget_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

const hedgeCatalog = `
version: 1
profiles:
  hedged:
    extends: read-heavy
    retry: {max_attempts: 4, attempt_timeout: 1s}
    hedge: {after: 50ms, max: 2}
    breaker: {min_requests: 1, failure_ratio: 1%}
    availability_floor: 0%
`

// hedged is a chain, and a dependency whose profile hedges, in a bubble.
func hedged(t *testing.T, test func(t *testing.T, rec *chainbudgettest.Recorder, ctx context.Context, dep *chainbudget.Dependency)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rec := chainbudgettest.New(t, chainbudgettest.Catalog(hedgeCatalog))
		ctx, end := chainbudget.Start(t.Context(), rec.SDK)
		defer end()
		test(t, rec, ctx, rec.Dependency("db", "hedged"))
	})
}

// waits returns when the context does, or later if it is deaf.
func waits(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestHedge_the_first_run_that_does_not_fail_counts(t *testing.T) {
	hedged(t, func(t *testing.T, rec *chainbudgettest.Recorder, ctx context.Context, dep *chainbudget.Dependency) {
		begun := time.Now()
		var classified atomic.Int64
		lost := make(chan error, 1)
		got, err := chainbudget.Call(ctx, dep, func(ctx context.Context) (int, error) {
			attempt, _ := chainbudget.AttemptFromContext(ctx)
			err := waits(ctx, time.Second/time.Duration(attempt.Number*attempt.Number*attempt.Number))
			if err != nil {
				lost <- context.Cause(ctx)
			}
			return attempt.Number, err
		}, chainbudget.Idempotent(), chainbudget.CallOption{Classify: func(error) bool { classified.Add(1); return true }})
		require.NoError(t, err)
		assert.Equal(t, 3, got, "the third run, after 1/27 s")
		assert.Equal(t, 100*time.Millisecond+time.Second/27, time.Since(begun))
		synctest.Wait()
		assert.ErrorContains(t, <-lost, "answered first")
		totals := rec.SDK.Totals().Dependencies["db"]
		assert.Equal(t, []int64{3, 2, 2}, []int64{totals.Attempts, totals.Retries, totals.Hedges})
		assert.Empty(t, totals.Claims)
		assert.Zero(t, classified.Load(), "a run that has lost has not failed")
	})
}

func TestHedge_needs_Idempotent(t *testing.T) {
	hedged(t, func(t *testing.T, rec *chainbudgettest.Recorder, ctx context.Context, dep *chainbudget.Dependency) {
		runs := 0
		require.NoError(t, chainbudget.Do(ctx, dep, func(ctx context.Context) error {
			runs++
			return waits(ctx, 500*time.Millisecond)
		}))
		assert.Equal(t, 1, runs)
		assert.Empty(t, rec.Events())
	})
}

func TestHedge_the_last_failure_is_the_calls(t *testing.T) {
	hedged(t, func(t *testing.T, rec *chainbudgettest.Recorder, ctx context.Context, dep *chainbudget.Dependency) {
		failures := []error{nil, errors.New("first"), errors.New("second")}
		err := chainbudget.Do(ctx, dep, func(ctx context.Context) error {
			attempt, _ := chainbudget.AttemptFromContext(ctx)
			time.Sleep([]time.Duration{0, 95 * time.Millisecond, 15 * time.Millisecond}[attempt.Number])
			return failures[attempt.Number]
		}, chainbudget.Idempotent())
		var denied *chainbudget.DeniedError
		require.ErrorAs(t, err, &denied)
		assert.ErrorIs(t, err, failures[1], "it returned last")
		assert.NotErrorIs(t, err, failures[2])
		assert.Equal(t, ownership.ReasonNotRetryable, denied.Reason)
		assert.Equal(t, 2, denied.Attempts)
	})
}

// A101: what a run that has lost returns late is its own: it does not touch what the caller has got.
func TestRegression_A101_a_late_run_writes_nothing_of_the_callers(t *testing.T) {
	hedged(t, func(t *testing.T, rec *chainbudgettest.Recorder, ctx context.Context, dep *chainbudget.Dependency) {
		late := make(chan struct{})
		got, err := chainbudget.Call(ctx, dep, func(ctx context.Context) (value []int, err error) {
			attempt, _ := chainbudget.AttemptFromContext(ctx)
			defer func() {
				value = []int{attempt.Number}
				if attempt.Number == 1 {
					close(late)
				}
			}()
			if attempt.Number == 1 {
				time.Sleep(time.Second) // deaf to its context
			}
			return nil, nil
		}, chainbudget.Idempotent())
		require.NoError(t, err)
		for range 100 {
			assert.Equal(t, []int{2}, got)
		}
		<-late
		synctest.Wait()
		assert.Equal(t, []int{2}, got)
	})
}

func TestHedge_the_callers_context_ends_all(t *testing.T) {
	hedged(t, func(t *testing.T, rec *chainbudgettest.Recorder, ctx context.Context, dep *chainbudget.Dependency) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(70*time.Millisecond, cancel)
		var running atomic.Int64
		err := chainbudget.Do(ctx, dep, func(ctx context.Context) error {
			running.Add(1)
			defer running.Add(-1)
			return waits(ctx, time.Hour)
		}, chainbudget.Idempotent())
		assert.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		assert.Zero(t, running.Load())
		assert.Empty(t, rec.SDK.Totals().Dependencies["db"].Claims)
		require.NoError(t, chainbudget.Do(context.WithoutCancel(ctx), dep, func(context.Context) error { return nil }), "the breaker counted it")
	})
}

func TestHedge_panics_and_exits_reach_the_caller(t *testing.T) {
	boom := errors.New("boom")
	for name, end := range map[string]func(){"panic": func() { panic(boom) }, "exit": runtime.Goexit} {
		for _, of := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				hedged(t, func(t *testing.T, rec *chainbudgettest.Recorder, ctx context.Context, dep *chainbudget.Dependency) {
					var value any
					over, returned := make(chan struct{}), false
					go func() {
						defer close(over)
						defer func() { value = recover() }()
						chainbudget.Do(ctx, dep, func(ctx context.Context) error {
							if attempt, _ := chainbudget.AttemptFromContext(ctx); attempt.Number == of {
								end()
							}
							return waits(ctx, time.Hour)
						}, chainbudget.Idempotent())
						returned = true
					}()
					<-over
					synctest.Wait()
					assert.False(t, returned)
					if name == "panic" {
						assert.Equal(t, boom, value)
					} else {
						assert.Nil(t, value)
					}
					var denied *chainbudget.DeniedError
					require.ErrorAs(t, chainbudget.Do(ctx, dep, func(context.Context) error { return nil }), &denied)
					assert.Equal(t, ownership.ReasonBreakerOpen, denied.Reason, "it is a failure")
				})
			})
		}
	}
}

// A run in an inner layer knows which of the outer one's runs it serves.
func TestRegression_an_inner_layer_knows_the_outer_attempt(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	dep := rec.Dependency("db", "plain")
	var numbers []int
	err := chainbudget.Do(started(t, rec), dep, func(ctx context.Context) error {
		return chainbudget.Do(ctx, dep, func(ctx context.Context) error {
			attempt, _ := chainbudget.AttemptFromContext(ctx)
			numbers = append(numbers, attempt.Number)
			if len(numbers) < 3 {
				return chainbudget.Retryable(errors.New("again"))
			}
			return nil
		})
	}, chainbudget.Idempotent())
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, numbers)
}
