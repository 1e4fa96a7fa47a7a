package tables

import (
	"net/http"
	"time"
)

// impatient is Grab's policy before: up to five retries, always as long apart.
type impatient struct {
	retries int
	pause   time.Duration
}

func (p impatient) transport(base http.RoundTripper) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		return repeat(base, req, nil, func(n int) bool {
			if n > p.retries {
				return false
			}
			time.Sleep(p.pause)
			return true
		})
	})
}

// countBreaker is Go's policy before: no retries, and a breaker that opens for a while after so many failures within a
// window. It lets everything pass again when that while is over, and forgets.
type countBreaker struct {
	failures        int
	window, openFor time.Duration

	failedAt []time.Time
	open     time.Time // until when
}

func (b *countBreaker) allows(now time.Time) bool { return !now.Before(b.open) }

func (b *countBreaker) failed(now time.Time) {
	for len(b.failedAt) > 0 && now.Sub(b.failedAt[0]) >= b.window {
		b.failedAt = b.failedAt[1:]
	}
	b.failedAt = append(b.failedAt, now)
	if len(b.failedAt) >= b.failures {
		b.open, b.failedAt = now.Add(b.openFor), nil
	}
}
