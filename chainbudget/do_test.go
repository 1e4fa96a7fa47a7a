package chainbudget_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const doCatalog = `
version: 1
profiles:
  plain: {extends: read-heavy, retry: {max_attempts: 4, attempt_timeout: 1s}, breaker: {min_requests: 1000}, availability_floor: 0%}
  tripping: {extends: plain, breaker: {min_requests: 2, failure_ratio: 50%}}
`

// started is a chain of its own with the default budget of three.
func started(t *testing.T, rec *chainbudgettest.Recorder) context.Context {
	ctx, end := chainbudget.Start(context.Background(), rec.SDK)
	t.Cleanup(end)
	return ctx
}

// run makes one Do whose function fails with err until it has failed n times, and returns how often it ran.
func run(ctx context.Context, dep *chainbudget.Dependency, n int, err error, options ...chainbudget.CallOption) (int, error) {
	runs := 0
	got := chainbudget.Do(ctx, dep, func(context.Context) error {
		runs++
		if runs <= n {
			return err
		}
		return nil
	}, options...)
	return runs, got
}

func TestDo_which_errors_are_retried(t *testing.T) {
	plain := errors.New("plain")
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	read := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	idempotent := chainbudget.Idempotent()
	cases := []struct {
		name    string
		err     error
		options []chainbudget.CallOption
		runs    int
		reason  ownership.Reason
	}{
		{"plain", plain, []chainbudget.CallOption{idempotent}, 1, ownership.ReasonNotRetryable},
		{"marked", chainbudget.Retryable(plain), []chainbudget.CallOption{idempotent}, 4, ownership.ReasonMaxAttempts},
		{"marked_but_not_idempotent", chainbudget.Retryable(plain), nil, 1, ownership.ReasonNotIdempotent},
		{"reset", read, []chainbudget.CallOption{idempotent}, 4, ownership.ReasonMaxAttempts},
		{"cut_short", io.ErrUnexpectedEOF, []chainbudget.CallOption{idempotent}, 4, ownership.ReasonMaxAttempts},
		{"reset_not_idempotent", read, nil, 1, ownership.ReasonNotIdempotent},
		{"refused_connection", dial, []chainbudget.CallOption{idempotent}, 4, ownership.ReasonMaxAttempts},
		{"refused_connection_not_idempotent", dial, nil, 1, ownership.ReasonNotIdempotent},
		{"timeout", context.DeadlineExceeded, []chainbudget.CallOption{idempotent}, 4, ownership.ReasonMaxAttempts},
		{"classified", plain, []chainbudget.CallOption{idempotent, {Classify: func(e error) bool { return errors.Is(e, plain) }}}, 4, ownership.ReasonMaxAttempts},
		{"classified_away", read, []chainbudget.CallOption{idempotent, {Classify: func(error) bool { return false }}}, 1, ownership.ReasonNotRetryable},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
			dep := rec.Dependency("db", "plain")
			runs, err := run(started(t, rec), dep, 99, c.err, c.options...)
			assert.Equal(t, c.runs, runs)
			assert.ErrorIs(t, err, c.err, "what the function said is never hidden")
			var denied *chainbudget.DeniedError
			require.ErrorAs(t, err, &denied)
			assert.Equal(t, c.reason, denied.Reason)
			assert.Equal(t, c.runs, denied.Attempts)
			assert.Equal(t, "db", denied.Dependency)
		})
	}
}

func TestDo_succeeds_after_a_retry(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	runs, err := run(started(t, rec), rec.Dependency("db", "plain"), 1, io.ErrUnexpectedEOF, chainbudget.Idempotent())
	require.NoError(t, err)
	assert.Equal(t, 2, runs)
	assert.Equal(t, int64(1), rec.SDK.Totals().Dependencies["db"].Retries)
}

func TestCall_returns_the_last_value(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	n := 0
	v, err := chainbudget.Call(started(t, rec), rec.Dependency("db", "plain"), func(context.Context) (int, error) {
		n++
		if n < 3 {
			return n, io.ErrUnexpectedEOF
		}
		return n, nil
	}, chainbudget.Idempotent())
	require.NoError(t, err)
	assert.Equal(t, 3, v)
}

func TestDo_tokens_are_the_chains(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	ctx := started(t, rec)
	first, _ := run(ctx, rec.Dependency("db", "plain"), 2, io.ErrUnexpectedEOF, chainbudget.Idempotent())
	second, err := run(ctx, rec.Dependency("cache", "plain"), 99, io.ErrUnexpectedEOF, chainbudget.Idempotent())
	assert.Equal(t, 3, first, "two of three tokens")
	assert.Equal(t, 2, second, "and the third")
	var denied *chainbudget.DeniedError
	require.ErrorAs(t, err, &denied)
	assert.Equal(t, ownership.ReasonChainExhausted, denied.Reason)
	assert.Positive(t, denied.RetryAfter, "a hint for the caller's own pacing")
}

