package budgetgrpc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// refusals are what a callee says that has done nothing with a request.
var refusals = map[string]func(c *frameConn, stream uint32) bool{
	"REFUSED_STREAM": func(c *frameConn, stream uint32) bool { return c.refuse(stream) },
	"GOAWAY":         func(c *frameConn, _ uint32) bool { c.goAway(0); return false },
	"GOAWAY_open":    func(c *frameConn, _ uint32) bool { return c.goAway(0) },
}

// TestRegression_A057_a_refused_call_is_repeated_once_for_nothing: a method that may not run twice is sent twice, then the
// caller hears of it. The lease comes home.
func TestRegression_A057_a_refused_call_is_repeated_once_for_nothing(t *testing.T) {
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			s := serveFrames(t, func(c *frameConn, stream uint32, n int64) bool { return n == 0 || refuse(c, stream) })
			rec := rpctest.SDK(t, "caller")
			ctx := rpctest.Begin(t, rec)
			err := ask(ctx, dial(t, s.addr, budgetgrpc.DialOptions(rec.Dependency("callee", "test"))...))
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.EqualValues(t, 2, s.requests.Load(), "%v", err)
			totals := rec.SDK.Totals()
			assert.Contains(t, []int64{1, 2}, totals.HiddenRepeats, "one was made; gRPC may have wanted another")
			assert.Zero(t, totals.Lost, "%v", err)
			assert.Positive(t, totals.Dependencies["callee"].Lent)
			assert.Equal(t, totals.Dependencies["callee"].Lent, totals.Dependencies["callee"].Home)
			assert.Equal(t, []ownership.Reason{ownership.ReasonNotRetryable}, rec.Reasons())
		})
	}
}

// TestRegression_refusals_in_a_storm_are_bounded: a callee that refuses everything gets two sendings for each attempt that
// the budget allows, whatever the method.
func TestRegression_refusals_in_a_storm_are_bounded(t *testing.T) {
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			s := serveFrames(t, func(c *frameConn, stream uint32, n int64) bool { return n == 0 || refuse(c, stream) })
			rec := rpctest.SDK(t, "caller")
			err := ask(rpctest.Begin(t, rec), dial(t, s.addr, budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...))
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.EqualValues(t, 8, s.requests.Load(), "4 attempts, each repeated once by gRPC: %v", err)
			totals := rec.SDK.Totals()
			assert.GreaterOrEqual(t, totals.HiddenRepeats, int64(4))
			assert.LessOrEqual(t, totals.HiddenRepeats, int64(8))
			assert.Zero(t, totals.Lost)
			assert.Equal(t, []ownership.Reason{ownership.ReasonAllowed, ownership.ReasonAllowed, ownership.ReasonAllowed, ownership.ReasonMaxAttempts}, rec.Reasons())
		})
	}
}

// TestRegression_A057_a_refused_stream_is_repeated_once_for_nothing is the same for a server stream. gRPC alone ends some of
// these with io.EOF, as if the callee had had nothing to say.
func TestRegression_A057_a_refused_stream_is_repeated_once_for_nothing(t *testing.T) {
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				s := serveFrames(t, func(c *frameConn, stream uint32, n int64) bool { return n == 0 || refuse(c, stream) })
				rec := rpctest.SDK(t, "caller")
				got, err := list(rpctest.Begin(t, rec), dial(t, s.addr, budgetgrpc.DialOptions(rec.Dependency("callee", "test"))...))
				assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
				assert.Empty(t, got)
				assert.EqualValues(t, 2, s.requests.Load(), "%v", err)
				assert.Zero(t, rec.SDK.Totals().Lost, "%v", err)
			}
		})
	}
}

// TestRegression_connections_that_close_at_once_are_bounded: on a connection that closes before it takes a request, gRPC
// tries again on the next one without end and without a pause. Nothing reaches the wire; the attempt has an end.
func TestRegression_connections_that_close_at_once_are_bounded(t *testing.T) {
	s := serveFrames(t, func(c *frameConn, stream uint32, n int64) bool {
		if n > 0 {
			return c.refuse(stream)
		}
		time.AfterFunc(20*time.Millisecond, func() { c.goAway(0) })
		return true
	}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
	rec := rpctest.SDK(t, "caller")
	ctx, cancel := context.WithTimeout(rpctest.Begin(t, rec), 20*time.Second)
	defer cancel()
	err := ask(ctx, dial(t, s.addr, budgetgrpc.DialOptions(rec.Dependency("callee", "single"))...))
	assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.NoError(t, ctx.Err(), "ended by itself")
	totals := rec.SDK.Totals()
	assert.Zero(t, totals.Lost)
	assert.Zero(t, s.requests.Load())
	assert.EqualValues(t, 8, totals.HiddenRepeats, "%d connections: %v", s.conns.Load(), err)
}

// TestRegression_a_refused_connection_loses_nothing: gRPC begins more attempts than it makes, and none of them leaves.
func TestRegression_a_refused_connection_loses_nothing(t *testing.T) {
	for name, method := range map[string][]budgetgrpc.Option{"idempotent": {every}, "not_idempotent": nil} {
		t.Run(name, func(t *testing.T) {
			rec := rpctest.SDK(t, "caller")
			var seen counter
			options := append(budgetgrpc.DialOptions(rec.Dependency("callee", "test"), method...), grpc.WithStatsHandler(&seen), grpc.WithDefaultServiceConfig(policy4))
			err := ask(rpctest.Begin(t, rec), dial(t, nowhere, options...))
			assert.Equal(t, codes.Unavailable, status.Code(err))
			d := rec.SDK.Totals().Dependencies["callee"]
			assert.EqualValues(t, 4, d.Attempts, "unsent calls are repeated whatever the method")
			assert.EqualValues(t, 4, seen.begun.Load())
			assert.Zero(t, seen.sent.Load())
			assert.Zero(t, rec.SDK.Totals().Lost)
			denied := new(chainbudget.DeniedError)
			require.ErrorAs(t, err, &denied)
			assert.Equal(t, ownership.ReasonMaxAttempts, denied.Reason)
		})
	}
}

// policy4 is a service config whose retry policy makes four attempts.
const policy4 = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
	"backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// counter counts what gRPC begins and sends.
type counter struct{ begun, sent atomic.Int64 }

func (*counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*counter) HandleConn(context.Context, stats.ConnStats)                       {}
func (c *counter) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.Begin:
		c.begun.Add(1)
	case *stats.OutHeader:
		c.sent.Add(1)
	}
}

// TestGRPC_begins_more_than_it_sends shows the fault that the test above is about, in gRPC alone.
func TestGRPC_begins_more_than_it_sends(t *testing.T) {
	var seen counter
	err := ask(t.Context(), dial(t, nowhere, grpc.WithStatsHandler(&seen), grpc.WithDefaultServiceConfig(policy4)))
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.EqualValues(t, 7, seen.begun.Load(), "four attempts")
	assert.Zero(t, seen.sent.Load())
}
