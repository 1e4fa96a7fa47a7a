package chain

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/chainbudget/chainbudget-go/examples/storm/loopback"
)

// Shape is a chain of services, each calling the next. The failing one answers 503 after its own call has ended.
type Shape struct {
	// Nodes is how many services there are, 2 to 26.
	Nodes int
	// Failing is the index of the one that fails, from 0.
	Failing int
}

// Name returns the name of a service: A, B, C, …
func Name(node int) string { return string(rune('A' + node)) }

// Count is what the servers of one chain counted under one policy.
type Count struct {
	// Policy names the policy, Note says in a few words what it is.
	Policy string `json:"policy"`
	Note   string `json:"note"`
	// Roots is how many requests were sent to the first service.
	Roots int64 `json:"roots"`
	// Requests is what each service received, in the order of the chain.
	Requests []int64 `json:"requests"`
	// Total is the sum of Requests.
	Total int64 `json:"total"`
}

// PerRoot returns how many requests a service received for each request to the first one.
func (c *Count) PerRoot(node int) float64 {
	if c.Roots == 0 {
		return 0
	}
	return float64(c.Requests[node]) / float64(c.Roots)
}

// node is one service.
type node struct {
	requests atomic.Int64
	fails    bool
	next     caller // nil for the last
}

// A caller makes a service's outbound call with one policy. It reports whether the call succeeded in the end.
type caller interface {
	call(inbound *http.Request) (ok bool, err error)
	close() error
}

// Run sends the policy's number of requests through a fresh chain, one after the other, and returns what its servers
// counted. done is called after each of them. When ctx ends, Run returns its error with the count so far.
func Run(ctx context.Context, shape Shape, policy Policy, done func()) (count Count, err error) {
	nodes := make([]*node, shape.Nodes)
	url := ""
	var closers []func() error
	defer func() {
		for i := len(closers) - 1; i >= 0; i-- { // callers first: a server waits for nobody
			if cerr := closers[i](); cerr != nil && err == nil {
				err = cerr
			}
		}
	}()
	for i := shape.Nodes - 1; i >= 0; i-- {
		n := &node{fails: i == shape.Failing}
		nodes[i] = n
		handler, caller, err := policy.service(n, i, url)
		if err != nil {
			return Count{}, fmt.Errorf("service %s: %w", Name(i), err)
		}
		server, err := loopback.Serve(handler)
		if err != nil {
			return Count{}, err
		}
		closers = append(closers, server.Close)
		if caller != nil {
			n.next = caller
			closers = append(closers, caller.close)
		}
		url = server.URL
	}

	count = Count{Policy: policy.Name, Note: policy.Note}
	base := loopback.NewBase(1)
	defer base.CloseIdleConnections()
	user := &http.Client{Transport: base}
	for range policy.Roots {
		if err = send(ctx, user, url); err != nil {
			break
		}
		count.Roots++
		done()
	}
	for _, n := range nodes {
		received := n.requests.Load()
		count.Requests = append(count.Requests, received)
		count.Total += received
	}
	return count, err
}

// send is one user's request. The user does not retry; a failure is what the chain is about.
func send(ctx context.Context, user *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := user.Do(req)
	if err != nil {
		return err
	}
	loopback.Discard(resp)
	return nil
}
