package breaker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// Refuses says what Allow would, in each state, and takes nothing: asked as often as you like, it leaves every probe.
func TestRefuses_is_what_allow_answers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", profiles.Breaker{
			Window: 10 * time.Second, FailureRatio: 0.5, MinRequests: 1, OpenFor: 5 * time.Second, Probes: 1,
		}, nil)
		assert.NoError(t, b.Refuses(), "closed")

		p, err := b.Allow()
		require.NoError(t, err)
		b.Done(&p, Failure)
		_, err = b.Allow()
		require.Error(t, err)
		assert.Same(t, err, b.Refuses(), "open")
		assert.False(t, ready(b))

		time.Sleep(7 * time.Second)
		for range 3 {
			assert.NoError(t, b.Refuses(), "the open time is over")
		}
		p, err = b.Allow()
		require.NoError(t, err, "the one probe is still there")
		_, err = b.Allow()
		require.Error(t, err)
		assert.Same(t, err, b.Refuses(), "the probe is out")
		b.Done(&p, Success)
		assert.NoError(t, b.Refuses(), "closed again")

		var none *Breaker
		assert.NoError(t, none.Refuses())
	})
}