func TestDo_dead_context_runs_nothing(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	ctx, cancel := context.WithCancel(started(t, rec))
	cancel()
	runs, err := run(ctx, rec.Dependency("db", "plain"), 99, io.ErrUnexpectedEOF)
	assert.Zero(t, runs)
	assert.Equal(t, context.Canceled, err)
	assert.Zero(t, rec.SDK.Totals().Dependencies["db"].Attempts)
}

func TestDo_open_breaker_refuses_here(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	dep := rec.Dependency("db", "tripping")
	for range 4 {
		run(started(t, rec), dep, 99, errors.New("down"))
	}
	runs, err := run(started(t, rec), dep, 99, errors.New("down"))
	assert.Zero(t, runs)
	var denied *chainbudget.DeniedError
	require.ErrorAs(t, err, &denied)
	assert.Equal(t, ownership.ReasonBreakerOpen, denied.Reason)
	assert.Zero(t, denied.Attempts)
	assert.Equal(t, ownership.ClaimUnclaimed, denied.Claim, "its dependency's failure, and nobody above retries")
	assert.Equal(t, "db", denied.Owner)
}

func TestDo_attempt_timeout_is_not_the_callers_deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
		runs := 0
		err := chainbudget.Do(started(t, rec), rec.Dependency("db", "plain"), func(ctx context.Context) error {
			runs++
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, time.Second, time.Until(deadline))
			if runs == 2 {
				return nil
			}
			<-ctx.Done()
			assert.Equal(t, context.DeadlineExceeded, ctx.Err())
			return ctx.Err()
		}, chainbudget.Idempotent())
		require.NoError(t, err)
		assert.Equal(t, 2, runs)
	})
}

func TestDo_callers_cancellation_is_no_failure(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	dep := rec.Dependency("db", "tripping")
	for range 10 {
		ctx, cancel := context.WithCancel(started(t, rec))
		err := chainbudget.Do(ctx, dep, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}, chainbudget.Idempotent())
		assert.ErrorIs(t, err, context.Canceled)
	}
	runs, err := run(started(t, rec), dep, 0, nil)
	assert.Equal(t, 1, runs, "the breaker stayed closed")
	assert.NoError(t, err)
}

func TestDo_panic_and_goexit_settle(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	dep := rec.Dependency("db", "tripping")
	for range 2 {
		assert.PanicsWithValue(t, "boom", func() {
			chainbudget.Do(started(t, rec), dep, func(context.Context) error { panic("boom") })
		})
	}
	_, err := run(started(t, rec), dep, 0, nil)
	assert.Error(t, err, "panics count as failures: the breaker is open")

	other := rec.Dependency("cache", "tripping")
	ctx := started(t, rec)
	for range 2 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			chainbudget.Do(ctx, other, func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-done
	}
	_, err = run(ctx, other, 0, nil)
	assert.Error(t, err)
}

func TestDo_nil_dependency_and_bypass_pass_through(t *testing.T) {
	plain := errors.New("plain")
	runs, err := run(context.Background(), nil, 99, plain)
	assert.Equal(t, 1, runs)
	assert.Equal(t, plain, err)
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog), chainbudgettest.Mode(profiles.ModeBypass))
	runs, err = run(context.Background(), rec.Dependency("db", "plain"), 99, chainbudget.Retryable(plain), chainbudget.Idempotent())
	assert.Equal(t, 1, runs)
	assert.ErrorIs(t, err, plain)
	assert.Zero(t, rec.SDK.Totals().Dependencies["db"].Calls)
}

func TestDo_without_a_request_is_an_orphan_with_one_token(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	runs, _ := run(context.Background(), rec.Dependency("db", "plain"), 99, io.ErrUnexpectedEOF, chainbudget.Idempotent())
	assert.Equal(t, 2, runs)
	assert.Equal(t, int64(1), rec.SDK.Totals().NoPurse)
}

func TestDo_inner_failure_of_another_dependency_keeps_its_owner(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	outer, inner := rec.Dependency("repository", "plain"), rec.Dependency("db", "plain")
	runs := 0
	err := chainbudget.Do(started(t, rec), outer, func(ctx context.Context) error {
		runs++
		_, err := run(ctx, inner, 99, io.ErrUnexpectedEOF, chainbudget.Idempotent())
		return chainbudget.Retryable(err)
	}, chainbudget.Idempotent())
	var denied *chainbudget.DeniedError
	require.ErrorAs(t, err, &denied)
	assert.Equal(t, 1, runs, "retried next to its cause, and not above")
	assert.Equal(t, ownership.ReasonUnclaimed, denied.Reason)
	assert.Equal(t, "db", denied.Owner)
}

