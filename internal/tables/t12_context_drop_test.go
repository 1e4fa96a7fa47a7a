package tables

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
)

// TestT12 counts the calls that B, C and D get when D is down and the hops named lose the context of their request: they
// call with context.Background, so that the budget and the claims of the chain end there.
func TestT12_hops_that_drop_the_context(t *testing.T) {
	tab := newTable(t, "T12", "calls to B,C,D of a chain A-B-C-D whose D is down", "")
	defer tab.print()

	naivePaper := []int{2, 4, 8}
	tab.count("no ownership, r=1", "2,4,8 (14)", naivePaper, dropRun{policy: naive{1}}.calls(t))

	tests := []struct {
		drops    string
		orphan   int
		wraps    bool
		paper    string
		expected []int
	}{
		{"", 1, false, "1,1,2 (4)", []int{1, 1, 2}},
		{"", 1, true, "1,1,2 (4)", []int{1, 1, 2}},
		{"", 0, false, "1,1,2 (4)", []int{1, 1, 2}},
		{"", 0, true, "1,1,2 (4)", []int{1, 1, 2}},
		{"C", 1, false, "1,2,4 (7)", []int{1, 2, 4}},
		{"BC", 1, false, "2,4,8", []int{2, 4, 8}},
		{"C", 0, false, "1,2,2", []int{1, 2, 2}},
		{"BC", 0, false, "2,2,2", []int{2, 2, 2}},
		{"C", 1, true, "1,1,2", []int{1, 1, 2}},
		{"BC", 1, true, "1,1,2", []int{1, 1, 2}},
		{"C", 0, true, "1,2,2", []int{1, 2, 2}},
		{"BC", 0, true, "2,2,2", []int{2, 2, 2}},
	}
	for _, tt := range tests {
		handler := "the error is swallowed"
		if tt.wraps {
			handler = "the error is wrapped"
		}
		what := fmt.Sprintf("context dropped at %-4s orphan_budget %d, %s", orNobody(tt.drops)+",", tt.orphan, handler)
		run := dropRun{rules: rules{budget: 3, orphanBudget: tt.orphan, maxAttempts: 2}, drops: tt.drops, wraps: tt.wraps}
		tab.count(what, tt.paper, tt.expected, run.calls(t))
	}

	// The rule behind it: D gets (1+r)^(drops+1). An orphan of two tokens has what r=2 needs.
	for r := 1; r <= 2; r++ {
		for n, drops := range []string{"", "C", "BC"} {
			run := dropRun{rules: rules{budget: 3, orphanBudget: r, maxAttempts: r + 1}, drops: drops}
			tab.count(fmt.Sprintf("calls to D, r=%d, %d drops", r, n), "(1+r)^(drops+1)",
				[]int{power(1+r, n+1)}, run.calls(t)[2:])
		}
	}
}

func orNobody(drops string) string {
	if drops == "" {
		return "none"
	}
	return drops
}

// dropRun is one request down the chain A-B-C-D.
type dropRun struct {
	policy hopPolicy // nil = the SDK under rules
	rules  rules
	drops  string // the hops that drop the context
	wraps  bool   // the handlers return the error of their call
}

// calls returns how many calls B, C and D got.
func (d dropRun) calls(t *testing.T) []int {
	t.Helper()
	var calls [3]atomic.Int64 // to B, C, D
	l := newLoopback(t)
	l.serve(d.hop(t, "D", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls[2].Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})))
	for i, name := range []string{"C", "B", "A"} {
		l.serve(d.caller(t, l, name, func() {
			if name != "A" {
				calls[1-i].Add(1)
			}
		}))
	}
	l.ask()
	got := make([]int, len(calls))
	for i := range calls {
		got[i] = int(calls[i].Load())
	}
	return got
}

// caller is the handler of a hop that calls the one made before it.
func (d dropRun) caller(t *testing.T, l *loopback, name string, count func()) http.Handler {
	next := string(name[0] + 1)
	var client http.RoundTripper
	var s *service
	if d.policy != nil {
		client = d.policy.transport(l.base)
	} else {
		s = d.rules.service(t, name, false, 12)
		client = s.transport(next, l.base)
	}
	drop := strings.Contains(d.drops, name)
	url := l.url
	f := func(r *http.Request) error {
		count()
		ctx := r.Context()
		if drop {
			ctx = context.Background()
		}
		return call(ctx, client, url)
	}
	h := swallowed(f)
	if d.wraps {
		h = wrapped(f)
	}
	if s == nil {
		return h
	}
	return d.under(s, name, h)
}

func (d dropRun) hop(t *testing.T, name string, h http.Handler) http.Handler {
	if d.policy != nil {
		return h
	}
	return d.under(d.rules.service(t, name, false, 12), name, h)
}

func (dropRun) under(s *service, name string, h http.Handler) http.Handler {
	if name == "A" {
		return budgethttp.NewHandler(h, s.sdk, budgethttp.Entry())
	}
	return budgethttp.NewHandler(h, s.sdk)
}
