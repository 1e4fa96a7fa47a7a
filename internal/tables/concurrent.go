package tables

import (
	"net/http"
	"sync"
)

// concurrent is Envoy's retry budget: a retry is made while fewer of them are under way than a share of the requests that
// are active or wait, and than a smallest number.
type concurrent struct {
	mu              sync.Mutex
	active, retries int
}

const (
	envoyPercent = 20
	envoyLeast   = 3
)

// begin and end say that a request is there; its retries are part of it.
func (c *concurrent) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active++
}

func (c *concurrent) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
}

// retry reports whether a retry may be made now. One that may ends with settle.
func (c *concurrent) retry() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retries >= max(envoyLeast, c.active*envoyPercent/100) {
		return false
	}
	c.retries++
	return true
}

func (c *concurrent) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retries--
}

// transport repeats a request that failed once, if the budget allows it.
func (c *concurrent) transport(base http.RoundTripper) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		c.begin()
		defer c.end()
		settle := func() {}
		defer func() { settle() }()
		return repeat(base, req, nil, func(n int) bool {
			if n > 1 || !c.retry() {
				return false
			}
			settle = c.settle
			return true
		})
	})
}
