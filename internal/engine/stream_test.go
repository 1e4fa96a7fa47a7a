package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// TestCall_a_stream_counts_up_to_its_first_answer: how long a stream lives says nothing about how long an attempt takes, and
// what it comes to after its first message does not open the breaker.
func TestCall_a_stream_counts_up_to_its_first_answer(t *testing.T) {
	r := newRig(t, "", "tripping", 3, CallOptions{Replayable: true, Idempotent: true})
	begun := time.Now()
	for range minSamples {
		r.begin(CallOptions{Replayable: true, Idempotent: true})
		reason, err := r.call.Admit(begun)
		require.NoError(t, err)
		require.Equal(t, ownership.ReasonAllowed, reason)
		r.call.Answered(begun.Add(20 * time.Millisecond))
		r.call.Answered(begun.Add(time.Hour)) // only the first counts
		r.call.Done(begun.Add(time.Hour))
	}
	assert.Equal(t, 20*time.Millisecond, r.dep.Typical())

	r.begin(CallOptions{Replayable: true, Idempotent: true})
	_, err := r.call.Admit(time.Now())
	require.NoError(t, err)
	r.call.Answered(time.Now())
	r.call.Commit()
	r.call.Result = Result{Failed: true, Retryable: true}
	r.call.Done(time.Now())
	assert.False(t, r.call.Decide(time.Now()))
	assert.Equal(t, ownership.ReasonNotReplayable, r.call.Decision().Reason)
	assert.Equal(t, breaker.Closed, r.dep.Policy().breaker.State())
}

// TestCall_has_a_limit_of_its_own: a source beside the profile can lower the attempts, and never raises them.
func TestCall_has_a_limit_of_its_own(t *testing.T) {
	for _, c := range []struct {
		own, attempts int
		reason        ownership.Reason
	}{
		{0, 3, ownership.ReasonMaxAttempts},
		{1, 1, ownership.ReasonNoPolicy},
		{2, 2, ownership.ReasonMaxAttempts},
		{9, 3, ownership.ReasonMaxAttempts},
	} {
		r := newRig(t, "", "plain", 9, CallOptions{Replayable: true, Idempotent: true, MaxAttempts: c.own})
		failure := claimed(ownership.ClaimClaimed, "ledger", 99)
		r.fail(failure)
		for r.call.Decide(time.Now()) {
			r.fail(failure)
		}
		assert.Equal(t, c.attempts, r.call.Attempts(), "%+v", c)
		assert.Equal(t, c.reason, r.call.Decision().Reason, "%+v", c)
	}
}

// TestCall_identified_late: what is asked can be said as late as before Finish.
func TestCall_identified_late(t *testing.T) {
	r := newRig(t, "", "plain", 1, CallOptions{})
	r.fail(Result{Failed: true})
	r.call.Decide(time.Now())
	r.call.Identify(42)
	assert.Equal(t, uint64(42), r.call.Finish().Operation)
	assert.True(t, r.in.failedBefore("payments", 42))
}
