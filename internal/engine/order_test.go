package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// TestDecision_order_of_neighbors has two gates refuse that [TestDecision_order] does not have side by side, and then the
// second alone.
func TestDecision_order_of_neighbors(t *testing.T) {
	const yaml = "  fragile: {extends: tripping, availability_floor: 60%}\n"
	unavailable := func(r *rig) {
		for range floorSamples {
			r.dep.floor.add(time.Now(), false)
		}
	}
	cases := []struct {
		first, second ownership.Reason
		profile       profiles.Name
		tokens        int
		options       CallOptions
		prepare       func(*rig) // both refuse
		mend          func(*rig) // the first does not any more
	}{
		{first: ownership.ReasonNotIdempotent, second: ownership.ReasonBreakerOpen, profile: "tripping", tokens: 3,
			options: CallOptions{Replayable: true}, mend: func(r *rig) { r.call.options.Idempotent = true }},
		{first: ownership.ReasonBreakerOpen, second: ownership.ReasonAvailabilityFloor, profile: "fragile", tokens: 3, options: can,
			prepare: unavailable, mend: func(r *rig) { r.call.policy.breaker = nil }},
		{first: ownership.ReasonNoPolicy, second: ownership.ReasonNotReplayable, profile: "single", tokens: 3,
			options: CallOptions{Idempotent: true}, mend: func(r *rig) { r.call.policy.profile.Retry.MaxAttempts = 2 }},
		{first: ownership.ReasonChainExhausted, second: ownership.ReasonDeadline, profile: "plain", options: can,
			prepare: func(r *rig) { r.limit(time.Millisecond) }, mend: func(r *rig) { r.in.open(1, false) }},
	}
	for _, c := range cases {
		t.Run(c.first.String()+"_before_"+c.second.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, yaml, c.profile, c.tokens, c.options)
				if c.prepare != nil {
					c.prepare(r)
				}
				if r.cancel != nil {
					defer r.cancel()
				}
				r.fail(claimed(ownership.ClaimClaimed, "ledger", 99))
				for _, want := range []ownership.Reason{c.first, c.second} {
					assert.False(t, r.call.Decide(time.Now()))
					require.Equal(t, want, r.call.Decision().Reason)
					c.mend(r)
				}
			})
		})
	}
}

// TestDecision_asks_the_breaker_again: one that opened while a retry was slept for lets no attempt out, and what was
// reserved for it comes back.
func TestDecision_asks_the_breaker_again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "  brittle: {extends: plain, breaker: {min_requests: 2, failure_ratio: 1%}}\n", "brittle", 3, can)
		sibling := new(Call)
		begin(sibling, r.ctx, r.dep, can)
		_, err := sibling.Admit(time.Now())
		require.NoError(t, err)
		require.Equal(t, ownership.ReasonAllowed, r.again(claimed(ownership.ClaimClaimed, "ledger", 99)))
		level := r.dep.Policy().bucket.level.Load()
		sibling.Result = Result{Failed: true, Err: errors.New("reset")}
		sibling.Result.Judge(r.dep)
		sibling.Done(time.Now())

		reason, err := r.call.Admit(time.Now())
		require.Equal(t, ownership.ReasonBreakerOpen, reason)
		require.Error(t, err)
		r.call.Refuse(reason, err)
		assert.Equal(t, 1, r.call.Attempts())
		assert.Equal(t, ownership.ClaimUnclaimed, r.call.Finish().Claim)
		b := r.in.Balance()
		assert.Zero(t, b.Spent, "%+v", b)
		assert.Equal(t, level+wholeToken, r.dep.Policy().bucket.level.Load())
	})
}

// TestDecision_asks_the_deadline_again: a lease that comes home so late that no attempt would be over in time is not spent.
func TestDecision_asks_the_deadline_again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "plain", 1, can)
		for range minSamples {
			r.dep.latency.add(2 * time.Second)
		}
		sibling := new(Call)
		begin(sibling, r.ctx, r.dep, can)
		sibling.Admit(time.Now())
		sibling.Lend(0)
		ctx, cancel := context.WithTimeout(r.ctx, 4*time.Second)
		defer cancel()
		r.call.parent = ctx
		r.fail(claimed(ownership.ClaimClaimed, "ledger", 0))
		require.True(t, r.call.Decide(time.Now()))
		require.True(t, r.call.Decision().waits)
		// The typical attempt becomes slower while the call waits.
		for range 100 {
			r.dep.latency.add(time.Minute)
		}
		sibling.Result = Result{Canceled: true, Unsent: true}
		sibling.Done(time.Now())
		assert.False(t, r.call.Await())
		assert.Equal(t, ownership.ReasonDeadline, r.call.Decision().Reason)
		assert.Equal(t, 1, r.in.Balance().Held, "the token that came home stays")
	})
}

