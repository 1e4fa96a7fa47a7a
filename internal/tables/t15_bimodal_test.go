//go:build !race

package tables

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// TestT15 has the SRE book's two examples of deadlines: a server whose threads are held by the one request in twenty that
// never ends, for as long as its caller's deadline allows; and what is left of a deadline two hops down. Deadlines cross
// from hop to hop in the SDK's header.
func TestT15_deadlines_NoRace(t *testing.T) {
	threads := sampled(1000)
	tab := newTable(t, "T15", "share of requests that get a thread, 5 % hang until their deadline; and what is left of a deadline two hops down",
		fmt.Sprintf("%d threads, as many requests a second over 600 s of virtual time, seed 15", threads))
	defer tab.print()
	tab.loose = true // threads become free at the moment at which requests come
	for _, row := range []struct {
		deadline time.Duration
		paper    string
	}{{100 * time.Second, "19.6 %"}, {time.Second, "-"}} {
		run := bimodal{threads: threads, deadline: row.deadline}
		expected := min(1, 1/(hangs*row.deadline.Seconds()+(1-hangs)*answersAfter.Seconds()))
		got, asked := run.served(t)
		measured := float64(got) / float64(asked)
		// A thread is held for one of two times: the spread of so many in a row.
		mean := hangs*row.deadline.Seconds() + (1-hangs)*answersAfter.Seconds()
		spread := math.Sqrt(hangs*(1-hangs)) * (row.deadline - answersAfter).Seconds() / mean
		tolerance := 3 * spread / math.Sqrt(float64(got)) * expected
		if expected == 1 {
			tolerance = 0
		}
		tab.near(fmt.Sprintf("deadline %v, share that gets a thread", row.deadline), row.paper, expected, measured, tolerance)
	}
	tab.loose = false
	left := deadlineDown(t, 30*time.Second, 7*time.Second, 4*time.Second)
	tab.count("what is left of 30 s after 7 s, at the next hop, ms", "30 - 7 = 23 s", []int{23_000}, []int{int(left[0].Milliseconds())})
	tab.count("what is left of that after 4 s, at the next hop, ms", "23 - 4 = 19 s", []int{19_000}, []int{int(left[1].Milliseconds())})
}

const (
	hangs        = .05 // share of the requests that never end
	answersAfter = 100 * time.Millisecond
)

// bimodal is a server with so many threads that is asked as often in a second, by a caller with a deadline.
type bimodal struct {
	threads  int
	deadline time.Duration
}

// served returns how many of the requests of the last 400 of 600 seconds got a thread.
func (b bimodal) served(t *testing.T) (got, asked int) {
	const length, from = 600, 200
	synctest.Test(t, func(t *testing.T) {
		r := rules{budget: 3, maxAttempts: 1, attemptTimeout: b.deadline, deadlines: "propagate"}
		var mu sync.Mutex
		busy := 0
		server := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			mu.Lock()
			if busy == b.threads {
				mu.Unlock()
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			busy++
			n, err := strconv.Atoi(req.URL.Path[1:])
			if err != nil {
				t.Error(err)
			}
			if n >= from*b.threads {
				got++
			}
			mu.Unlock()
			if uniform(15, uint64(n), 0, 0) < hangs {
				<-req.Context().Done()
			} else {
				time.Sleep(answersAfter)
			}
			mu.Lock()
			busy--
			mu.Unlock()
		}), r.service(t, "server", true, 15).sdk)
		caller := r.service(t, "caller", true, 15)
		client := caller.transport("server", pipe{server})
		start := time.Now()
		var calls sync.WaitGroup
		for i := range length * b.threads {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(b.threads))))
			calls.Go(func() {
				ctx, end := chainbudget.Start(context.Background(), caller.sdk)
				defer end()
				_ = call(ctx, client, fmt.Sprintf("http://server/%d", i)) // many are refused
			})
		}
		calls.Wait()
		asked = (length - from) * b.threads
	})
	return got, asked
}

// deadlineDown sends a request with a deadline down three hops, of which the first two work before they call, and returns
// what is left of it where it arrives below them.
func deadlineDown(t *testing.T, deadline time.Duration, works ...time.Duration) (left []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		r := rules{budget: 3, maxAttempts: 1, deadlines: "propagate"}
		var below http.RoundTripper
		for i := len(works); i >= 0; i-- {
			s := r.service(t, fmt.Sprintf("hop%d", i), true, 15)
			forward := func(context.Context) error { return nil }
			if below != nil {
				forward = forwarder(s.transport(fmt.Sprintf("hop%d", i+1), below), fmt.Sprintf("hop%d", i+1))
			}
			below = pipe{budgethttp.NewHandler(wrapped(func(req *http.Request) error {
				if end, ok := req.Context().Deadline(); ok && i > 0 {
					left = append(left, time.Until(end))
				}
				if i < len(works) {
					time.Sleep(works[i])
				}
				return forward(req.Context())
			}), s.sdk)}
		}
		r.attemptTimeout = deadline
		edge := r.service(t, "edge", true, 15)
		ctx, end := chainbudget.Start(t.Context(), edge.sdk)
		defer end()
		if err := call(ctx, edge.transport("hop0", below), "http://hop0/"); err != nil {
			t.Error(err)
		}
	})
	return left
}
