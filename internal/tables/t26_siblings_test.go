package tables

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/internal/testnet"
)

// siblings is how many healthy services the hop of T26 calls.
const siblings = 9

// TestT26 counts what the healthy services get when a hop calls them and one that is down, below an entry with three
// tokens. The hop must retry where the failure is; if it gives up for want of a token instead, the entry retries it as a
// whole, and everything healthy is called again.
//
// That holds where the failure brings the lease home: with a return, with proof that the request never left, or because a
// known leaf was lent nothing. A service that breaks its connections takes the lease with it, the hop has nothing left to
// retry with, and the entry calls again: the last rows report how often the table holds then, which is hardly ever, and
// hold the SDK only to what the tokens allow.
func TestT26_healthy_siblings_of_a_service_that_is_down(t *testing.T) {
	tab := newTable(t, "T26", "requests in which each of 9 healthy siblings is called once", "20 to 150 requests a row, seed 26")
	defer tab.print()

	const each, every = "1 each", 1.0
	for _, down := range []downKind{answers503, refuses} {
		for _, place := range []int{0, siblings / 2, siblings} {
			run := siblingRun{down: down, place: place, requests: 20}
			tab.atLeast(fmt.Sprintf("sequential, %s is call %d", down, place+1), each, every, first(run.once(t)))
		}
		run := siblingRun{down: down, place: siblings / 2, parallel: true, learned: true, requests: 50}
		tab.atLeast(fmt.Sprintf("parallel, like latencies, learned leaves, %s", down), each, every, first(run.once(t)))
		tab.loose = true // who comes first of those that wait for a lease at one moment
		for _, place := range []int{0, siblings} {
			run := siblingRun{down: down, place: place, parallel: true, slow: 20, requests: 150}
			tab.atLeast(fmt.Sprintf("parallel, siblings 20 times slower, %s is call %d", down, place+1), "≥ 90 %", .9, first(run.once(t)))
			run.backends = true
			tab.atLeast(fmt.Sprintf("the same, siblings that call others, %s is call %d", down, place+1), "≥ 90 %", .9, first(run.once(t)))
		}
		tab.loose = false
	}
	// The leases are home when nothing was lent, so this holds for the third kind too.
	run := siblingRun{down: breaks, place: siblings / 2, parallel: true, learned: true, requests: 50}
	tab.atLeast(fmt.Sprintf("parallel, like latencies, learned leaves, %s", breaks), each, every, first(run.once(t)))
	for _, gap := range []struct {
		run   siblingRun
		bound int
	}{
		{siblingRun{down: breaks, place: 0, requests: 20}, 2}, // the entry's own token
		{siblingRun{down: breaks, place: siblings, requests: 20}, 2},
		{siblingRun{down: breaks, place: siblings, parallel: true, slow: 20, requests: 150}, 4}, // I2
	} {
		what := fmt.Sprintf("%s is call %d, parallel %t", gap.run.down, gap.run.place+1, gap.run.parallel)
		once, most := gap.run.once(t)
		tab.loose = gap.run.parallel
		tab.report(what, each, once)
		tab.atMost(what+", most calls of a sibling", each, gap.bound, most)
	}
}

func first(share float64, _ int) float64 { return share }

// downKind is how a service is down.
type downKind string

const (
	answers503 downKind = "a service that answers 503"
	refuses    downKind = "a service that refuses connections"
	breaks     downKind = "a service that breaks connections"
)

// siblingRun is a run of requests to an entry that calls a hop that calls the siblings and the service that is down, in
// virtual time on fresh SDKs.
type siblingRun struct {
	down     downKind
	place    int  // of the service that is down among the calls, from 0
	parallel bool // the calls
	learned  bool // the service goes down only once all are known to be leaves
	backends bool // the siblings make a call of their own, so that they are no leaves
	slow     int  // by what factor the siblings are slower than the service that is down; 0 = as fast
	requests int
}