// TestDecision_counts_a_typical_attempt: what is left must do for the delay and for an attempt as long as usual.
func TestDecision_counts_a_typical_attempt(t *testing.T) {
	const typical = 300 * time.Millisecond // the drawn delay is 500 ms
	for left, want := range map[time.Duration]ownership.Reason{
		799 * time.Millisecond: ownership.ReasonDeadline,
		801 * time.Millisecond: ownership.ReasonAllowed,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 3, can)
			for range minSamples {
				r.dep.latency.add(typical)
			}
			r.limit(left)
			defer r.cancel()
			r.fail(claimed(ownership.ClaimClaimed, "ledger", 99))
			r.call.Decide(time.Now())
			assert.Equal(t, want, r.call.Decision().Reason, left)
		})
	}
	t.Run("in_a_wait_for_a_lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 1, can)
			for range minSamples {
				r.dep.latency.add(typical)
			}
			sibling := new(Call)
			begin(sibling, r.ctx, r.dep, can)
			sibling.Admit(time.Now())
			sibling.Lend(0)
			r.limit(900 * time.Millisecond)
			defer r.cancel()
			start := time.Now()
			require.Equal(t, ownership.ReasonChainExhausted, r.again(claimed(ownership.ClaimClaimed, "ledger", 0)))
			assert.Equal(t, 600*time.Millisecond, time.Since(start), "an attempt that began later would be too late")
		})
	})
}

// TestDecision_repeats_what_cannot_have_run: what must not run twice is sent again where the first cannot have run.
func TestDecision_repeats_what_cannot_have_run(t *testing.T) {
	for _, c := range []struct {
		unsent, unprocessed bool
		want                ownership.Reason
	}{
		{false, false, ownership.ReasonNotIdempotent},
		{true, false, ownership.ReasonAllowed},
		{false, true, ownership.ReasonAllowed},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 3, CallOptions{Replayable: true})
			result := claimed(ownership.ClaimClaimed, "ledger", 99)
			result.Unsent, result.Unprocessed = c.unsent, c.unprocessed
			r.fail(result)
			r.call.Decide(time.Now())
			assert.Equal(t, c.want, r.call.Decision().Reason, "%+v", c)
		})
	}
}

// TestDecision_asks_the_profiles_minute before it waits, and not only the process's.
func TestDecision_asks_the_profiles_minute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "  paced: {extends: plain, process_budget: 1}\n", "paced", 1, can)
		sibling := new(Call) // its lease is out: a retry would wait for it
		begin(sibling, r.ctx, r.dep, can)
		sibling.Admit(time.Now())
		sibling.Lend(0)
		_, held := r.call.policy.pacer.take()
		require.True(t, held)
		r.fail(claimed(ownership.ClaimClaimed, "ledger", 0))
		assert.False(t, r.call.Decide(time.Now()))
		assert.Equal(t, ownership.ReasonProcessBudget, r.call.Decision().Reason)
	})
}

// TestClaim_hears_the_gates_behind_one_without_a_verdict: canceled and settled say nothing about whether others may retry; a
// gate that protects, and would have refused, does.
func TestClaim_hears_the_gates_behind_one_without_a_verdict(t *testing.T) {
	for _, protects := range []bool{false, true} {
		want := map[bool]ownership.Claim{false: ownership.ClaimClaimed, true: ownership.ClaimUnclaimed}[protects]
		for reason, prepare := range map[ownership.Reason]func(*rig){
			ownership.ReasonSettled: func(r *rig) { r.in.Return(ownership.Verdict{}) },
			ownership.ReasonCanceled: func(r *rig) {
				ctx, cancel := context.WithCancel(r.ctx)
				cancel()
				r.call.parent = ctx
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "", "plain", 3, can)
				prepare(r)
				if protects {
					r.dep.Policy().bucket.level.Store(0)
				}
				r.fail(claimed(ownership.ClaimClaimed, "ledger", 99))
				r.call.Decide(time.Now())
				require.Equal(t, reason, r.call.Decision().Reason)
				assert.Equal(t, want, r.call.claim(), "%v, a protecting gate behind it: %t", reason, protects)
			})
		}
	}
}
