//go:build !race

package tables

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/internal/testnet"
)

// A graph is services that call each other, on a network in memory: a path from the entry to the cause of a failure, and
// whatever else the services on it call. Make it in a synctest bubble and close it.
type graph struct {
	graphPlan
	t       *testing.T
	network *testnet.Network
	path    []*graphNode // from the entry to the cause
	nodes   int
	down    atomic.Bool // the cause fails

	sdks    []*service
	mu      sync.Mutex
	retried map[*graphNode]bool // in the present request
	retries map[int]int64       // in all requests, by the depth of the hop
}

// graphPlan is what graphs differ in.
type graphPlan struct {
	rules    rules
	depth    int // edges from the entry to the cause
	fanOut   func(*rand.Rand) int
	parallel bool
	breaks   bool         // the cause breaks connections instead of answering
	outside  map[int]bool // hops of the path that do not run the SDK: they neither retry nor report
	looping  map[int]bool // hops that also retry on their own, below the SDK
	seed     uint64
}

type graphNode struct {
	host     string
	depth    int
	children []*graphNode
	served   atomic.Int64 // requests that arrived
}

func newGraph(t *testing.T, plan graphPlan) *graph {
	g := &graph{graphPlan: plan, t: t, retries: map[int]int64{}}
	random := rand.New(rand.NewPCG(plan.seed, 24))
	latencies := map[string]time.Duration{}
	g.network = testnet.New(func(r *http.Request) testnet.Fault {
		fault := testnet.Fault{After: latencies[r.URL.Host]}
		if plan.breaks && g.down.Load() && r.URL.Host == g.path[g.depth].host {
			fault.Kind, fault.Before = testnet.Drop, fault.After
		}
		return fault
	})
	add := func() *graphNode {
		n := &graphNode{host: "service" + strconv.Itoa(g.nodes)}
		latencies[n.host] = time.Duration(1+random.IntN(10)) * time.Millisecond
		g.nodes++
		return n
	}
	for range plan.depth + 1 {
		g.path = append(g.path, add())
	}
	var besides []*graphNode
	for i, n := range g.path[:plan.depth] {
		siblings := 0
		if plan.fanOut != nil {
			siblings = plan.fanOut(random) - 1
		}
		place := random.IntN(siblings + 1)
		for s := range siblings + 1 {
			if s == place {
				n.children = append(n.children, g.path[i+1])
				continue
			}
			sibling := add()
			besides = append(besides, sibling)
			if random.IntN(3) == 0 {
				below := add()
				sibling.children = []*graphNode{below}
				besides = append(besides, below)
			}
			n.children = append(n.children, sibling)
		}
	}
	for depth, n := range g.path {
		n.depth = depth
		g.serve(n, depth)
	}
	for _, n := range besides {
		g.serve(n, -1)
	}
	return g
}

// close ends the network. What the SDKs counted by depth must be what the network saw, where nothing else retried and no
// chain began anywhere but at the entry.
func (g *graph) close() {
	g.network.Close()
	if g.outside != nil || g.looping != nil {
		return
	}
	counted := map[int]int64{}
	for _, s := range g.sdks {
		for hop, n := range s.sdk.Totals().RetriesByHop {
			counted[hop] += n
		}
	}
	if !maps.Equal(counted, g.retries) {
		g.t.Errorf("the SDKs counted retries by hop %v, the network saw %v", counted, g.retries)
	}
}

// graphCalls counts what one execution of a handler sends to each host.
type graphCalls struct {
	node *graphNode
	mu   sync.Mutex
	sent map[string]int
}

type graphCallsKey struct{}

// serve puts a node on the network.
func (g *graph) serve(n *graphNode, depth int) {
	var clients []http.RoundTripper
	var s *service
	if !g.outside[depth] {
		s = g.rules.service(g.t, n.host, true, g.seed)
		g.sdks = append(g.sdks, s)
	}
	for _, child := range n.children {
		var base http.RoundTripper = roundTripFunc(g.count)
		if g.looping[depth] {
			base = naive{1}.transport(base)
		}
		if s != nil {
			base = s.transport(child.host, base)
		}
		clients = append(clients, base)
	}
	f := func(r *http.Request) error {
		n.served.Add(1)
		ctx := context.WithValue(r.Context(), graphCallsKey{}, &graphCalls{node: n, sent: map[string]int{}})
		if n == g.path[g.depth] && g.down.Load() {
			return errOwn
		}
		return g.callAll(ctx, n, clients)
	}
	switch {
	case s == nil:
		g.network.Handle(n.host, swallowed(f))
	case depth == 0:
		g.network.Handle(n.host, budgethttp.NewHandler(wrapped(f), s.sdk, budgethttp.Entry()))
	default:
		g.network.Handle(n.host, budgethttp.NewHandler(wrapped(f), s.sdk))
	}
}

// count stands below everything that may retry.
func (g *graph) count(req *http.Request) (*http.Response, error) {
	c := req.Context().Value(graphCallsKey{}).(*graphCalls)
	c.mu.Lock()
	c.sent[req.URL.Host]++
	again := c.sent[req.URL.Host] > 1
	c.mu.Unlock()
	if again {
		g.mu.Lock()
		g.retried[c.node] = true
		g.retries[c.node.depth]++
		g.mu.Unlock()
	}
	return g.network.RoundTrip(req)
}

// callAll calls all children; one after the other it ends with the first that fails.
func (g *graph) callAll(ctx context.Context, n *graphNode, clients []http.RoundTripper) error {
	if !g.parallel {
		for i, child := range n.children {
			if err := call(ctx, clients[i], "http://"+child.host+"/"); err != nil {
				return err
			}
		}
		return nil
	}
	failures := make([]error, len(clients))
	var calls sync.WaitGroup
	for i, child := range n.children {
		calls.Go(func() { failures[i] = call(ctx, clients[i], "http://"+child.host+"/") })
	}
	calls.Wait()
	return errors.Join(failures...)
}

// ask sends one request to the entry. It returns how many hops retried, and how far from the cause the farthest of them is.
func (g *graph) ask() (radius, distance int, ok bool) {
	g.mu.Lock()
	g.retried = map[*graphNode]bool{}
	g.mu.Unlock()
	err := call(context.Background(), g.network, "http://"+g.path[0].host+"/")
	g.network.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	onPath := 0
	for depth, n := range g.path {
		if g.retried[n] {
			onPath++
			distance = max(distance, g.depth-depth)
		}
	}
	if len(g.retried) != onPath {
		g.t.Errorf("%d hops retried that are not on the failing path", len(g.retried)-onPath)
	}
	return onPath, distance, err == nil
}

// storm is what many failing requests came to.
type storm struct {
	requests, most, farthest, sum int
	beyond                        int   // the most by which a radius is larger than the plan of its graph explains
	radii                         []int // how many requests had which radius
}

func (s *storm) add(radius, distance int) {
	s.requests++
	s.sum += radius
	s.most, s.farthest = max(s.most, radius), max(s.farthest, distance)
	for len(s.radii) <= radius {
		s.radii = append(s.radii, 0)
	}
	s.radii[radius]++
}

func (s *storm) mean() float64 { return float64(s.sum) / float64(s.requests) }
