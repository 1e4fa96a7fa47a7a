package tables

import (
	"context"
	"io"
	"net/http"
	"strconv"
)

// A hopPolicy is how one hop of a chain retries, in the form of what stands around its handler and around its client.
type hopPolicy interface {
	// handler takes what the policy needs off an inbound request.
	handler(next http.Handler) http.Handler
	// transport repeats outbound requests that fail.
	transport(base http.RoundTripper) http.RoundTripper
}

// roundTripFunc is a function that is a transport.
type roundTripFunc func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// failed reports whether an attempt is worth another.
func failed(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }

// repeat makes attempts 0, 1, … until one succeeds or retry(n) says that there is no retry n. set prepares the copy of the
// request that an attempt sends; it may be nil.
func repeat(base http.RoundTripper, req *http.Request, set func(attempt int, out *http.Request), retry func(n int) bool) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		out := req.Clone(req.Context())
		if set != nil {
			set(attempt, out)
		}
		resp, err := base.RoundTrip(out)
		if !failed(resp, err) || !retry(attempt+1) {
			return resp, err
		}
		if resp != nil {
			io.Copy(io.Discard, resp.Body) // so that the connection is used again
			resp.Body.Close()
		}
	}
}

// naive is the policy of most services: every hop retries on its own, retries times.
type naive struct{ retries int }

func (naive) handler(next http.Handler) http.Handler { return next }

func (p naive) transport(base http.RoundTripper) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		return repeat(base, req, nil, func(n int) bool { return n <= p.retries })
	})
}

// chainStop is Kitex's rule: a retry says on the wire that it is one, and a hop that serves such a request does not retry
// what it calls for it.
type chainStop struct{ retries int }

const retryMark = "Retry-Mark"

type markKey struct{}

func (chainStop) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		marked := r.Header.Get(retryMark) != ""
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), markKey{}, marked)))
	})
}

func (p chainStop) transport(base http.RoundTripper) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		marked, _ := req.Context().Value(markKey{}).(bool)
		set := func(attempt int, out *http.Request) {
			if marked || attempt > 0 {
				out.Header.Set(retryMark, "1")
			}
		}
		return repeat(base, req, set, func(n int) bool { return !marked && n <= p.retries })
	})
}

// downOnly is a budget that travels down and never back: every retry takes one off what the hop has left, and every
// attempt carries what is left then. limit bounds the retries of one hop; 0 means that only the budget does.
type downOnly struct{ budget, limit int }

const budgetLeft = "Budget-Left"

type budgetKey struct{}

func (p downOnly) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		left := p.budget // the chain begins here
		if n, err := strconv.Atoi(r.Header.Get(budgetLeft)); err == nil {
			left = n
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), budgetKey{}, left)))
	})
}

func (p downOnly) transport(base http.RoundTripper) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		left, _ := req.Context().Value(budgetKey{}).(int)
		set := func(attempt int, out *http.Request) { out.Header.Set(budgetLeft, strconv.Itoa(left-attempt)) }
		return repeat(base, req, set, func(n int) bool { return n <= left && (p.limit == 0 || n <= p.limit) })
	})
}
