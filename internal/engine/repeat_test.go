package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// TestRepeats: a call that repeats a failed one of the same request is counted, charged a token, or refused.
func TestRepeats(t *testing.T) {
	const yaml = `
  charging: {extends: plain, retry: {repeats: charge}}
  refusing: {extends: plain, retry: {repeats: refuse}}
`
	first := can
	first.Operation = 1
	failOnce := func(r *rig) {
		result := claimed(ownership.ClaimClaimed, "ledger", 1)
		result.Retryable = false
		r.fail(result)
		r.call.Decide(time.Now())
		r.call.Finish()
	}
	again := func(r *rig, operation uint64) ownership.Reason {
		o := can
		o.Operation = operation
		r.begin(o)
		reason, err := r.call.Admit(time.Now())
		require.NoError(t, err)
		return reason
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, yaml, "plain", 1, first)
		failOnce(r)
		assert.Equal(t, ownership.ReasonAllowed, again(r, 1))
		assert.Equal(t, ownership.ReasonAllowed, again(r, 2))
		assert.Equal(t, int64(1), r.dep.totals().RepeatedCalls)
		assert.Zero(t, r.in.Balance().Spent)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, yaml, "charging", 1, first)
		failOnce(r)
		assert.Equal(t, ownership.ReasonAllowed, again(r, 2), "another operation costs nothing")
		assert.Zero(t, r.in.Balance().Spent)
		assert.Equal(t, ownership.ReasonAllowed, again(r, 1))
		assert.Equal(t, Balance{Granted: 1, Spent: 1}, r.in.Balance())
		assert.Equal(t, int64(1), r.dep.totals().Retries, "it is a retry, and the return says so")
		assert.Equal(t, ownership.ReasonChainExhausted, again(r, 1))
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, yaml, "refusing", 1, first)
		failOnce(r)
		assert.Equal(t, ownership.ReasonAllowed, again(r, 2))
		assert.Equal(t, ownership.ReasonMaxAttempts, again(r, 1))
		assert.Equal(t, Balance{Granted: 1, Held: 1}, r.in.Balance())
	})
}

// A charged repetition is a retry, and while these are switched off there is none: it once went out and counted as one.
func TestRegression_the_switch_refuses_charged_repetitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := can
		o.Operation = 1
		r := newRig(t, "\n  charging: {extends: plain, retry: {repeats: charge}}\n", "charging", 1, o)
		r.fail(claimed(ownership.ClaimClaimed, "ledger", 1))
		require.NoError(t, r.sdk.Turn(r.dep.Name(), SwitchDisabled))
		r.call.Decide(time.Now())
		r.call.Finish()
		r.begin(o)
		reason, err := r.call.Admit(time.Now())
		require.NoError(t, err)
		assert.Equal(t, ownership.ReasonDisabled, reason)
		r.call.Refuse(reason, err)
		assert.Equal(t, Balance{Granted: 1, Held: 1}, r.in.Balance())
		assert.Zero(t, r.dep.totals().Retries)

		require.NoError(t, r.sdk.Turn(r.dep.Name(), SwitchCatalog))
		r.begin(o)
		reason, err = r.call.Admit(time.Now())
		require.NoError(t, err)
		assert.Equal(t, ownership.ReasonAllowed, reason)
		assert.Equal(t, Balance{Granted: 1, Spent: 1}, r.in.Balance())
	})
}
