package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const throttledCatalog = `
profiles:
  throttled: {extends: read-heavy, retry: {max_attempts: 2}, budget: disabled, breaker: disabled, availability_floor: 0%, adaptive_throttle: {k: 2}}
  plainer: {extends: throttled, adaptive_throttle: disabled}
`

// throttledRig draws the middle: it refuses what is refused with more than 1/2.
func throttledRig(t *testing.T) *rig {
	t.Helper()
	return newRig(t, throttledCatalog[len("\nprofiles:\n"):], "throttled", 9, can)
}

// feed makes calls of one attempt that come to result. It returns how many were sent.
func (r *rig) feed(n int, result Result) (sent int) {
	for range n {
		r.begin(CallOptions{Replayable: true, Wireless: true})
		if reason, _ := r.call.Admit(time.Now()); reason != ownership.ReasonAllowed {
			continue
		}
		sent++
		r.call.Result = result
		r.call.Done(time.Now())
	}
	return sent
}

var rejection = Result{Status: 503, Failed: true, Retryable: true}

func TestThrottle_refuses_first_attempts_and_says_so(t *testing.T) {
	r := throttledRig(t)
	assert.Equal(t, 25, r.feed(25, Result{Status: 200}))
	assert.Equal(t, 77, r.feed(77, rejection), "the last with 51/102, which is not above the draw")
	r.begin(can)
	reason, err := r.call.Admit(time.Now())
	require.Equal(t, ownership.ReasonBreakerOpen, reason)
	require.EqualError(t, err, `chainbudget: adaptive throttling refuses an attempt at dependency "payments", with probability 0.5049: it accepts too few`)
	r.call.Refuse(reason, err)
	denied := r.call.Finish()
	assert.Zero(t, denied.Attempts)
	assert.Equal(t, ownership.ClaimUnclaimed, denied.Claim)
	assert.ErrorIs(t, denied, err)
	assert.Positive(t, denied.RetryAfter, "also without a breaker")
	require.InDelta(t, 53./104, r.dep.Policy().throttle.probability(2), 1e-12, "a refused attempt is a request")
}

func TestThrottle_refuses_a_retry_before_its_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := throttledRig(t)
		r.sdk.random = func(n int64) int64 { return n - 1 } // nothing but certainty refuses
		require.Equal(t, 100, r.feed(100, rejection))
		last := errors.New("what the server said")
		result := claimed(ownership.ClaimClaimed, "payments", 9)
		result.Err = last
		r.begin(can)
		r.fail(result)
		r.sdk.random = func(int64) int64 { return 0 }
		held, start := r.in.held(), time.Now()
		require.False(t, r.call.Decide(time.Now()))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, ownership.ReasonBreakerOpen, r.call.Decision().Reason)
		assert.Equal(t, held, r.in.held(), "nothing was taken")
		denied := r.call.Finish()
		assert.ErrorIs(t, denied, last)
		assert.ErrorContains(t, denied, "adaptive throttling refuses")
		assert.Equal(t, 1, denied.Attempts)
		assert.Equal(t, 503, denied.Status)
		require.InDelta(t, 102./103, r.call.policy.throttle.probability(2), 1e-12, "100, the first attempt and the refused retry")

		// A retry that another gate refuses was never asked for.
		r.begin(can)
		r.sdk.random = func(n int64) int64 { return n - 1 }
		r.fail(result)
		r.call.attempts = 2
		require.False(t, r.call.Decide(time.Now()))
		assert.Equal(t, ownership.ReasonMaxAttempts, r.call.Decision().Reason)
		require.InDelta(t, 103./104, r.call.policy.throttle.probability(2), 1e-12)
	})
}

