package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// TestFloor_needs_samples_and_lets_go_above_itself: 19 failures say nothing; below 60 % nobody retries, until 70 % are reached.
func TestFloor_needs_samples_and_lets_go_above_itself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const share = 0.6
		steps := []struct {
			ok, failed int // in the window from then on
			refuses    bool
		}{
			{0, floorSamples - 1, false},
			{0, floorSamples, true},
			{60, 40, false}, // exactly at the floor, and nothing was refused before: see below
			{59, 41, true},
			{69, 31, true}, // not above it by enough
			{70, 30, false},
			{60, 40, false},
		}
		r := newRig(t, "", "floored", 3, can)
		f := &r.dep.floor
		for _, s := range steps {
			if s.ok == 60 {
				f.set(false)
			}
			time.Sleep(2 * floorWindow) // the window is empty again
			for range s.ok {
				f.add(time.Now(), true)
			}
			for range s.failed {
				f.add(time.Now(), false)
			}
			assert.Equal(t, s.refuses, f.refuses(share), "%+v", s)
			assert.False(t, f.refuses(0), "no floor")
			f.refuses(share) // asked again, it says the same
			assert.Equal(t, s.refuses, f.refuses(share), "%+v", s)
		}
	})
}

// TestFloor_counts_first_attempts: neither retries nor what was canceled.
func TestFloor_counts_first_attempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "floored", 3, can)
		require.Equal(t, ownership.ReasonAllowed, r.again(claimed(ownership.ClaimClaimed, "ledger", 99)))
		r.fail(claimed(ownership.ClaimClaimed, "ledger", 99))
		r.begin(can)
		r.fail(Result{Canceled: true})
		r.begin(can)
		r.fail(Result{Status: 200})
		ok, total, _ := r.dep.Availability()
		assert.Equal(t, [2]uint64{1, 2}, [2]uint64{ok, total})
	})
}
