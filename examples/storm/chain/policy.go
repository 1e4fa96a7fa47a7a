package chain

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/chainbudget/chainbudget-go/examples/storm/loopback"
)

// Policy is one way to decide about retries. It makes every service of a chain.
type Policy struct {
	// Name is short enough for a legend, Note says what it is.
	Name, Note string
	// Roots is how many requests are sent to the first service.
	Roots int

	service func(n *node, index int, next string) (http.Handler, caller, error)
}

// Sample sizes: where every request has the same result a few do; a share of 10 % needs many to show.
const (
	rootsOfCertain = 5
	rootsOfShares  = 1000
)

// Naive lets every hop make up to retries retries of its own.
func Naive(retries int) Policy {
	note := "every hop retries once"
	if retries != 1 {
		note = fmt.Sprintf("every hop retries up to %d times", retries)
	}
	return Policy{
		Name: fmt.Sprintf("naive, %d per hop", retries), Note: note,
		Roots: rootsOfCertain,
		service: plain(func(next *client) caller {
			return &naive{client: next, retries: retries}
		}),
	}
}

// PerHopBudget lets every hop retry once while its own budget of 10 % of its first attempts lasts.
func PerHopBudget() Policy {
	return Policy{
		Name: "10 % budget per hop", Note: "every hop retries once, for at most 10 % of its requests",
		Roots: rootsOfShares,
		service: plain(func(next *client) caller {
			return &perHop{client: next}
		}),
	}
}

// DownOnly sends a budget down the chain that every hop lowers by the retries it has made, and that never comes back.
func DownOnly(budget int) Policy {
	return Policy{
		Name: fmt.Sprintf("down-only budget of %d", budget), Note: "the budget is sent down and lowered, what was spent below is not known",
		Roots: rootsOfCertain,
		service: plain(func(next *client) caller {
			return &downOnly{client: next, budget: budget}
		}),
	}
}

// plain makes services of the policies to compare with: net/http and a loop.
func plain(policy func(next *client) caller) func(*node, int, string) (http.Handler, caller, error) {
	return func(n *node, _ int, next string) (http.Handler, caller, error) {
		var c caller
		if next != "" {
			c = policy(&client{url: next, base: loopback.NewBase(1)})
		}
		return http.HandlerFunc(n.servePlain), c, nil
	}
}

func (n *node) servePlain(w http.ResponseWriter, r *http.Request) {
	n.requests.Add(1)
	if n.next != nil {
		if ok, err := n.next.call(r); err != nil || !ok {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
	}
	if n.fails {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// client sends one request to the next service.
type client struct {
	url  string
	base *http.Transport
}

// budgetHeader carries the down-only budget.
const budgetHeader = "Down-Only-Budget"

func (c *client) send(inbound *http.Request, budget int) (ok bool, err error) {
	req, err := http.NewRequestWithContext(inbound.Context(), http.MethodGet, c.url, nil)
	if err != nil {
		return false, err
	}
	if budget >= 0 {
		req.Header.Set(budgetHeader, strconv.Itoa(budget))
	}
	resp, err := c.base.RoundTrip(req)
	if err != nil {
		return false, err
	}
	loopback.Discard(resp)
	return resp.StatusCode < 500, nil
}

func (c *client) close() error {
	c.base.CloseIdleConnections()
	return nil
}

type naive struct {
	*client
	retries int
}

func (p *naive) call(inbound *http.Request) (ok bool, err error) {
	for range p.retries + 1 {
		if ok, err = p.send(inbound, -1); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// perHop counts in tenths of a retry.
type perHop struct {
	*client
	mu     sync.Mutex
	tenths int
}

func (p *perHop) call(inbound *http.Request) (ok bool, err error) {
	p.change(1)
	if ok, err = p.send(inbound, -1); ok || err != nil {
		return ok, err
	}
	if !p.change(-10) {
		return false, nil
	}
	return p.send(inbound, -1)
}

// change adds to the budget, which never goes below zero; it reports whether it could.
func (p *perHop) change(by int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tenths+by < 0 {
		return false
	}
	p.tenths += by
	return true
}

type downOnly struct {
	*client
	budget int // of the first service, which is sent none
}

func (p *downOnly) call(inbound *http.Request) (ok bool, err error) {
	left, err := strconv.Atoi(inbound.Header.Get(budgetHeader))
	if err != nil {
		left = p.budget
	}
	for ; left >= 0; left-- {
		if ok, err = p.send(inbound, left); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
