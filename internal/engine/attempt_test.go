package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A timer that has gone off when the headers come, and whose function runs only afterwards, no longer ends the attempt: the
// caller reads the body by then.
func TestRegression_a_timer_that_comes_too_late_cancels_nothing(t *testing.T) {
	for name, asked := range map[string]bool{"nobody_asks_for_Done": false, "somebody_asks_for_Done": true} {
		t.Run(name, func(t *testing.T) {
			var a Attempt
			a.Init(context.Background(), new(Call))
			a.Arm(time.Hour)
			a.timer.Stop() // as if it had gone off: its function has not come to run yet
			if asked {
				a.Done()
			}
			a.Disarm()
			a.expire()
			assert.NoError(t, a.Canceled())
			assert.NoError(t, a.Err())
			a.Release()
			assert.ErrorIs(t, a.Err(), context.Canceled)
		})
	}
	t.Run("in_time_it_does", func(t *testing.T) {
		var a Attempt
		a.Init(context.Background(), new(Call))
		a.Arm(time.Hour)
		a.timer.Stop()
		a.expire()
		a.Disarm()
		assert.Equal(t, ErrAttemptTimeout, a.Canceled())
		assert.ErrorIs(t, a.Err(), context.DeadlineExceeded)
	})
}
