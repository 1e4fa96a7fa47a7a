package budgetconnect2_test

import (
	"context"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect/v2"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect2"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
)

// errDown is the failure of a leaf that always fails.
var errDown = connect.NewError(connect.CodeUnavailable, "down")

// unavailable is such a leaf.
func unavailable(calls *atomic.Int64) *procedures {
	return &procedures{
		call: func(context.Context, *text) (*text, error) {
			calls.Add(1)
			return nil, errDown
		},
		list: func(context.Context, *text, connect.ServerStream) error {
			calls.Add(1)
			return errDown
		},
	}
}

// hops are those of a chain.
func (p protocol) hops() rpctest.Protocol {
	return rpctest.Protocol{
		Serve: func(t testing.TB, sdk *chainbudget.SDK, entry bool, do rpctest.Step) string {
			h := &procedures{call: func(ctx context.Context, _ *text) (*text, error) { return say(""), hop(do(ctx)) }}
			return rpctest.Serve(t, h.mux(budgetconnect2.NewServerInterceptor(sdk, budgetconnect2.Option{Entry: entry})))
		},
		Dial: func(t testing.TB, address string, dep *chainbudget.Dependency) rpctest.Step {
			client := p.client(t, address, with(dep, every))
			return func(ctx context.Context) error {
				_, err := ask(ctx, client)
				return err
			}
		},
		Down:   errDown,
		IsDown: func(err error) bool { return connect.CodeOf(err) == connect.CodeUnavailable },
	}
}

func TestT4_attempts_that_reach_the_leaf(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) { rpctest.T4(t, p.hops(), 4) })
}

func TestT12_hops_that_drop_the_context(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) { rpctest.T12(t, p.hops()) })
}
