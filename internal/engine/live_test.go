package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// TestHistory_samples_that_are_late_or_early lose nothing: two of the same second add up, and a second without one is empty.
func TestHistory_samples_that_are_late_or_early(t *testing.T) {
	r := newRig(t, "", "plain", 3, can)
	h := newHistory(r.sdk)
	at := func(after time.Duration) {
		r.begin(can)
		r.fail(claimed(ownership.ClaimClaimed, "payments", 0))
		h.take(r.sdk, h.begun.Add(after))
	}
	attempts := func() (list []uint32) {
		for _, one := range h.read().All {
			list = append(list, one.Attempts)
		}
		return list
	}
	at(400 * time.Millisecond)
	assert.Empty(t, attempts(), "it is no second yet")
	at(1100 * time.Millisecond)
	at(1400 * time.Millisecond)
	at(1600 * time.Millisecond)
	at(4 * time.Second)
	assert.Equal(t, []uint32{2, 1, 0, 1}, attempts())
	at(time.Hour) // the machine slept
	list := attempts()
	assert.Len(t, list, historySize)
	assert.EqualValues(t, 1, list[historySize-1])
	for _, n := range list[:historySize-1] {
		assert.Zero(t, n)
	}
}
