package tables

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
)

// depths are those of T4.
var depths = []int{1, 2, 3, 4, 5, 6}

// TestT4 counts at a real server how many attempts reach the leaf of a linear chain when the leaf always fails.
func TestT4_attempts_that_reach_the_leaf(t *testing.T) {
	tab := newTable(t, "T4", "attempts that reach the leaf of a chain, d = 1 to 6", "")
	defer tab.print()

	other := func(what string, paper []int, p hopPolicy) {
		t.Helper()
		tab.count(what, join(paper), paper, overDepths(func(d int) int { return leafAttempts(t, d, p) }))
	}
	other("naive, r=1", []int{2, 4, 8, 16, 32, 64}, naive{1})
	other("naive, r=2", []int{3, 9, 27, 81, 243, 729}, naive{2})
	other("naive, r=3", []int{4, 16, 64, 256, 1024, 4096}, naive{3})
	other("Kitex, r=1", []int{2, 3, 4, 5, 6, 7}, chainStop{1})
	other("Kitex, r=2", []int{3, 5, 7, 9, 11, 13}, chainStop{2})
	other("Kitex, r=3", []int{4, 7, 10, 13, 16, 19}, chainStop{3})
	other("down-only, b=1", []int{2, 3, 4, 5, 6, 7}, downOnly{budget: 1})
	other("down-only, b=2", []int{3, 6, 10, 15, 21, 28}, downOnly{budget: 2})
	other("down-only, b=3", []int{4, 10, 20, 35, 56, 84}, downOnly{budget: 3})
	other("down-only, b=3, r=1 a hop", []int{2, 4, 8, 15, 26, 42}, downOnly{budget: 3, limit: 1})
	other("down-only, b=3, r=2 a hop", []int{3, 8, 17, 31, 51, 78}, downOnly{budget: 3, limit: 2})

	for b := 1; b <= 3; b++ {
		for m := b + 1; m <= 4; m++ {
			r := rules{budget: b, maxAttempts: m, mode: "budget"}
			ceiling := overDepths(func(int) int { return 1 + b })
			tab.count(fmt.Sprintf("lease without ownership, b=%d, m=%d", b, m), join(ceiling), ceiling,
				overDepths(func(d int) int { return leafAttempts(t, d, newLease(t, r)) }))
		}
	}
	// The paper's ownership has no budget: more tokens than anybody can use stand for that.
	for r := 1; r <= 3; r++ {
		alone := overDepths(func(int) int { return 1 + r })
		tab.count(fmt.Sprintf("ownership without a budget, r=%d", r), join(alone), alone,
			overDepths(func(d int) int { return leafAttempts(t, d, newLease(t, rules{budget: 99, maxAttempts: r + 1})) }))
	}
	for b := 1; b <= 3; b++ {
		for m := 2; m <= 4; m++ {
			r := rules{budget: b, maxAttempts: m}
			// The entry keeps one token of two or more, and its last one travels.
			expected := overDepths(func(d int) int {
				tokens := b
				if d > 1 && b > 1 {
					tokens = b - 1
				}
				return 1 + min(m-1, tokens)
			})
			ceiling := overDepths(func(int) int { return 1 + min(b, m-1) })
			tab.count(fmt.Sprintf("lease with ownership, b=%d, m=%d", b, m), "≤ "+join(ceiling), expected,
				overDepths(func(d int) int { return leafAttempts(t, d, newLease(t, r)) }))
		}
	}
}

func overDepths(f func(d int) int) []int {
	list := make([]int, len(depths))
	for i, d := range depths {
		list[i] = f(d)
	}
	return list
}

// leafAttempts sends one request down a chain of d edges and returns how many attempts its leaf has seen.
func leafAttempts(t *testing.T, d int, p hopPolicy) int {
	t.Helper()
	var attempts atomic.Int64
	l := newLoopback(t)
	leaf := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		attempts.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	if s, ok := p.(*lease); ok {
		s.hops = d
	}
	l.serve(p.handler(leaf))
	for range d {
		client, next := p.transport(l.base), l.url
		l.serve(p.handler(wrapped(func(r *http.Request) error { return call(r.Context(), client, next) })))
	}
	l.ask()
	return int(attempts.Load())
}

// lease is this SDK as a policy: each hop, made from the leaf upwards, is a service of its own with a fresh SDK.
type lease struct {
	t     *testing.T
	rules rules
	hops  int // edges of the chain
	made  int
	next  *service
}

func newLease(t *testing.T, r rules) *lease { return &lease{t: t, rules: r} }

func (p *lease) service() *service {
	if p.next == nil {
		p.next = p.rules.service(p.t, fmt.Sprintf("hop%d", p.hops-p.made), false, 4)
	}
	return p.next
}

func (p *lease) transport(base http.RoundTripper) http.RoundTripper {
	return p.service().transport(fmt.Sprintf("hop%d", p.hops-p.made+1), base)
}

func (p *lease) handler(next http.Handler) http.Handler {
	var options []budgethttp.HandlerOption
	if p.made == p.hops {
		options = append(options, budgethttp.Entry())
	}
	h := budgethttp.NewHandler(next, p.service().sdk, options...)
	p.made, p.next = p.made+1, nil
	return h
}
