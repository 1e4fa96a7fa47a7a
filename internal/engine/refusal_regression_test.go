package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Whether somebody watches is no reason for another number: a call without a request that an open breaker refused was once
// one that had lost its context only if its span was recording.
func TestRegression_a_refused_call_without_a_request_counts_the_same_whoever_watches(t *testing.T) {
	counted := func(ctx context.Context) (calls, noPurse int64) {
		s := new(SDK)
		s.Init(Config{Service: "checkout", Catalog: profiles.Builtin()})
		d, _, err := s.Dependency("ledger", profiles.ReadHeavy)
		require.NoError(t, err)
		for d.Breaker().Refuses() == nil {
			permit, err := d.Breaker().Allow()
			require.NoError(t, err)
			d.Breaker().Done(&permit, breaker.Failure)
		}
		in, policy := d.Enter(ctx)
		if policy.Refusal(ctx, in, true) == nil {
			var c Call
			c.Begin(ctx, in, policy, CallOptions{Idempotent: true, Replayable: true})
			reason, err := c.Admit(time.Now())
			c.Refuse(reason, err)
			_ = c.Finish()
		}
		totals := s.Totals()
		return totals.Dependencies["ledger"].Calls, totals.NoPurse
	}
	for name, ctx := range map[string]context.Context{
		"nobody": context.Background(), "a span": trace.ContextWithSpan(context.Background(), new(span)),
	} {
		calls, noPurse := counted(ctx)
		assert.EqualValues(t, 1, calls, name)
		assert.EqualValues(t, 1, noPurse, name)
	}
}
