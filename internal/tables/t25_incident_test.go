//go:build !race

package tables

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/testnet"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// incidentCatalog has the gates of the built-in profiles, with the SDK's own budget of 10 %; the second profile is without
// those that end a storm by other means.
const incidentCatalog = `
version: 1
chain: {budget: 3}
profiles:
  %[1]s: {extends: read-heavy, retry: {max_attempts: %[2]d}}
  bucket: {extends: %[1]s, breaker: disabled, availability_floor: 0%%}
`

// incidentChain is a chain of d edges whose last service fails as often as told.
type incidentChain struct {
	t      *testing.T
	d      int
	served []atomic.Int64 // by each hop, the entry first
	ask    func(context.Context) error
}

// newIncidentChain makes the chain. connect gives the way to a host that is served by a handler.
func newIncidentChain(t *testing.T, d, attempts int, profile profiles.Name, sleeps bool, fails func() bool, connect func(string, http.Handler) http.RoundTripper) *incidentChain {
	c := &incidentChain{t: t, d: d, served: make([]atomic.Int64, d+1)}
	catalog, err := profiles.Load(fmt.Appendf(nil, incidentCatalog, "usual", attempts), "incident")
	if err != nil {
		t.Fatal(err)
	}
	var below http.RoundTripper
	for hop := d; hop >= 0; hop-- {
		host := fmt.Sprintf("hop%d", hop)
		random := rand.New(rand.NewPCG(25, uint64(hop))) // requests come one after the other
		sdk := new(engine.SDK)
		sdk.Init(engine.Config{Service: host, Catalog: catalog, NoSleep: !sleeps, Strict: true, Random: random.Int64N, Nonce: random.Uint32})
		handle := func(context.Context) error {
			if fails() {
				return errOwn
			}
			return nil
		}
		if below != nil {
			next := fmt.Sprintf("hop%d", hop+1)
			dep, err := (*chainbudget.SDK)(sdk).Dependency(next, profile)
			if err != nil {
				t.Fatal(err)
			}
			handle = forwarder(budgethttp.NewTransport(below, dep), next)
		}
		var options []budgethttp.HandlerOption
		if hop == 0 {
			options = append(options, budgethttp.Entry())
		}
		below = connect(host, budgethttp.NewHandler(wrapped(func(r *http.Request) error {
			c.served[hop].Add(1)
			return handle(r.Context())
		}), (*chainbudget.SDK)(sdk), options...))
	}
	c.ask = forwarder(below, "hop0")
	return c
}

// most returns the most requests that any hop got, the number of requests to the entry apart.
func (c *incidentChain) most() (n int) {
	for i := 1; i <= c.d; i++ {
		n = max(n, int(c.served[i].Load()))
	}
	return n
}

// TestT25 has the published incident: a service more than five hops deep is down. A 10 % budget at every hop adds 46 % at
// depth 4 and 136 % at depth 9.
func TestT25_the_published_incident_NoRace(t *testing.T) {
	tab := newTable(t, "T25", "extra load while the dependency is down, and availability beside it",
		"100,000 requests for each availability, seeds 0 to 3 with the number of attempts")
	defer tab.print()

	for _, profile := range []profiles.Name{"usual", "bucket"} {
		for d := 4; d <= 9; d++ {
			var after100, after1000 float64
			synctest.Test(t, func(t *testing.T) {
				network := testnet.New(func(*http.Request) testnet.Fault { return testnet.Fault{After: 2 * time.Millisecond} })
				defer network.Close()
				c := newIncidentChain(t, d, 4, profile, true, func() bool { return true }, func(host string, h http.Handler) http.RoundTripper {
					network.Handle(host, h)
					return network
				})
				worst := func(from, to int) (extra float64) {
					for n := from; n <= to; n++ {
						if c.ask(t.Context()) == nil {
							t.Error("a request succeeded while its dependency was down")
						}
						time.Sleep(10 * time.Millisecond)
						if n >= 100 {
							extra = max(extra, float64(c.most())/float64(n)-1)
						}
					}
					return extra
				}
				after100 = worst(1, 100)
				after1000 = max(after100, worst(101, 1000))
			})
			paper := fmt.Sprintf("%.1f %%", 100*(math.Pow(1.1, float64(d))-1))
			what := fmt.Sprintf("extra load, depth %d, profile %s", d, profile)
			tab.below(what+", 100 requests", paper, .1, after100)
			tab.below(what+", worst of 100 to 1000", paper, .1, after1000)
		}
	}

	tab.loose = true // windows and typical times are those of the machine here
	const requests = 100_000
	const d = 6
	for _, attempts := range []int{3, 4} {
		what := fmt.Sprintf("availability, .95 on the last edge, depth %d, b=3, %d attempts", d, attempts)
		var mu sync.Mutex
		good, most := 0, 0
		t.Run(what, func(t *testing.T) {
			for shard := range shards {
				t.Run(fmt.Sprintf("shard_%d", shard), func(t *testing.T) {
					t.Parallel()
					random := rand.New(rand.NewPCG(uint64(shard), uint64(100*d+attempts)))
					c := newIncidentChain(t, d, attempts, "usual", false, func() bool { return random.Float64() < .05 },
						func(_ string, h http.Handler) http.RoundTripper { return pipe{h} })
					n := 0
					for range requests / shards {
						if c.ask(t.Context()) == nil {
							n++
						}
					}
					mu.Lock()
					defer mu.Unlock()
					good += n
					most += c.most()
				})
			}
		})
		tab.atLeast(what, "1.0000 at 46 to 136 % more load", .9995, float64(good)/requests)
		extra := float64(most)/requests - 1
		tab.below(what+", extra load", "-", .1, extra)
	}
}
