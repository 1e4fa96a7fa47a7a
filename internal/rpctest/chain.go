package rpctest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// Protocol is how a hop of a chain is served and asked.
type Protocol struct {
	// Serve serves what do does until the test ends, and returns the address.
	Serve func(t testing.TB, sdk *chainbudget.SDK, entry bool, do Step) (address string)
	// Dial returns a step that asks there for a dependency; with none, without the SDK.
	Dial func(t testing.TB, address string, dep *chainbudget.Dependency) Step
	// Down is the failure of a service that is down.
	Down error
	// IsDown reports whether a caller's error says that of the service that it has asked.
	IsDown func(error) bool
}

// Step is what a hop does for a request.
type Step func(context.Context) error

// leafAttempts sends one request down a chain of d edges and returns how many attempts its leaf has seen.
func (p Protocol) leafAttempts(t *testing.T, d int, r Rules) int {
	var attempts atomic.Int64
	address := p.Serve(t, r.SDK(t, fmt.Sprintf("hop%d", d)).SDK, false, func(context.Context) error {
		attempts.Add(1)
		return p.Down
	})
	for i := d - 1; i >= 0; i-- {
		sdk := r.SDK(t, fmt.Sprintf("hop%d", i))
		next := p.Dial(t, address, sdk.Dependency(fmt.Sprintf("hop%d", i+1), "table"))
		address = p.Serve(t, sdk.SDK, i == 0, next)
	}
	if err := p.Dial(t, address, nil)(t.Context()); !p.IsDown(err) {
		t.Errorf("the chain answers %v", err)
	}
	return int(attempts.Load())
}

// T4 counts at the leaf of linear chains of up to depth edges that always fail, as the table of the same name does over HTTP.
func T4(t *testing.T, p Protocol, depth int) {
	expect := func(got, want int, what string, args ...any) {
		t.Helper()
		if got != want {
			t.Errorf("%d attempts, want %d: %s", got, want, fmt.Sprintf(what, args...))
		}
	}
	for b := 1; b <= 3; b++ {
		for d := 1; d <= depth; d++ {
			expect(p.leafAttempts(t, d, Rules{Budget: b, MaxAttempts: 4, Mode: "budget"}), 1+b, "without ownership, b=%d, d=%d", b, d)
			for m := 2; m <= 4; m++ {
				tokens := b
				if d > 1 && b > 1 {
					tokens = b - 1 // the entry keeps one
				}
				expect(p.leafAttempts(t, d, Rules{Budget: b, MaxAttempts: m}), 1+min(m-1, tokens), "b=%d, d=%d, m=%d", b, d, m)
			}
		}
	}
}

// T12 counts the calls that B, C and D get when D is down and the hops named call with a context of their own.
func T12(t *testing.T, p Protocol) {
	for _, c := range []struct {
		drops  string
		orphan int
		wraps  bool // hops return the error that they got
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
		r := Rules{Budget: 3, OrphanBudget: c.orphan, MaxAttempts: 2}
		address := p.Serve(t, r.SDK(t, "D").SDK, false, func(context.Context) error {
			calls[2].Add(1)
			return p.Down
		})
		for i, name := range []string{"C", "B", "A"} {
			sdk := r.SDK(t, name)
			next := p.Dial(t, address, sdk.Dependency(string(name[0]+1), "table"))
			address = p.Serve(t, sdk.SDK, name == "A", func(ctx context.Context) error {
				if name != "A" {
					calls[1-i].Add(1)
				}
				if strings.Contains(c.drops, name) {
					ctx = context.Background()
				}
				err := next(ctx)
				if err != nil && !c.wraps {
					err = p.Down // of its own
				}
				return err
			})
		}
		if err := p.Dial(t, address, nil)(t.Context()); !p.IsDown(err) {
			t.Errorf("%+v: the chain answers %v", c, err)
		}
		if got := fmt.Sprintf("%d,%d,%d", calls[0].Load(), calls[1].Load(), calls[2].Load()); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}
