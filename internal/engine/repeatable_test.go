package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// A run that must come out the same again draws its nonces itself, and orders the calls that wake.
func TestConfig_repeatable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "plain", 3, can)
		nonce, woken := uint32(41), 0
		r.sdk.woken = func(ctx context.Context) {
			assert.Equal(t, r.in, FromContext(ctx), "the caller's context")
			woken++
		}
		r.fail(claimed(ownership.ClaimClaimed, "payments", 2))
		require.True(t, r.call.Decide(time.Now()))
		require.True(t, r.call.Await(), "there is a token: nothing to wait for")
		assert.Zero(t, woken)
		require.True(t, r.call.Backoff())
		assert.Equal(t, 1, woken)
		r.sdk.nonce = func() uint32 { nonce++; return nonce }
		r.call.Lend(0)
		_, got := r.call.Lent()
		assert.Equal(t, otelprop.Nonce(42), got)
	})
}
