package mixed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
)

// rules are the settings of a chain.
type rules struct {
	budget, orphanBudget, maxAttempts int
	mode                              string
}

func (r rules) sdk(t *testing.T, service string) *chainbudgettest.Recorder {
	t.Helper()
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

var errDown = errors.New("down")

// leafAttempts sends one request down a chain of d edges and returns how many attempts its leaf has seen.
func leafAttempts(t *testing.T, o order, d int, r rules) int {
	t.Helper()
	var attempts atomic.Int64
	address := o.at(d).serve(t, nil, r.sdk(t, fmt.Sprintf("hop%d", d)).SDK, false, func(context.Context) error {
		attempts.Add(1)
		return errDown
	})
	for i := d - 1; i >= 0; i-- {
		sdk := r.sdk(t, fmt.Sprintf("hop%d", i))
		next := o.at(i+1).dial(t, address, sdk.Dependency(fmt.Sprintf("hop%d", i+1), "table"))
		address = o.at(i).serve(t, nil, sdk.SDK, i == 0, next)
	}
	if err := o.at(0).dial(t, address, nil)(t.Context()); err == nil {
		t.Error("the request succeeded")
	}
	return int(attempts.Load())
}

// TestT4_attempts_that_reach_the_leaf counts at the leaf of a linear chain that always fails, as the tables of the same name
// do over one protocol.
func TestT4_attempts_that_reach_the_leaf(t *testing.T) {
	for _, o := range orders {
		t.Run(o.String(), func(t *testing.T) {
			for b := 1; b <= 3; b++ {
				for d := 1; d <= 6; d++ {
					if got := leafAttempts(t, o, d, rules{budget: b, maxAttempts: 4, mode: "budget"}); got != 1+b {
						t.Errorf("without ownership, b=%d, d=%d: %d attempts, want %d", b, d, got, 1+b)
					}
					for m := 2; m <= 4; m++ {
						tokens := b
						if d > 1 && b > 1 {
							tokens = b - 1 // the entry keeps one
						}
						if got := leafAttempts(t, o, d, rules{budget: b, maxAttempts: m}); got != 1+min(m-1, tokens) {
							t.Errorf("b=%d, d=%d, m=%d: %d attempts, want %d", b, d, m, got, 1+min(m-1, tokens))
						}
					}
				}
			}
		})
	}
}

// TestT12_hops_that_drop_the_context counts the calls that B, C and D get when D is down and the hops named call with a
// context of their own.
func TestT12_hops_that_drop_the_context(t *testing.T) {
	for _, o := range orders {
		t.Run(o.String(), func(t *testing.T) { testDrops(t, o) })
	}
}

func testDrops(t *testing.T, o order) {
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
		const names = "ABCD"
		var calls [4]atomic.Int64 // by hop
		r := rules{budget: 3, orphanBudget: c.orphan, maxAttempts: 2}
		address := o.at(3).serve(t, nil, r.sdk(t, "D").SDK, false, func(context.Context) error {
			calls[3].Add(1)
			return errDown
		})
		for hop := 2; hop >= 0; hop-- {
			sdk := r.sdk(t, names[hop:hop+1])
			next := o.at(hop+1).dial(t, address, sdk.Dependency(names[hop+1:hop+2], "table"))
			address = o.at(hop).serve(t, nil, sdk.SDK, hop == 0, func(ctx context.Context) error {
				calls[hop].Add(1)
				if strings.Contains(c.drops, names[hop:hop+1]) {
					ctx = context.Background()
				}
				err := next(ctx)
				if err != nil && !c.wraps {
					err = errors.New("the next one failed")
				}
				return err
			})
		}
		if err := o.at(0).dial(t, address, nil)(t.Context()); err == nil {
			t.Error("the request succeeded")
		}
		if got := fmt.Sprintf("%d,%d,%d", calls[1].Load(), calls[2].Load(), calls[3].Load()); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
