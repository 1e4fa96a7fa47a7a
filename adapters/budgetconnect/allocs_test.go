//go:build !race

package budgetconnect_test

import (
	"context"
	"runtime"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/internal/rpctest"
)

// perCall returns how many allocations a call makes, client, server and transport together.
func perCall(t *testing.T, ctx context.Context, client *connect.Client[text, text]) float64 {
	t.Helper()
	const calls = 200
	run := func(n int) {
		for range n {
			_, err := ask(ctx, client)
			require.NoError(t, err)
		}
	}
	run(50)
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
	for i, limits := range []struct{ client, timed, both float64 }{{23, 39, 31}, {25, 42, 36}, {30, 45, 50}, {27, 41, 41}} {
		p := protocols[i]
		t.Run(p.name, func(t *testing.T) {
			rec, callee := rpctest.SDK(t, "caller"), rpctest.SDK(t, "callee")
			bare, ours := rpctest.Serve(t, (&procedures{}).mux()), server(t, &procedures{}, callee)
			ctx := rpctest.Begin(t, rec)
			base := perCall(t, ctx, p.plain(t, bare))
			client := perCall(t, ctx, p.client(t, bare, callProcedure, with(rec.Dependency("a", "endless")))) - base
			timed := perCall(t, ctx, p.client(t, bare, callProcedure, with(rec.Dependency("b", "test")))) - base
			both := perCall(t, ctx, p.client(t, ours, callProcedure, with(rec.Dependency("c", "endless")))) - base
			t.Logf("bare %.1f, client +%.1f, with an attempt timeout +%.1f, client and handler +%.1f", base, client, timed, both)
			assert.LessOrEqual(t, client, limits.client)
			assert.LessOrEqual(t, timed, limits.timed)
			assert.LessOrEqual(t, both, limits.both)
		})
	}
}
