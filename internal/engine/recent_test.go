package engine

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// TestRing_stress: whatever writes and reads meet, an entry is read whole, once, and in order.
func TestRing_stress(t *testing.T) {
	r := new(ring)
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for i := range 20_000 {
				r.add(&Recent{Attempt: i, Hop: i, Status: w, Owner: strconv.Itoa(i)})
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				list := r.list()
				assert.LessOrEqual(t, len(list), recentSize)
				latest := map[int]int{}
				for _, e := range list {
					assert.Equal(t, e.Attempt, e.Hop)
					assert.Equal(t, strconv.Itoa(e.Attempt), e.Owner)
					if before, ok := latest[e.Status]; ok {
						assert.Less(t, e.Attempt, before, "the latest of each writer first")
					}
					latest[e.Status] = e.Attempt
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	for i := range 3 * recentSize { // nobody disturbs
		r.add(&Recent{Attempt: i})
	}
	list := r.list()
	require.Len(t, list, recentSize)
	for i, e := range list {
		assert.Equal(t, 3*recentSize-1-i, e.Attempt)
	}
}

// TestRecent_takes_the_chain_and_the_trace of retries, refusals and refusals before the first attempt, once somebody watches.
func TestRecent_takes_the_chain_and_the_trace(t *testing.T) {
	r := newRig(t, "", "plain", 3, can)
	defer func() { require.NoError(t, r.sdk.Close()) }()
	r.sdk.noSleep = true
	id := trace.TraceID{1, 2, 3}
	r.ctx = trace.ContextWithSpanContext(r.ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{9}}))
	r.begin(can)
	r.again(claimed(ownership.ClaimClaimed, "ledger", 3))
	retries, denials := r.sdk.Recent()
	assert.Empty(t, append(retries, denials...), "nobody watches")

	r.sdk.Watch()
	r.begin(can)
	r.again(claimed(ownership.ClaimClaimed, "ledger", 2))
	r.fail(claimed(ownership.ClaimUnclaimed, "ledger", 0)) // the retry goes out
	require.False(t, r.call.Decide(time.Now()))
	retries, denials = r.sdk.Recent()
	require.Len(t, retries, 1)
	require.Len(t, denials, 1)
	for reason, e := range map[ownership.Reason]Recent{ownership.ReasonAllowed: retries[0], ownership.ReasonUnclaimed: denials[0]} {
		assert.Equal(t, reason, e.Reason)
		assert.Equal(t, "payments", e.Dependency)
		assert.Equal(t, "plain", e.Profile)
		assert.Equal(t, "edge", e.Entry)
		assert.Equal(t, 1, e.Hop)
		assert.Equal(t, "ledger", e.Owner)
		assert.Equal(t, id, e.Trace)
		assert.WithinDuration(t, time.Now(), e.At, time.Minute)
	}
	assert.Equal(t, 1, retries[0].Attempt, "the one that failed")
	assert.Equal(t, 2, denials[0].Attempt)
	assert.Equal(t, ownership.ClaimUnclaimed, denials[0].Claim)
}

// TestRecent_has_refusals_before_the_first_attempt, also of calls that belong to no request.
func TestRecent_has_refusals_before_the_first_attempt(t *testing.T) {
	r := openRig(t)
	for _, ctx := range []context.Context{r.ctx, context.Background()} {
		in, p := r.dep.Enter(ctx)
		require.NotNil(t, p.Refusal(ctx, in, true))
	}
	_, denials := r.sdk.Recent()
	require.Len(t, denials, 2)
	for _, e := range denials {
		assert.Equal(t, ownership.ReasonBreakerOpen, e.Reason)
		assert.Zero(t, e.Attempt)
		assert.Equal(t, "payments", e.Owner)
	}
	assert.Equal(t, "edge", denials[1].Entry)
	assert.Equal(t, "", denials[0].Entry)
}

// openRig is one whose breaker is open, while somebody watches.
func openRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, "", "tripping", 3, can)
	t.Cleanup(func() { require.NoError(t, r.sdk.Close()) })
	r.fail(claimed(ownership.ClaimClaimed, "payments", 0))
	require.Error(t, r.dep.Breaker().Refuses())
	r.sdk.Watch()
	return r
}

// TestRecent_Allocs: the refusal of an open breaker costs no allocation while the page is served, and a refused retry no more
// than it does without.
func TestRecent_Allocs(t *testing.T) {
	r := openRig(t)
	in, p := r.dep.Enter(r.ctx)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if p.Refusal(r.ctx, in, true) == nil {
			t.Fatal("it was not refused")
		}
	}))
	refuse := func(r *rig) float64 {
		r.fail(claimed(ownership.ClaimUnclaimed, "payments", 0))
		return testing.AllocsPerRun(100, func() { r.call.Decide(time.Now()) })
	}
	off := refuse(newRig(t, "", "plain", 3, can))
	watched := newRig(t, "", "plain", 3, can)
	watched.sdk.Watch()
	defer func() { require.NoError(t, watched.sdk.Close()) }()
	assert.Equal(t, off, refuse(watched))
	_, denials := watched.sdk.Recent()
	assert.Len(t, denials, recentSize)
}
