package budgetgrpc_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
)

// unavailable is a leaf that always fails.
func unavailable(calls *atomic.Int64) *handlers {
	return &handlers{call: func(context.Context, *text) (*text, error) {
		calls.Add(1)
		return nil, status.Error(codes.Unavailable, "down")
	}}
}

// hops are those of a chain.
var hops = rpctest.Protocol{
	Serve: func(t testing.TB, sdk *chainbudget.SDK, entry bool, do rpctest.Step) string {
		hop := &handlers{call: func(ctx context.Context, _ *text) (*text, error) { return say(""), do(ctx) }}
		return serve(t, hop, budgetgrpc.ServerOptions(sdk, budgetgrpc.Option{Entry: entry})...)
	},
	Dial: func(t testing.TB, address string, dep *chainbudget.Dependency) rpctest.Step {
		conn := dial(t, address, budgetgrpc.DialOptions(dep, every)...)
		return func(ctx context.Context) error { return ask(ctx, conn) }
	},
	Down:   status.Error(codes.Unavailable, "down"),
	IsDown: func(err error) bool { return status.Code(err) == codes.Unavailable },
}

func TestT4_attempts_that_reach_the_leaf(t *testing.T) { rpctest.T4(t, hops, 6) }

func TestT12_hops_that_drop_the_context(t *testing.T) { rpctest.T12(t, hops) }

// TestT4_over_both_protocols alternates HTTP and gRPC along the chain.
func TestT4_over_both_protocols(t *testing.T) {
	const d = 6
	for first := range 2 {
		for b := 1; b <= 3; b++ {
			var attempts atomic.Int64
			r := rpctest.Rules{Budget: b, MaxAttempts: 4}
			do := func(context.Context) error { // what the hop does that is made next, from the leaf upwards
				attempts.Add(1)
				return leafDown{}
			}
			sdk := r.SDK(t, fmt.Sprintf("hop%d", d))
			for i := d; i >= 0; i-- {
				ask := serveOver(t, (i+first)%2 == 0, sdk.SDK, i == 0, do)
				if i == 0 {
					assert.Error(t, ask(t, nil)(t.Context()))
					break
				}
				sdk = r.SDK(t, fmt.Sprintf("hop%d", i-1)) // of the caller
				do = ask(t, sdk.Dependency(fmt.Sprintf("hop%d", i), "table"))
			}
			assert.EqualValues(t, max(2, b), attempts.Load(), "b=%d, first=%d", b, first)
		}
	}
}

// leafDown is a failure that either protocol takes for one that may go away.
type leafDown struct{}

func (leafDown) Error() string              { return "down" }
func (leafDown) HTTPStatus() int            { return http.StatusServiceUnavailable }
func (leafDown) GRPCStatus() *status.Status { return status.New(codes.Unavailable, "down") }

// serveOver serves what do does, over gRPC or HTTP, and returns how a caller with a dependency, or none, asks for it.
func serveOver(t *testing.T, overGRPC bool, sdk *chainbudget.SDK, entry bool, do func(context.Context) error) func(*testing.T, *chainbudget.Dependency) func(context.Context) error {
	if overGRPC {
		address := hops.Serve(t, sdk, entry, do)
		return func(t *testing.T, dep *chainbudget.Dependency) func(context.Context) error {
			return hops.Dial(t, address, dep)
		}
	}
	var options []budgethttp.HandlerOption
	if entry {
		options = append(options, budgethttp.Entry())
	}
	s := httptest.NewServer(budgethttp.NewHandler(budgethttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error { return do(r.Context()) }), sdk, options...))
	t.Cleanup(s.Close)
	return func(t *testing.T, dep *chainbudget.Dependency) func(context.Context) error {
		base := &http.Transport{}
		t.Cleanup(base.CloseIdleConnections)
		client := &http.Client{Transport: budgethttp.NewTransport(base, dep)}
		return func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			resp.Body.Close()
			if resp.StatusCode < 500 {
				return nil
			}
			if denied := budgethttp.Denied(resp); denied != nil {
				return denied
			}
			return fmt.Errorf("status %d", resp.StatusCode)
		}
	}
}
