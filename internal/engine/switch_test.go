package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
)

const switchedOff = "overrides: {dependencies: {payments: {retries: disabled}}}"

func swap(t *testing.T, r *rig, yaml string) {
	t.Helper()
	require.NoError(t, r.sdk.Swap(catalogOf(t, rigCatalog[len("\nversion: 1\n"):]+yaml)))
}

// TestSwitch_stops_calls_in_backoff at once, and gives back what they had reserved; another catalog without it does not
// disturb them.
func TestSwitch_stops_calls_in_backoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "plain", 3, can)
		r.fail(claimed(ownership.ClaimClaimed, "payments", 3))
		level := r.dep.Policy().bucket.level.Load()
		now := time.Now()
		require.True(t, r.call.Decide(now))
		require.True(t, r.call.Await())
		go func() {
			time.Sleep(100 * time.Millisecond)
			swap(t, r, "")
			time.Sleep(100 * time.Millisecond)
			swap(t, r, switchedOff)
		}()
		require.False(t, r.call.Backoff())
		assert.Equal(t, 200*time.Millisecond, time.Since(now))
		assert.Equal(t, ownership.ReasonDisabled, r.call.Decision().Reason)
		assert.Equal(t, 3, r.in.held())
		assert.Equal(t, level, r.dep.Policy().bucket.level.Load())
		assert.Equal(t, ownership.ClaimUnclaimed, r.call.Finish().Claim, "a protecting gate refused")
		assert.EqualValues(t, 1, r.dep.totals().Denied["disabled"])
	})
}

// TestSwitch_stops_calls_that_wait_for_a_lease.
func TestSwitch_stops_calls_that_wait_for_a_lease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "plain", 1, can)
		sibling := new(Call)
		begin(sibling, r.ctx, r.dep, can)
		sibling.Admit(time.Now())
		sibling.Lend(0)
		r.fail(claimed(ownership.ClaimClaimed, "payments", 0))
		now := time.Now()
		require.True(t, r.call.Decide(now))
		go func() {
			time.Sleep(50 * time.Millisecond)
			swap(t, r, "overrides: {retries: disabled}")
		}()
		require.False(t, r.call.Await())
		assert.Equal(t, 50*time.Millisecond, time.Since(now))
		assert.Equal(t, ownership.ReasonDisabled, r.call.Decision().Reason)
	})
}

// TestSwitch_that_came_with_the_last_moment_of_a_backoff still stops the retry.
func TestSwitch_that_came_with_the_last_moment_of_a_backoff(t *testing.T) {
	r := newRig(t, "", "plain", 3, can)
	r.sdk.noSleep = true
	r.fail(claimed(ownership.ClaimClaimed, "payments", 3))
	require.True(t, r.call.Decide(time.Now()))
	swap(t, r, switchedOff)
	require.False(t, r.call.Backoff())
	assert.Equal(t, ownership.ReasonDisabled, r.call.Decision().Reason)
}

// TestHoldout_lets_ownership_refuse_and_looks: the retry costs what retries cost, every other gate holds, and a success
// is counted as one that ownership gave up.
func TestHoldout_lets_ownership_refuse_and_looks(t *testing.T) {
	for name, c := range map[string]struct {
		share  string
		random int64
		let    bool
	}{
		"without":          {"0%", 0, false},
		"drawn":            {"1%", 9_999, true},
		"not_drawn":        {"1%", 10_000, false},
		"always":           {"100%", 999_999, true},
		"a_stop_is_one":    {"100%", 0, true},
		"other_gates_hold": {"100%", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "chain: {holdout: "+c.share+"}\n", "plain", 3, can)
			r.sdk.random = func(n int64) int64 { return min(c.random, n-1) }
			claim, reason := ownership.ClaimUnclaimed, ownership.ReasonUnclaimed
			switch name {
			case "a_stop_is_one":
				claim, reason = ownership.ClaimStop, ownership.ReasonStop
			case "other_gates_hold":
				r.call.options.Idempotent, reason = false, ownership.ReasonNotIdempotent
			}
			r.fail(claimed(claim, "ledger", 3))
			if !c.let {
				assert.False(t, r.call.Decide(time.Now()))
				assert.Equal(t, reason, r.call.Decision().Reason)
				assert.Zero(t, r.dep.totals().Holdout)
				return
			}
			require.True(t, r.call.Decide(time.Now()))
			require.True(t, r.call.Await())
			assert.Equal(t, 2, r.in.held(), "it costs a token")
			_, err := r.call.Admit(time.Now())
			require.NoError(t, err)
			assert.EqualValues(t, 1, r.dep.totals().Holdout)
			assert.Zero(t, r.dep.totals().HoldoutSucceeded)
			assert.EqualValues(t, 1, r.dep.totals().Retries)
			assert.Zero(t, r.dep.totals().WouldDeny[reason.String()], "nothing was milder than the mode")
			r.call.Lend(0)
			r.call.Done(time.Now())
			assert.EqualValues(t, 1, r.dep.totals().HoldoutSucceeded)
		})
	}
}

// TestTimeout_bounds_the_whole_call: attempts are cut by it, no wait goes into it, and a caller's sooner deadline wins.
func TestTimeout_bounds_the_whole_call(t *testing.T) {
	const yaml = "  whole: {extends: plain, retry: {timeout: 3s, attempt_timeout: 2s}}\n  only: {extends: plain, retry: {timeout: 3s, attempt_timeout: 0s}}\n"
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, yaml, "whole", 3, can)
		start := time.Now()
		r.fail(claimed(ownership.ClaimClaimed, "payments", 3))
		limit, ok := r.call.AttemptLimit(start)
		assert.True(t, ok)
		assert.Equal(t, 2*time.Second, limit)
		limit, _ = r.call.AttemptLimit(start.Add(2 * time.Second))
		assert.Equal(t, time.Second, limit, "what is left of the call")
		limit, ok = r.call.AttemptLimit(start.Add(4 * time.Second))
		assert.True(t, ok)
		assert.EqualValues(t, 1, limit)
		assert.True(t, r.call.Decide(start.Add(2*time.Second)), "half a second of backoff fits")
		r.call.giveBack()
		assert.False(t, r.call.Decide(start.Add(2600*time.Millisecond)))
		assert.Equal(t, ownership.ReasonDeadline, r.call.Decision().Reason)

		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		r.call.parent = ctx
		assert.False(t, r.call.Decide(start.Add(600*time.Millisecond)), "the caller's deadline is sooner")
	})
	r := newRig(t, yaml, "only", 3, can)
	now := time.Now()
	r.call.Admit(now)
	limit, ok := r.call.AttemptLimit(now)
	assert.True(t, ok)
	assert.Equal(t, 3*time.Second, limit)
}
