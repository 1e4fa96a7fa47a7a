package budgetconnect2_test

import (
	"testing"

	"connectrpc.com/connect/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// overHTTP2 runs a test for each way to refuse, over the protocols of HTTP/2.
func overHTTP2(t *testing.T, test func(*testing.T, protocol, func(uint32) ([]byte, bool))) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		if !p.http2 {
			return
		}
		t.Run("REFUSED_STREAM", func(t *testing.T) { test(t, p, rpctest.ByReset) })
		t.Run("GOAWAY", func(t *testing.T) { test(t, p, rpctest.ByGoAway) })
	})
}

// TestRegression_A010_a_connection_that_goes_away_costs_nothing: what the callee has not processed goes out once more by
// itself, whatever the procedure, and its lease is spent once.
func TestRegression_A010_a_connection_that_goes_away_costs_nothing(t *testing.T) {
	overHTTP2(t, func(t *testing.T, p protocol, refuse func(uint32) ([]byte, bool)) {
		callee, rec := rpctest.SDK(t, "callee"), rpctest.SDK(t, "caller")
		url := serve(t, &procedures{}, callee)
		s := rpctest.Refuse(t, 1, func(stream uint32) ([]byte, bool) {
			f, _ := refuse(stream)
			last, _ := rpctest.ByGoAway(0)
			return append(f, last...), true
		}, url[len("http://"):])
		res, err := ask(rpctest.Begin(t, rec), p.client(t, "http://"+s.Addr, with(rec.Dependency("callee", "test"))))
		require.NoError(t, err)
		assert.Equal(t, "x", res.GetValue())
		assert.EqualValues(t, 1, s.Requests.Load())
		totals := rec.SDK.Totals()
		assert.EqualValues(t, 1, totals.HiddenRepeats)
		assert.Zero(t, totals.Lost)
		assert.Zero(t, totals.Dependencies["callee"].Retries)
		assert.Zero(t, callee.SDK.Totals().RepeatedGrants)
	})
}

// TestRegression_refusals_in_a_storm_are_bounded: a callee that refuses everything gets two sendings for each attempt that
// the budget allows, and one attempt of what may not run twice. No token is lost.
func TestRegression_refusals_in_a_storm_are_bounded(t *testing.T) {
	overHTTP2(t, func(t *testing.T, p protocol, refuse func(uint32) ([]byte, bool)) {
		for _, idempotent := range []bool{true, false} {
			most, reason := int64(2), ownership.ReasonNotRetryable
			if idempotent {
				most, reason = 4, ownership.ReasonMaxAttempts
			}
			t.Run(reason.String(), func(t *testing.T) {
				t.Parallel() // net/http waits a second before it would send a request a third time
				s := rpctest.Refuse(t, -1, refuse, "")
				rec := rpctest.SDK(t, "caller")
				spec := callSpec
				if idempotent {
					spec.IdempotencyLevel = connect.IdempotencyIdempotent
				}
				err := p.client(t, "http://"+s.Addr, with(rec.Dependency("callee", "twice"))).CallUnary(rpctest.Begin(t, rec), spec, say("x"), new(text))
				assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%v", err)
				assert.Equal(t, most, s.Requests.Load(), "%v", err)
				assert.Zero(t, rec.SDK.Totals().Lost)
				reasons := rec.Reasons()
				assert.Equal(t, reason, reasons[len(reasons)-1], "%v", reasons)
			})
		}
	})
}