func TestThrottle_what_counts_as_accepted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		result Result
		reject bool
	}{
		{"success", Result{Status: 200}, false},
		{"404", Result{Status: 404, Excluded: true}, false},
		{"421_that_is_worth_a_retry", Result{Status: 421, Failed: true, Retryable: true, Excluded: true}, false},
		{"429", Result{Status: 429, Failed: true, Retryable: true, Throttled: true, Excluded: true}, true},
		{"429_that_is_not_worth_a_retry", Result{Status: 429, Failed: true, Throttled: true, Excluded: true}, true},
		{"500", Result{Status: 500, Failed: true}, false},
		{"503", rejection, true},
		{"pushback", Result{Status: 500, Failed: true, Pushback: true}, true},
		{"timeout", Result{Err: ErrAttemptTimeout, Failed: true, Retryable: true}, true},
		{"refused_connection", Result{Err: errors.New("refused"), Failed: true, Retryable: true, Unsent: true}, true},
		{"plain_error_of_a_function", Result{Err: errors.New("no such user"), Failed: true}, false},
		{"canceled", Result{Err: context.Canceled, Canceled: true}, false},
		{"the_callers_own_body", Result{Err: errors.New("body"), Failed: true, Excluded: true, Retryable: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := throttledRig(t)
			require.Equal(t, 1, r.feed(1, tt.result))
			accepted, all := r.dep.Policy().throttle.window.Ratio()
			assert.EqualValues(t, 1, all-accepted, "one request")
			assert.Equal(t, tt.reject, accepted == 0)
		})
	}
}

func TestThrottle_forgets_and_survives_a_reload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(SDK)
		s.Init(Config{Service: "checkout", Catalog: catalogOf(t, throttledCatalog)})
		d, _, err := s.Dependency("payments", "throttled")
		require.NoError(t, err)
		for range 100 {
			d.Policy().throttle.asked(time.Now())
		}
		before := d.Policy().throttle.probability(2)
		require.InDelta(t, 100./101, before, 1e-12)
		require.NoError(t, s.Swap(catalogOf(t, throttledCatalog+"  other: {extends: throttled}\n")))
		require.Equal(t, before, d.Policy().throttle.probability(2), "the same window goes on")
		require.NoError(t, s.Swap(catalogOf(t, strings.Replace(throttledCatalog, "{k: 2}", "{k: 2, window: 1m}", 1))))
		require.Zero(t, d.Policy().throttle.probability(2), "another window begins anew")
		for range 100 {
			d.Policy().throttle.asked(time.Now())
		}
		time.Sleep(54 * time.Second)
		require.Equal(t, before, d.Policy().throttle.probability(2))
		time.Sleep(12 * time.Second)
		require.Zero(t, d.Policy().throttle.probability(2))
	})
}

func TestThrottle_off_counts_nothing(t *testing.T) {
	r := newRig(t, throttledCatalog[len("\nprofiles:\n"):], "plainer", 9, can)
	assert.Equal(t, 200, r.feed(200, rejection))
	assert.Nil(t, r.dep.Policy().throttle)
	assert.Nil(t, r.dep.throttle.Load())
	var off *throttle
	off.asked(time.Now())
	off.answered(time.Now(), &Result{})
	assert.Nil(t, r.dep.theThrottle(profiles.Throttle{}, false))
}

// TestThrottle_is_not_asked_while_the_breaker_is_open: what it refuses says nothing about what is accepted.
func TestThrottle_is_not_asked_while_the_breaker_is_open(t *testing.T) {
	r := newRig(t, "  both: {extends: tripping, adaptive_throttle: {k: 2}}\n", "both", 9, can)
	r.sdk.random = func(int64) int64 { return 0 } // everything that can be refused is
	require.Equal(t, 1, r.feed(1, rejection))
	for range 3 {
		r.begin(can)
		reason, err := r.call.Admit(time.Now())
		require.Equal(t, ownership.ReasonBreakerOpen, reason)
		require.ErrorContains(t, err, "open")
		require.NotContains(t, err.Error(), "throttling")
	}
	require.InDelta(t, 1./2, r.dep.Policy().throttle.probability(2), 1e-12, "one request")
}
