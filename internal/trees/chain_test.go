package trees

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/testnet"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// A link is one hop of a linear chain, and how it calls the next.
type link struct {
	attempts int  // of its profile
	reserve  int  // of its profile
	stream   bool // its request has a body that cannot be sent again
}

// A line is a linear chain: hop 0 is the entry, each hop calls the next, and the last one calls the leaf.
type line struct {
	network *testnet.Network
	hops    []*chainbudgettest.Recorder
	called  []atomic.Int64 // requests that reached the leaf (at the end) and each hop
}

func hopName(i int) string { return "hop" + strconv.Itoa(i) }

// lineCatalog has a profile link<i> for each link, without the gates that look at more than one request.
func lineCatalog(budget int, mode string, links []link) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nchain: {budget: %d, max_budget: 10, mode: %s}\nprofiles:\n", budget, mode)
	for i, l := range links {
		fmt.Fprintf(&b, "  link%d:\n    extends: read-heavy\n    retry: {max_attempts: %d, reserve: %d, statuses: [502, 503]}\n"+
			"    budget: {ratio: 100%%, burst: 100000}\n    breaker: {min_requests: 1000000}\n    availability_floor: 0%%\n", i, l.attempts, l.reserve)
	}
	return b.String()
}

// newLine builds a chain with its own SDKs on a network of its own. plan sees requests from their clients' side.
func newLine(t testing.TB, budget int, mode string, links []link, plan func(*http.Request) testnet.Fault, leaf http.Handler) *line {
	t.Helper()
	c := &line{network: testnet.New(plan), called: make([]atomic.Int64, len(links)+1)}
	t.Cleanup(c.network.Close)
	catalog := lineCatalog(budget, mode, links)
	for i := range len(links) + 1 {
		rec := chainbudgettest.New(t, chainbudgettest.Service(hopName(i)), chainbudgettest.Catalog(catalog))
		c.hops = append(c.hops, rec)
		next := leaf
		var options []budgethttp.HandlerOption
		if i < len(links) {
			dep := rec.Dependency(hopName(i+1), profiles.Name("link"+strconv.Itoa(i)))
			next = c.hop(i, links[i], budgethttp.NewTransport(c.network, dep))
		}
		if i == 0 {
			options = append(options, budgethttp.Entry())
		}
		h := budgethttp.NewHandler(next, rec.SDK, options...)
		c.network.Handle(hopName(i), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.called[i].Add(1)
			h.ServeHTTP(w, r)
		}))
	}
	return c
}

func (c *line) hop(i int, l link, transport http.RoundTripper) http.Handler {
	return budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		var body io.Reader
		if l.stream {
			body = io.MultiReader(strings.NewReader("a stream"))
		}
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPut, "http://"+hopName(i+1)+"/", body)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		if denied := budgethttp.Denied(resp); denied != nil {
			return denied
		}
		return nil
	})
}

// enter sends one request to the entry and returns its answer's status.
func (c *line) enter(t testing.TB) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+hopName(0)+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.network.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	c.network.Wait()
	return resp.StatusCode
}

// leafCalls is how many requests reached the leaf.
func (c *line) leafCalls() int { return int(c.called[len(c.called)-1].Load()) }

// retries is how many retries all hops made.
func (c *line) retries() (n int) {
	for _, rec := range c.hops {
		for _, d := range rec.SDK.Totals().Dependencies {
			n += int(d.Retries)
		}
	}
	return n
}

// events returns the decisions of each hop.
func (c *line) events() [][]chainbudget.Event {
	var all [][]chainbudget.Event
	for _, rec := range c.hops {
		all = append(all, rec.Events())
	}
	return all
}

// failures is a leaf that answers 503 so many times, and then 200.
func failures(n int) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if n > 0 {
			n--
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

// always is more failures than any chain has attempts.
const always = 1 << 30
