package budgetconnect_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect"
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
func unavailable(calls *atomic.Int64) *procedures {
	return &procedures{
		call: func(context.Context, *connect.Request[text]) (*connect.Response[text], error) {
			calls.Add(1)
			return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("down"))
		},
		list: func(context.Context, *connect.Request[text], *connect.ServerStream[text]) error {
			calls.Add(1)
			return connect.NewError(connect.CodeUnavailable, fmt.Errorf("down"))
		},
	}
}

// leafAttempts sends one request down a chain of d edges and returns how many attempts its leaf has seen.
func leafAttempts(t *testing.T, p protocol, d int, r rules) int {
	t.Helper()
	var attempts atomic.Int64
	url := server(t, unavailable(&attempts), r.sdk(t, fmt.Sprintf("hop%d", d)))
	for i := d - 1; i >= 0; i-- {
		sdk := r.sdk(t, fmt.Sprintf("hop%d", i))
		next := p.client(t, url, callProcedure, with(sdk.Dependency(fmt.Sprintf("hop%d", i+1), "table"), every))
		hop := &procedures{call: func(ctx context.Context, _ *connect.Request[text]) (*connect.Response[text], error) {
			return ask(ctx, next)
		}}
		url = server(t, hop, sdk, budgetconnect.Option{Entry: i == 0})
	}
	_, err := ask(t.Context(), p.plain(t, url))
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%v", err)
	return int(attempts.Load())
}

// TestT4_attempts_that_reach_the_leaf counts at the leaf of a linear chain that always fails, as the table of the same name
// does over HTTP.
func TestT4_attempts_that_reach_the_leaf(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		for b := 1; b <= 3; b++ {
			for d := 1; d <= 4; d++ {
				assert.Equal(t, 1+b, leafAttempts(t, p, d, rules{budget: b, maxAttempts: 4, mode: "budget"}), "without ownership, b=%d, d=%d", b, d)
				for m := 2; m <= 4; m++ {
					tokens := b
					if d > 1 && b > 1 {
						tokens = b - 1 // the entry keeps one
					}
					assert.Equal(t, 1+min(m-1, tokens), leafAttempts(t, p, d, rules{budget: b, maxAttempts: m}), "b=%d, d=%d, m=%d", b, d, m)
				}
			}
		}
	})
}

// TestT12_hops_that_drop_the_context counts the calls that B, C and D get when D is down and the hops named call with a
// context of their own.
func TestT12_hops_that_drop_the_context(t *testing.T) {
	eachProtocol(t, testDrops)
}

func testDrops(t *testing.T, p protocol) {
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
		url := server(t, unavailable(&calls[2]), r.sdk(t, "D"))
		for i, name := range []string{"C", "B", "A"} {
			sdk := r.sdk(t, name)
			next := p.client(t, url, callProcedure, with(sdk.Dependency(string(name[0]+1), "table"), every))
			hop := &procedures{call: func(ctx context.Context, _ *connect.Request[text]) (*connect.Response[text], error) {
				if name != "A" {
					calls[1-i].Add(1)
				}
				if strings.Contains(c.drops, name) {
					ctx = context.Background()
				}
				_, err := ask(ctx, next)
				if err != nil && !c.wraps {
					err = connect.NewError(connect.CodeUnavailable, fmt.Errorf("the next one failed"))
				}
				return nil, err
			}}
			url = server(t, hop, sdk, budgetconnect.Option{Entry: name == "A"})
		}
		_, err := ask(t.Context(), p.plain(t, url))
		assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%v", err)
		got := fmt.Sprintf("%d,%d,%d", calls[0].Load(), calls[1].Load(), calls[2].Load())
		assert.Equal(t, c.want, got, "%+v", c)
	}
}
