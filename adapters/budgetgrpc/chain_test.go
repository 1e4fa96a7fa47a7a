package budgetgrpc_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
)

// rules are the settings of a chain.
type rules struct {
	budget, orphanBudget, maxAttempts int
	mode                              string
}

func (r rules) sdk(t *testing.T, service string) *chainbudgettest.Recorder {
	mode := "enforce"
	if r.mode != "" {
		mode = r.mode
	}
	return chainbudgettest.New(t, chainbudgettest.Service(service), chainbudgettest.Catalog(fmt.Sprintf(`
version: 1
chain: {budget: %d, max_budget: 99, orphan_budget: %d, deadlines: ignore, mode: %s}
profiles:
  table:
    extends: read-heavy
    retry: {max_attempts: %d, attempt_timeout: 0s}
    backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}
    budget: disabled
    breaker: disabled
    availability_floor: 0%%
`, r.budget, r.orphanBudget, mode, r.maxAttempts)))
}

// unavailable is a leaf that always fails.
func unavailable(calls *atomic.Int64) *handlers {
	return &handlers{call: func(context.Context, *text) (*text, error) {
		calls.Add(1)
		return nil, status.Error(codes.Unavailable, "down")
	}}
}

// leafAttempts sends one request down a chain of d edges and returns how many attempts its leaf has seen.
func leafAttempts(t *testing.T, d int, r rules) int {
	t.Helper()
	var attempts atomic.Int64
	addr := serve(t, unavailable(&attempts), budgetgrpc.ServerOptions(r.sdk(t, fmt.Sprintf("hop%d", d)).SDK)...)
	for i := d - 1; i >= 0; i-- {
		sdk := r.sdk(t, fmt.Sprintf("hop%d", i))
		conn := dial(t, addr, budgetgrpc.DialOptions(sdk.Dependency(fmt.Sprintf("hop%d", i+1), "table"), every)...)
		hop := &handlers{call: func(ctx context.Context, _ *text) (*text, error) { return nil, ask(ctx, conn) }}
		addr = serve(t, hop, budgetgrpc.ServerOptions(sdk.SDK, budgetgrpc.Option{Entry: i == 0})...)
	}
	assert.Equal(t, codes.Unavailable, status.Code(ask(t.Context(), dial(t, addr))))
	return int(attempts.Load())
}

// TestT4_attempts_that_reach_the_leaf counts at the leaf of a linear chain that always fails, as the table of the same name
// does over HTTP.
func TestT4_attempts_that_reach_the_leaf(t *testing.T) {
	for b := 1; b <= 3; b++ {
		for d := 1; d <= 6; d++ {
			assert.Equal(t, 1+b, leafAttempts(t, d, rules{budget: b, maxAttempts: 4, mode: "budget"}), "without ownership, b=%d, d=%d", b, d)
			for m := 2; m <= 4; m++ {
				tokens := b
				if d > 1 && b > 1 {
					tokens = b - 1 // the entry keeps one
				}
				assert.Equal(t, 1+min(m-1, tokens), leafAttempts(t, d, rules{budget: b, maxAttempts: m}), "b=%d, d=%d, m=%d", b, d, m)
			}
		}
	}
}

// TestT4_over_both_protocols alternates HTTP and gRPC along the chain.
func TestT4_over_both_protocols(t *testing.T) {
	const d = 6
	for first := range 2 {
		for b := 1; b <= 3; b++ {
			var attempts atomic.Int64
			r := rules{budget: b, maxAttempts: 4}
			do := func(context.Context) error { // what the hop does that is made next, from the leaf upwards
				attempts.Add(1)
				return leafDown{}
			}
			sdk := r.sdk(t, fmt.Sprintf("hop%d", d))
			for i := d; i >= 0; i-- {
				ask := serveOver(t, (i+first)%2 == 0, sdk.SDK, i == 0, do)
				if i == 0 {
					assert.Error(t, ask(t, nil)(t.Context()))
					break
				}
				sdk = r.sdk(t, fmt.Sprintf("hop%d", i-1)) // of the caller
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
		h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) { return nil, do(ctx) }}
		addr := serve(t, h, budgetgrpc.ServerOptions(sdk, budgetgrpc.Option{Entry: entry})...)
		return func(t *testing.T, dep *chainbudget.Dependency) func(context.Context) error {
			conn := dial(t, addr, budgetgrpc.DialOptions(dep, every)...)
			return func(ctx context.Context) error { return ask(ctx, conn) }
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

// TestT12_hops_that_drop_the_context counts the calls that B, C and D get when D is down and the hops named call with a
// context of their own.
func TestT12_hops_that_drop_the_context(t *testing.T) {
	for _, c := range []struct {
		drops  string
		orphan int
		wraps  bool
		want   string
	}{
		{"", 1, false, "1,1,2"},
		{"", 1, true, "1,1,2"},
		{"", 0, false, "1,1,2"},
		{"", 0, true, "1,1,2"},
		{"C", 1, false, "1,2,4"},
		{"BC", 1, false, "2,4,8"},
		{"C", 0, false, "1,2,2"},
		{"BC", 0, false, "2,2,2"},
		{"C", 1, true, "1,1,2"},
		{"BC", 1, true, "1,1,2"},
		{"C", 0, true, "1,2,2"},
		{"BC", 0, true, "2,2,2"},
	} {
		var calls [3]atomic.Int64 // to B, C, D
		r := rules{budget: 3, orphanBudget: c.orphan, maxAttempts: 2}
		addr := serve(t, unavailable(&calls[2]), budgetgrpc.ServerOptions(r.sdk(t, "D").SDK)...)
		for i, name := range []string{"C", "B", "A"} {
			sdk := r.sdk(t, name)
			conn := dial(t, addr, budgetgrpc.DialOptions(sdk.Dependency(string(name[0]+1), "table"), every)...)
			hop := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
				if name != "A" {
					calls[1-i].Add(1)
				}
				if strings.Contains(c.drops, name) {
					ctx = context.Background()
				}
				err := ask(ctx, conn)
				if err != nil && !c.wraps {
					err = status.Error(codes.Unavailable, "the next one failed")
				}
				return nil, err
			}}
			addr = serve(t, hop, budgetgrpc.ServerOptions(sdk.SDK, budgetgrpc.Option{Entry: name == "A"})...)
		}
		assert.Equal(t, codes.Unavailable, status.Code(ask(t.Context(), dial(t, addr))))
		got := fmt.Sprintf("%d,%d,%d", calls[0].Load(), calls[1].Load(), calls[2].Load())
		assert.Equal(t, c.want, got, "%+v", c)
	}
}