// once returns the share of requests in which each sibling was called exactly once, and the most calls that any sibling got
// in one request.
func (s siblingRun) once(t *testing.T) (share float64, worst int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { share, worst = s.run(t) })
	return share, worst
}

const (
	like        = 5 * time.Millisecond // how long a service takes
	downHost    = "down"
	backendHost = "backend"
)

func (s siblingRun) run(t *testing.T) (once float64, worst int) {
	var isDown atomic.Bool
	network := testnet.New(func(req *http.Request) testnet.Fault {
		switch {
		case req.URL.Host == downHost && s.down == refuses && isDown.Load():
			return testnet.Fault{Kind: testnet.Refuse, Before: like}
		case req.URL.Host == downHost && s.down == breaks && isDown.Load():
			return testnet.Fault{Kind: testnet.Drop, Before: like}
		case req.URL.Host == downHost || s.slow == 0 || req.URL.Host == backendHost:
			return testnet.Fault{After: like}
		default:
			return testnet.Fault{After: like * time.Duration(s.slow)}
		}
	})
	defer network.Close()
	r := rules{budget: 3, maxAttempts: 4}
	hop := r.service(t, "hop", true, 26)

	var calls [siblings]atomic.Int64
	hosts := make([]string, 0, siblings+1)
	clients := map[string]http.RoundTripper{}
	for i := range calls {
		host := fmt.Sprintf("sibling%d", i+1)
		sibling := r.service(t, host, true, 26)
		backend := sibling.transport(backendHost, network)
		network.Handle(host, budgethttp.NewHandler(wrapped(func(r *http.Request) error {
			calls[i].Add(1)
			if s.backends {
				return call(r.Context(), backend, "http://"+backendHost+"/")
			}
			return nil
		}), sibling.sdk))
		hosts = append(hosts, host)
	}
	network.Handle(backendHost, budgethttp.NewHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		r.service(t, backendHost, true, 26).sdk))
	network.Handle(downHost, budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if isDown.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}), r.service(t, downHost, true, 26).sdk))
	hosts = append(hosts[:s.place], append([]string{downHost}, hosts[s.place:]...)...)
	for _, host := range hosts {
		clients[host] = hop.transport(host, network)
	}
	network.Handle("hop", budgethttp.NewHandler(wrapped(func(r *http.Request) error {
		return s.all(r.Context(), hosts, clients)
	}), hop.sdk))

	entry := r.service(t, "entry", true, 26)
	client := entry.transport("hop", network)
	network.Handle("entry", budgethttp.NewHandler(wrapped(func(r *http.Request) error {
		return call(r.Context(), client, "http://hop/")
	}), entry.sdk, budgethttp.Entry()))

	if s.learned {
		for range 16 {
			if err := call(t.Context(), network, "http://entry/"); err != nil {
				t.Errorf("a request failed while all were healthy: %v", err)
			}
		}
	}
	isDown.Store(true)
	good := 0
	for range s.requests {
		for i := range calls {
			calls[i].Store(0)
		}
		if call(t.Context(), network, "http://entry/") == nil {
			t.Error("a request succeeded while one of its services was down")
		}
		least, most := int64(math.MaxInt64), int64(0)
		for i := range calls {
			least, most = min(least, calls[i].Load()), max(most, calls[i].Load())
		}
		if least == 1 && most == 1 {
			good++
		}
		worst = max(worst, int(most))
	}
	return float64(good) / float64(s.requests), worst
}

// all calls every host, whatever the others answer.
func (s siblingRun) all(ctx context.Context, hosts []string, clients map[string]http.RoundTripper) error {
	failures := make([]error, len(hosts))
	if !s.parallel {
		for i, host := range hosts {
			failures[i] = call(ctx, clients[host], "http://"+host+"/")
		}
		return errors.Join(failures...)
	}
	var calls sync.WaitGroup
	for i, host := range hosts {
		calls.Go(func() { failures[i] = call(ctx, clients[host], "http://"+host+"/") })
	}
	calls.Wait()
	return errors.Join(failures...)
}
