package budgethttp

import (
	"context"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/nethttp"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// judge says what an attempt came to.
func (x *exchange) judge(a *attempt, resp *http.Response, err error) {
	r := &x.Result
	if err != nil {
		x.judgeError(a, err)
	} else {
		x.judgeResponse(resp)
	}
	if r.Failed {
		r.Judge(x.Dependency())
	}
}

// judgeError says what an attempt without a response came to.
func (x *exchange) judgeError(a *attempt, err error) {
	r := &x.Result
	r.Err = err
	cause := a.Canceled()
	switch parent := x.Parent().Err(); {
	case cause == engine.ErrLost, parent == context.Canceled && cause == nil, parent == nil && cause == nil && x.withdrawn():
		r.Canceled, r.Unsent = true, a.watch.NeverLeft()
		return
	case parent != nil: // in flight when the deadline passed: it did fail
		r.Failed, r.Retryable, r.Unsent = true, true, a.watch.NeverLeft()
		return
	}
	r.Failed = true
	switch {
	case cause == nethttp.ErrReplay && a.watch.RefusedTwice():
		// net/http has repeated it already. What may not run twice is not repeated automatically a second time.
		r.Err, r.Retryable, r.Unsent = nethttp.ErrRefusedTwice, idempotent(x.req), true
	case cause == nethttp.ErrReplay:
		r.Err, r.Retryable, r.Excluded = nethttp.ErrReplay, true, true
	case cause == engine.ErrAttemptTimeout:
		r.Err, r.Retryable, r.Unsent = engine.ErrAttemptTimeout, true, a.watch.NeverLeft()
	case bodyFailed(a):
		r.Excluded = true
	case a.watch.NeverLooked(): // net/http found the request itself wrong
		r.Excluded, r.Unsent = true, true
	default:
		r.Unsent = a.watch.NeverLeft() || nethttp.Refused(err) || !a.watch.Asked() && nethttp.NeverDialed(err)
		r.Retryable = !nethttp.Permanent(err)
	}
}

// withdrawn reports whether the caller canceled the request by its Cancel channel, for a reason other than time:
// http.Client closes it, too, when its Timeout is over.
func (x *exchange) withdrawn() bool {
	//lint:ignore SA1019 deprecated, and honored by net/http
	withdraw := x.req.Cancel
	select {
	case <-withdraw:
		deadline, limited := x.Parent().Deadline()
		return !limited || time.Now().Before(deadline)
	default:
		return false
	}
}

// bodyFailed reports whether it was the caller's own body that failed.
func bodyFailed(a *attempt) bool { return a.sent != nil && a.sent.brokeOff() }

// judgeResponse says what a response means.
func (x *exchange) judgeResponse(resp *http.Response) {
	r, p := &x.Result, x.Policy().Profile()
	x.takeReturn(resp)
	status := resp.StatusCode
	r.Status = status
	if status < 400 {
		return
	}
	r.Retryable = p.Retry.RetryStatus(status)
	r.Failed = status >= 500 || status == http.StatusTooManyRequests || r.Retryable
	r.Excluded = status < 500
	if !r.Failed {
		return
	}
	r.Throttled = status == http.StatusTooManyRequests
	switch status {
	case http.StatusTooEarly:
		r.Unprocessed = true
		r.Retryable = r.Retryable && !x.early
		x.early = true
	case http.StatusMisdirectedRequest:
		r.Unprocessed = true
	case http.StatusServiceUnavailable:
		r.Unprocessed = first(resp.Header, "Finagle-Http-Nack") == "true"
	}
	r.Pushback = first(resp.Header, "Finagle-Http-Nonretryable-Nack") == "true" ||
		present(resp.Header, "X-Envoy-Ratelimited") || first(resp.Header, "X-Envoy-Overloaded") == "true"
	r.Hint, r.HasHint = hint(resp.Header)
}

func present(h http.Header, canonical string) bool { return len(h[canonical]) > 0 }

// hint reads how long the callee asked to wait.
func hint(h http.Header) (time.Duration, bool) {
	if v := h["X-Amz-Retry-After"]; len(v) > 0 {
		if d, ok := profiles.ParseRetryAfterMillis(v); ok {
			return d, true
		}
	}
	if v := h["Retry-After"]; len(v) > 0 {
		return profiles.ParseRetryAfter(v, time.Now())
	}
	return 0, false
}

// takeReturn takes the return out of a response, so that nothing passes it on, and reads it. What an outside callee
// says is not believed.
func (x *exchange) takeReturn(resp *http.Response) {
	lines, ok := resp.Header[otelprop.HTTPReturnHeader]
	if !ok {
		return
	}
	delete(resp.Header, otelprop.HTTPReturnHeader)
	if x.external {
		return
	}
	lent, nonce := x.Lent()
	ret, ok, rejects := otelprop.ReadReturn(lines, nonce, lent)
	x.Dependency().SDK().CountRejects(&rejects)
	if ok {
		x.Result.Returned(ret)
	}
}
