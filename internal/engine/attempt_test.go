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

// Whoever asks an attempt's context only after it was released finds it canceled, as one who had asked before.
func TestAttempt_asked_after_its_release(t *testing.T) {
	type key struct{}
	for name, before := range map[string]func(*Attempt){
		"nobody_asked":     func(*Attempt) {},
		"somebody_asked":   func(a *Attempt) { a.Done() },
		"a_timer_was_set":  func(a *Attempt) { a.Arm(time.Hour) },
		"released_already": func(a *Attempt) { a.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			var a, other Attempt
			parent := context.WithValue(t.Context(), key{}, "the parent's")
			a.Init(parent, new(Call))
			other.Init(parent, new(Call))
			before(&a)
			a.Release()
			a.Cancel(ErrLost) // only the first cause counts
			select {
			case <-a.Done():
			default:
				t.Error("it is not done")
			}
			derived, cancel := context.WithCancel(&a)
			defer cancel()
			if a.Err() != context.Canceled || a.Canceled() != context.Canceled || derived.Err() != context.Canceled {
				t.Errorf("%v, %v, %v of a derived one", a.Err(), a.Canceled(), derived.Err())
			}
			if got := a.Value(key{}); got != "the parent's" {
				t.Errorf("a value of the parent's: %v", got)
			}
			if other.Err() != nil || other.Canceled() != nil {
				t.Errorf("another attempt: %v, %v", other.Err(), other.Canceled())
			}
		})
	}
}
