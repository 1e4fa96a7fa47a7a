package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// runner is an attempt of a call that hedges: it comes to result after a while.
type runner struct {
	Call
	after     time.Duration
	result    Result
	discarded bool
}

func (r *runner) Leg() *Call { return &r.Call }
func (r *runner) Discard()   { r.discarded = true }
func (r *runner) Run() {
	var a Attempt
	a.Init(r.Parent(), &r.Call)
	select {
	case <-time.After(r.after):
		r.Result = r.result
	case <-a.Done():
		r.Result = Result{Failed: true, Retryable: true, Err: a.Err()}
	}
	a.Release()
	r.Done(r.Now())
}

const hedgeRig = `
  hedged: {extends: plain, hedge: {after: 50ms, max: 2}}
  throttled: {extends: hedged, adaptive_throttle: {k: 1.01, window: 2m}}
`

// race admits an attempt of the rig's call and races it against hedges made from the others.
func (r *rig) race(t *testing.T, attempts ...*runner) *runner {
	t.Helper()
	reason, err := r.call.Admit(time.Now())
	require.Equal(t, ownership.ReasonAllowed, reason, err)
	require.True(t, r.call.CanHedge())
	next := 0
	return r.call.Race(attempts[0], func() (Racer, error) {
		next++
		return attempts[next], nil
	}).(*runner)
}

func TestRace_adaptive_throttling_refuses_a_hedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hedgeRig, "throttled", 3, can)
		window := r.dep.policy.Load().throttle.window
		for range 3 {
			window.AddAt(time.Now(), false)
		}
		window.AddAt(time.Now(), true)
		// Of three asked for one was accepted: 1.99/4 is not above the 0.5 that is drawn. With the first attempt it is 2.99/5.
		slow, hedge := &runner{after: 100 * time.Millisecond}, &runner{}
		assert.Same(t, slow, r.race(t, slow, hedge))
		assert.Equal(t, ownership.ReasonBreakerOpen, r.call.Decision().Reason)
		assert.Equal(t, 0, r.in.Balance().Spent)
		assert.Equal(t, Result{}, r.call.Result, "the call succeeded")
	})
}

// What was reserved for a hedge comes back when the answer comes while its request is made.
func TestRace_an_answer_comes_while_the_hedge_is_made(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hedgeRig, "hedged", 3, can)
		r.call.Admit(time.Now())
		first, hedge := &runner{after: 60 * time.Millisecond}, &runner{}
		level := r.dep.BudgetLevel()
		got := r.call.Race(first, func() (Racer, error) {
			assert.Equal(t, 1, r.in.Balance().Spent, "reserved at the decision")
			time.Sleep(20 * time.Millisecond) // a slow GetBody
			return hedge, nil
		})
		assert.Same(t, first, got)
		assert.True(t, hedge.discarded)
		assert.Equal(t, 0, r.in.Balance().Spent)
		assert.Equal(t, level, r.dep.BudgetLevel())
		assert.Equal(t, 1, r.call.Attempts())
		assert.Zero(t, r.sdk.Totals().Dependencies["payments"].Hedges)
	})
}

// It does, too, when making the request panics, and the attempt that runs is canceled.
func TestRace_a_panic_while_the_hedge_is_made(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hedgeRig, "hedged", 3, can)
		r.call.Admit(time.Now())
		first := &runner{after: time.Hour}
		assert.PanicsWithValue(t, "GetBody", func() {
			r.call.Race(first, func() (Racer, error) { panic("GetBody") })
		})
		begun := time.Now()
		synctest.Wait()
		assert.Zero(t, time.Since(begun))
		assert.True(t, first.Result.Canceled)
		assert.Equal(t, 0, r.in.Balance().Spent)
	})
}

// Two attempts that answer at the same moment: one counts.
func TestRace_one_success_counts(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, hedgeRig, "hedged", 3, can)
			first, hedge := &runner{after: 80 * time.Millisecond}, &runner{after: 30 * time.Millisecond}
			won := r.race(t, first, hedge)
			synctest.Wait()
			lost := first
			if won == first {
				lost = hedge
			}
			assert.False(t, won.Result.Canceled || won.Dropped())
			assert.True(t, lost.Result.Canceled && lost.Dropped())
			ok, all := r.dep.floor.window.Ratio()
			assert.Equal(t, ok, all, "no failure")
			successes, failures := r.dep.policy.Load().breaker.Counts()
			assert.Equal(t, []uint64{1, 0}, []uint64{successes, failures})
		})
	}
}

// The second of two failures is decided on with what the first one said.
func TestRace_the_most_restrictive_failure_is_decided_on(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		r := newRig(t, hedgeRig, "hedged", 3, can)
		stop := claimed(ownership.ClaimStop, "ledger", 0)
		stop.Judge(r.dep)
		last := &runner{after: 90 * time.Millisecond, result: Result{Err: down, Failed: true, Retryable: true}}
		assert.Same(t, last, r.race(t, &runner{after: 60 * time.Millisecond, result: stop}, last))
		assert.False(t, r.call.Decide(time.Now()))
		f := r.call.Finish()
		assert.Equal(t, ownership.ReasonStop, f.Reason)
		assert.Equal(t, ownership.ClaimStop, f.Claim)
		assert.Equal(t, "ledger", f.Owner)
		assert.ErrorIs(t, f, down)
	})
}