func TestDo_same_dependency_nested_decides_once(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	dep := rec.Dependency("db", "plain")
	runs := 0
	err := chainbudget.Do(started(t, rec), dep, func(ctx context.Context) error {
		return chainbudget.Do(ctx, dep, func(context.Context) error {
			runs++
			return io.ErrUnexpectedEOF
		}, chainbudget.Idempotent())
	}, chainbudget.Idempotent())
	require.Error(t, err)
	assert.Equal(t, 4, runs, "I7: one call, one decision maker")
	assert.Equal(t, int64(1), rec.SDK.Totals().Dependencies["db"].Calls)
}

func TestAttemptFromContext(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	var seen []chainbudget.Attempt
	chainbudget.Do(started(t, rec), rec.Dependency("db", "plain"), func(ctx context.Context) error {
		a, ok := chainbudget.AttemptFromContext(ctx)
		require.True(t, ok)
		seen = append(seen, a)
		return io.ErrUnexpectedEOF
	}, chainbudget.Idempotent())
	require.Len(t, seen, 4)
	assert.Equal(t, chainbudget.Attempt{Dependency: "db", Number: 1}, seen[0])
	assert.Equal(t, chainbudget.Attempt{Dependency: "db", Number: 2, Err: io.ErrUnexpectedEOF}, seen[1])
	_, ok := chainbudget.AttemptFromContext(context.Background())
	assert.False(t, ok)
}

// What an attempt has started may outlive it: a dial, or a goroutine of the function. It still asks about its own attempt.
func TestRegression_an_attempt_stays_what_it_was(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	first := make(chan context.Context, 1)
	next := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ctx := <-first
		for range 1000 {
			a, ok := chainbudget.AttemptFromContext(ctx)
			assert.True(t, ok)
			if !assert.Equal(t, chainbudget.Attempt{Dependency: "db", Number: 1}, a) {
				break
			}
		}
		<-next
		a, _ := chainbudget.AttemptFromContext(ctx)
		assert.Equal(t, 1, a.Number)
	})
	runs := 0
	chainbudget.Do(started(t, rec), rec.Dependency("db", "plain"), func(ctx context.Context) error {
		if runs++; runs == 1 {
			first <- ctx
		}
		return io.ErrUnexpectedEOF
	}, chainbudget.Idempotent())
	require.Equal(t, 4, runs)
	close(next)
	wg.Wait()
}

func TestRetryable_nil(t *testing.T) {
	assert.NoError(t, chainbudget.Retryable(nil))
}

// What Denied returns for a response that is no failure is a nil *DeniedError; an error that wraps it is an error like any
// other.
func TestRegression_do_takes_an_error_that_wraps_a_nil_DeniedError(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	var none *chainbudget.DeniedError
	for name, err := range map[string]error{"wrapped": fmt.Errorf("answered 503: %w", none), "bare": none} {
		runs, got := run(started(t, rec), rec.Dependency("dep", "plain"), 9, err, chainbudget.Idempotent())
		require.Equal(t, 1, runs, name)
		var denied *chainbudget.DeniedError
		require.ErrorAs(t, got, &denied, name)
		require.Equal(t, ownership.ReasonNotRetryable, denied.Reason, name)
	}
}

// A context that fn derives from the attempt's, as database drivers do, reads as canceled when the attempt's time is over.
// That is a timeout all the same.
func TestRegression_an_attempt_timeout_is_retried_whatever_context_fn_waits_on(t *testing.T) {
	derive := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"itself": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"cancel": context.WithCancel,
		"timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
	}
	for name, with := range derive {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
				ctx, end := chainbudget.Start(t.Context(), rec.SDK)
				defer end()
				runs := 0
				err := chainbudget.Do(ctx, rec.Dependency("dep", "plain"), func(ctx context.Context) error {
					runs++
					ctx, cancel := with(ctx)
					defer cancel()
					<-ctx.Done()
					return ctx.Err()
				}, chainbudget.Idempotent())
				require.Equal(t, 4, runs)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				var denied *chainbudget.DeniedError
				require.ErrorAs(t, err, &denied)
				require.True(t, denied.Timeout())
			})
		})
	}
}

// TestDo_repeats: only a named operation is charged for repeating a failed one.
func TestDo_repeats(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog+"  refusing: {extends: plain, retry: {repeats: refuse}}\n"))
	dep, ctx := rec.Dependency("db", "refusing"), started(t, rec)
	plain := errors.New("plain")
	for range 2 {
		runs, _ := run(ctx, dep, 99, plain)
		assert.Equal(t, 1, runs, "what is not named may be another operation")
	}
	assert.Equal(t, int64(1), rec.SDK.Totals().Dependencies["db"].RepeatedCalls)
	load, save := chainbudget.CallOption{Operation: "load"}, chainbudget.CallOption{Operation: "save"}
	runs, _ := run(ctx, dep, 99, plain, load)
	assert.Equal(t, 1, runs)
	runs, _ = run(ctx, dep, 99, plain, save)
	assert.Equal(t, 1, runs)
	runs, err := run(ctx, dep, 99, plain, load)
	assert.Zero(t, runs)
	assert.ErrorContains(t, err, "max_attempts")
}
