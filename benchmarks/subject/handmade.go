package subject

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v7"
	"github.com/sony/gobreaker/v2"
)

// handmade is the round tripper that people compose of cenkalti/backoff around sony/gobreaker: it repeats what the other
// libraries repeat, sends bodies again through GetBody, closes what it discards, and hands the last response on. It has no
// budget.
type handmade struct {
	base    http.RoundTripper
	breaker *gobreaker.CircuitBreaker[*http.Response]
	terms   terms
}

// statusError makes a failure of a response.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// RoundTrip implements [http.RoundTripper].
func (h *handmade) RoundTrip(req *http.Request) (*http.Response, error) {
	var last *http.Response
	n := 0
	attempt := func() (*http.Response, error) {
		out := req
		if n++; n > 1 {
			var err error
			if out, err = again(req, last); err != nil {
				return nil, backoff.Permanent(err)
			}
		}
		resp, err := h.breaker.Execute(func() (*http.Response, error) {
			resp, err := h.base.RoundTrip(out)
			if err == nil && failed(resp.StatusCode) {
				err = statusError(resp.StatusCode)
			}
			return resp, err
		})
		last = resp
		if errors.Is(err, gobreaker.ErrOpenState) || h.terms.forbids && forbidden(resp) {
			err = backoff.Permanent(err)
		}
		return resp, err
	}
	resp, err := retried(req.Context(), attempt, h.terms)
	if resp != nil {
		return resp, nil
	}
	return nil, err
}

// again returns what is sent after an attempt that failed, and gives up its response, if there was one.
func again(req *http.Request, last *http.Response) (*http.Request, error) {
	if last != nil {
		io.CopyN(io.Discard, last.Body, 4<<10)
		last.Body.Close()
	}
	if req.Body == nil || req.Body == http.NoBody {
		return req, nil
	}
	if req.GetBody == nil {
		return nil, errors.New("the body cannot be sent again")
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	out := *req
	out.Body = body
	return &out, nil
}

// retried is cenkalti/backoff set to the terms.
func retried[T any](ctx context.Context, op backoff.Operation[T], t terms) (T, error) {
	var waits backoff.BackOff = &backoff.ZeroBackOff{}
	if !t.fails { // nothing fails here: the usual policy
		waits = newBackOff()
	}
	return backoff.Retry(ctx, op, backoff.WithBackOff(waits), backoff.WithMaxTries(uint(t.tries())))
}

// newGoBreaker returns sony/gobreaker set to the terms.
func newGoBreaker[T any](t terms) *gobreaker.CircuitBreaker[T] {
	ratio, requests := t.threshold()
	return gobreaker.NewCircuitBreaker[T](gobreaker.Settings{
		Interval: 10 * time.Second, BucketPeriod: time.Second, Timeout: 5 * time.Second,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return uint(c.Requests) >= requests && float64(c.TotalFailures)/float64(c.Requests) >= ratio
		},
	})
}

func newBackOff() backoff.BackOff {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 50*time.Millisecond, 5*time.Second
	return policy
}
