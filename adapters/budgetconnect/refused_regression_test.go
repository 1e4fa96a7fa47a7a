package budgetconnect_test

import (
	"testing"

	"connectrpc.com/connect"
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
		callee := rpctest.SDK(t, "callee")
		url := server(t, &procedures{}, callee)
		s := rpctest.Refuse(t, 1, func(stream uint32) ([]byte, bool) {
			f, _ := refuse(stream)
			return append(f, second(rpctest.ByGoAway)...), true
		}, url[len("http://"):])
		rec := rpctest.SDK(t, "caller")
		resp, err := ask(rpctest.Begin(t, rec), p.client(t, "http://"+s.Addr, callProcedure, with(rec.Dependency("callee", "test"))))
		require.NoError(t, err)
		assert.Equal(t, "x", resp.Msg.GetValue())
		assert.EqualValues(t, 1, s.Requests.Load())
		totals := rec.SDK.Totals()
		assert.EqualValues(t, 1, totals.HiddenRepeats)
		assert.Zero(t, totals.Lost)
		assert.EqualValues(t, 0, totals.Dependencies["callee"].Retries)
		assert.Zero(t, callee.SDK.Totals().RepeatedGrants)
	})
}

func second(refuse func(uint32) ([]byte, bool)) []byte { f, _ := refuse(0); return f }

// TestRegression_refusals_in_a_storm_are_bounded: a callee that refuses everything gets two sendings for each attempt that
// the budget allows, and one attempt of what may not run twice. No token is lost.
func TestRegression_refusals_in_a_storm_are_bounded(t *testing.T) {
	overHTTP2(t, func(t *testing.T, p protocol, refuse func(uint32) ([]byte, bool)) {
		for _, c := range []struct {
			name       string
			idempotent bool
			most       int64
			reason     ownership.Reason
		}{
			{"idempotent", true, 4, ownership.ReasonMaxAttempts},
			{"not_idempotent", false, 2, ownership.ReasonNotRetryable},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel() // net/http waits a second before it would send a request a third time
				s := rpctest.Refuse(t, -1, refuse, "")
				rec := rpctest.SDK(t, "caller")
				option := with(rec.Dependency("callee", "twice"))
				if c.idempotent {
					option = with(rec.Dependency("callee", "twice"), every)
				}
				_, err := ask(rpctest.Begin(t, rec), p.client(t, "http://"+s.Addr, callProcedure, option))
				assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%v", err)
				assert.Equal(t, c.most, s.Requests.Load(), "%v", err)
				assert.Zero(t, rec.SDK.Totals().Lost)
				reasons := rec.Reasons()
				assert.Equal(t, c.reason, reasons[len(reasons)-1], "%v", reasons)
			})
		}
	})
}
