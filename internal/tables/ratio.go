package tables

import (
	"net/http"
	"sync"
)

// ratio is a budget that every hop has for itself: each first attempt pays in a share of a retry. There is nothing in it at
// first. It counts in hundredths, so that nothing is lost to rounding.
type ratio struct {
	percent int
	retries int // the most of one call

	mu    sync.Mutex
	level int
}

func (*ratio) handler(next http.Handler) http.Handler { return next }

func (p *ratio) transport(base http.RoundTripper) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		p.mu.Lock()
		p.level += p.percent
		p.mu.Unlock()
		return repeat(base, req, nil, func(n int) bool { return n <= p.retries && p.take() })
	})
}

func (p *ratio) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.level < 100 {
		return false
	}
	p.level -= 100
	return true
}
