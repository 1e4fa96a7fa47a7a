//go:build !race

package budgetgrpc_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
)

// perCall returns how many allocations a call makes, client, server and transport together.
func perCall(t *testing.T, ctx context.Context, conn *grpc.ClientConn) float64 {
	t.Helper()
	const calls = 500
	req, reply := say("x"), new(text)
	run := func(n int) {
		for range n {
			require.NoError(t, conn.Invoke(ctx, callMethod, req, reply))
		}
	}
	run(100)
	var before, after runtime.MemStats
	best := 1e9
	for range 3 { // other goroutines of the process may disturb one
		runtime.ReadMemStats(&before)
		run(calls)
		runtime.ReadMemStats(&after)
		best = min(best, float64(after.Mallocs-before.Mallocs)/calls)
	}
	return best
}

// TestAllocs_of_a_hop bounds what the SDK adds to a call that succeeds at its first attempt.
func TestAllocs_of_a_hop(t *testing.T) {
	ctx := context.Background()
	rec, callee := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  untimed: {extends: test, retry: {attempt_timeout: 0s}}\n")), rpctest.SDK(t, "callee")
	bare := serve(t, &handlers{})
	ours := serve(t, &handlers{}, budgetgrpc.ServerOptions(callee.SDK)...)
	chain, end := chainbudget.Start(ctx, rec.SDK)
	defer end()
	base := perCall(t, chain, dial(t, bare))
	client := perCall(t, chain, dial(t, bare, budgetgrpc.DialOptions(rec.Dependency("a", "untimed"))...)) - base
	timed := perCall(t, chain, dial(t, bare, budgetgrpc.DialOptions(rec.Dependency("b", "test"))...)) - base
	both := perCall(t, chain, dial(t, ours, budgetgrpc.DialOptions(rec.Dependency("c", "untimed"))...)) - base
	t.Logf("bare %.1f, client +%.1f, with an attempt timeout +%.1f, client and server +%.1f", base, client, timed, both)
	// About half of it is gRPC's own, for two fields more in each direction and for the call options that read them.
	assert.LessOrEqual(t, client, 31.)
	assert.LessOrEqual(t, timed, 42.)
	assert.LessOrEqual(t, both, 52.)
}
