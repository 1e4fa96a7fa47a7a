//go:build !race

package tables

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// TestT17 has a service fail by itself in every request, beside calls to n services that it can do without and that fail
// with q each. The naive rule (a call failed, so it was not me) takes its errors for somebody else's; the SDK reads the
// cause from the error that the handler returns.
func TestT17_misattribution_NoRace(t *testing.T) {
	requests := sampled(50_000)
	tab := newTable(t, "T17", "share of a service's own errors that it takes for another's, n calls that it can do without, each fails with q",
		fmt.Sprintf("%d errors a row, seeds 1700 + row", requests))
	defer tab.print()
	rows := []struct {
		q     float64
		n     int
		paper string
	}{{.01, 1, "1.0 %"}, {.01, 5, "4.9 %"}, {.01, 10, "9.6 %"}, {.01, 30, "26.0 %"}, {.001, 30, "3.0 %"}}
	naive, wrong := make([]int, len(rows)), make([]int, len(rows))
	inParallel(t, len(rows), func(t *testing.T, i int) {
		naive[i], wrong[i] = ownErrors{requests: requests, n: rows[i].n, q: rows[i].q, seed: uint64(1700 + i)}.taken(t)
	})
	for i, row := range rows {
		what := fmt.Sprintf("q=%.3f n=%d", row.q, row.n)
		expected := 1 - math.Pow(1-row.q, float64(row.n))
		tab.near(what+", naive rule", row.paper, expected, float64(naive[i])/float64(requests), chance(expected, requests))
		tab.count(what+", the SDK, the error is returned", "0", []int{0}, []int{wrong[i]})
	}
}

// ownErrors are requests that a service fails by itself.
type ownErrors struct {
	requests, n int
	q           float64
	seed        uint64
}

// taken returns how many of them the naive rule takes for another's, and how many the SDK does.
func (o ownErrors) taken(t *testing.T) (naive, wrong int) {
	random := rand.New(rand.NewPCG(o.seed, 17))
	s := rules{budget: 3, maxAttempts: 1}.service(t, "me", false, o.seed)
	callee := pipe{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if random.Float64() < o.q {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	clients := make([]http.RoundTripper, o.n)
	for i := range clients {
		clients[i] = s.transport(fmt.Sprintf("beside%d", i+1), callee)
	}
	mine := errors.New("a bug of mine")
	me := pipe{budgethttp.NewHandler(wrapped(func(r *http.Request) error {
		beside := false
		for i, c := range clients {
			if call(r.Context(), c, fmt.Sprintf("http://beside%d/", i+1)) != nil {
				beside = true // it goes on without
			}
		}
		if beside {
			naive++
		}
		return fmt.Errorf("page: %w", mine)
	}), s.sdk)}
	for range o.requests {
		wire := otelprop.Request{Grant: 3, Limit: 3, Hop: 1, Nonce: otelprop.Nonce(nonces.Add(1)), Entry: "edge", Caller: "edge", Attempt: 1}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://me/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header[otelprop.HTTPRequestHeader] = []string{wire.Header()}
		resp, err := me.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		ret, ok, _ := otelprop.ReadReturn(resp.Header[otelprop.HTTPReturnHeader], wire.Nonce, int(wire.Grant))
		if !ok || resp.StatusCode < 500 {
			t.Fatalf("status %d, return %q", resp.StatusCode, resp.Header[otelprop.HTTPReturnHeader])
		}
		if ret.Claim != ownership.ClaimClaimed || ret.Owner != "me" {
			wrong++
		}
	}
	return naive, wrong
}
