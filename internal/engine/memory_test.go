package engine

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

func TestNonces_remember_a_minute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := nonces{start: time.Now()}
		assert.False(t, m.seen(7, time.Now()))
		assert.True(t, m.seen(7, time.Now()))
		time.Sleep(60 * time.Second)
		assert.True(t, m.seen(7, time.Now()))
		time.Sleep(time.Second)
		assert.False(t, m.seen(7, time.Now()), "forgotten after a minute")
		assert.True(t, m.seen(7, time.Now()))
	})
}

func TestNonces_are_bounded_and_forget_the_oldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := nonces{start: time.Now()}
		for i := range otelprop.Nonce(nonceWays + 1) {
			assert.False(t, m.seen(1+i*nonceSets, time.Now()))
			time.Sleep(time.Second)
		}
		assert.True(t, m.seen(1+nonceWays*nonceSets, time.Now()))
		assert.True(t, m.seen(1+1*nonceSets, time.Now()))
		assert.False(t, m.seen(1, time.Now()), "the oldest of the set made room")
	})
}

// TestNonces_grant_once: of many that bring one nonce at the same moment exactly one gets its grant.
func TestNonces_grant_once(t *testing.T) {
	m := nonces{start: time.Now()}
	for n := range otelprop.Nonce(2000) {
		var granted atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if !m.seen(n, time.Now()) {
					granted.Add(1)
				}
			})
		}
		wg.Wait()
		if granted.Load() != 1 {
			t.Fatalf("nonce %v was granted %d times", n, granted.Load())
		}
	}
}

func TestOperations_learn_and_unlearn(t *testing.T) {
	var o operations
	op := o.find(42)
	assert.Same(t, op, o.find(42))
	for range learnedAfter {
		assert.False(t, op.needsNoLease())
		op.observe(true, false, false)
	}
	assert.True(t, op.needsNoLease(), "silent")
	op.observe(true, true, false)
	assert.False(t, op.needsNoLease(), "one return unlearns it")
	for range learnedAfter {
		assert.False(t, op.needsNoLease())
		op.observe(false, true, true)
	}
	assert.True(t, op.needsNoLease(), "leaf, learned from failures too")
	op.observe(false, false, false)
	assert.True(t, op.needsNoLease(), "a failure without a return teaches nothing")
	op.observe(true, true, false)
	assert.False(t, op.needsNoLease())
	for range learnedAfter {
		op.observe(false, false, false)
	}
	assert.False(t, op.needsNoLease(), "silent only from successful responses")
}

func TestOperations_are_bounded(t *testing.T) {
	var o operations
	for key := range uint64(100_000) {
		o.find(key+1).observe(true, false, false)
	}
	used := map[*operation]bool{}
	for key := range uint64(100_000) {
		used[o.find(key+1)] = true
	}
	assert.LessOrEqual(t, len(used), operationSlots+1)
	assert.Same(t, &o.other, o.find(0))
}

func TestLatency_is_a_moving_average_of_an_eighth(t *testing.T) {
	var l latency
	for range minSamples - 1 {
		l.add(80 * time.Millisecond)
		assert.Zero(t, l.typical(), "nothing is known from so few")
	}
	l.add(80 * time.Millisecond)
	assert.Equal(t, 80*time.Millisecond, l.typical())
	l.add(160 * time.Millisecond)
	assert.Equal(t, 90*time.Millisecond, l.typical())
}
