//go:build !race

package tables

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
)

// shapes are the published distributions of depth: the share of traces that are at most so deep.
var shapes = []struct {
	name  string
	upTo  []float64 // for depths 1 to 6
	depth int       // the deepest seen
}{
	{"Ads", []float64{.261, .639, .690, .855, .962, .995}, 19},
	{"Fetch", []float64{.078, .132, .423, .697, .868, .991}, 9},
	{"RaaS", []float64{.127, .700, .930, .989, .995, 1}, 9},
}

// drawDepth draws the depth of a call graph.
func drawDepth(random *rand.Rand) int {
	s := shapes[random.IntN(len(shapes))]
	u := random.Float64()
	for i, share := range s.upTo {
		if u < share {
			return i + 1
		}
	}
	return len(s.upTo) + 1 + random.IntN(s.depth-len(s.upTo))
}

// drawFanOut draws how many services a service calls, by the published quantiles. The last hundredth, which goes up to
// thousands, ends at 200 here.
func drawFanOut(random *rand.Rand) int {
	between := func(low, high int) int { return low + random.IntN(high-low+1) }
	switch u := random.Float64(); {
	case u < .50:
		return between(1, 4)
	case u < .75:
		return between(5, 7)
	case u < .90:
		return between(8, 13)
	case u < .95:
		return between(14, 22)
	case u < .99:
		return between(23, 101)
	default:
		return between(102, 200)
	}
}

var stormRules = rules{budget: 3, orphanBudget: 1, maxAttempts: 4}

// TestT24 counts the hops that retry because of one failure, on a chain of 25 hops and on random graphs.
func TestT24_storm_radius_NoRace(t *testing.T) {
	tab := newTable(t, "T24", "hops that retry because of one failure (published: before 25 at most, 20 on average; after 3 and 2)",
		"40 to 200 random graphs a row, 3 failures each, the graph's number is the seed")
	defer tab.print()

	chain := func(parallel bool) stormRun { return stormRun{graphs: 1, depth: 25, parallel: parallel} }
	random := func(parallel bool) stormRun { return stormRun{graphs: 200, parallel: parallel} }

	s := chain(false).run(t, "chain")
	tab.atMost("chain of 25, at most", "3", 1, s.most)
	tab.atMost("chain of 25, farthest hop that retried", "-", 1, s.farthest)
	for _, learned := range []bool{false, true} {
		for _, parallel := range []bool{false, true} {
			run := random(parallel)
			run.learned = learned
			if learned {
				run.graphs = 40
			}
			what := fmt.Sprintf("random graphs, parallel calls %t, leaves learned %t", parallel, learned)
			s := run.run(t, what)
			tab.loose = parallel
			tab.atMost(what+", at most", "3", 2, s.most)
			bound := 1.3
			if parallel {
				bound = 1.65
			}
			tab.below(what+", mean", "2", bound, s.mean())
			tab.report(what+", farthest hop that retried", "-", float64(s.farthest))
		}
	}

	// A cause that breaks connections takes the leases with it, so that it is not its neighbour who retries.
	for _, run := range []stormRun{chain(false), random(false), random(true)} {
		run.breaks = true
		if run.depth == 0 {
			run.graphs = 60
		}
		what := fmt.Sprintf("%s, parallel calls %t, the cause breaks connections", run.shape(), run.parallel)
		s := run.run(t, what)
		tab.loose = run.parallel
		tab.atMost(what+", at most", "3", 2, s.most)
		tab.report(what+", mean", "2", s.mean())
		tab.report(what+", farthest hop that retried", "-", float64(s.farthest))
	}

	// Hops without the SDK: 10 % of the hops of each path, one at least and never the entry.
	for _, parallel := range []bool{false, true} {
		for _, run := range []stormRun{chain(parallel), {graphs: 40, depth: 25, parallel: parallel, learned: true}, random(parallel)} {
			run.outside = .1
			run.graphs = 80
			if run.depth > 0 {
				if run.graphs = 40; parallel { // a chain has nothing to call in parallel
					continue
				}
			}
			what := fmt.Sprintf("%s, parallel calls %t, silent callees learned %t, 10 %% without the SDK", run.shape(), parallel, run.learned)
			s := run.run(t, what)
			tab.loose = run.parallel
			tab.atMost(what+", at most", "3", 3, s.most)
			tab.report(what+", mean", "2", s.mean())
			tab.report(what+", farthest hop that retried", "-", float64(s.farthest))
			if run.learned {
				continue
			}
			run.outside, run.looping = 0, .1
			s = run.run(t, what+" looping")
			tab.report(fmt.Sprintf("%s, parallel calls %t, 10 %% also retry below the SDK, at most", run.shape(), parallel), "-", float64(s.most))
			tab.report(fmt.Sprintf("%s, parallel calls %t, 10 %% also retry below the SDK, mean", run.shape(), parallel), "-", s.mean())
		}
	}
}

// A path may have more than its share of such hops. Nothing crosses them, so that each run of hops between two of them acts
// on its own: it retries at one hop, or with parallel calls at two.
func TestT24_hops_without_the_SDK_by_chance_NoRace(t *testing.T) {
	tab := newTable(t, "T24", "hops that retry because of one failure, each hop without the SDK with 10 %",
		"30 or 60 graphs a row, 3 failures each, the graph's number is the seed")
	defer tab.print()
	for _, run := range []stormRun{
		{graphs: 60, depth: 25}, {graphs: 60, depth: 25, learned: true}, {graphs: 60}, {graphs: 60, parallel: true}, {graphs: 30, parallel: true, learned: true},
	} {
		run.each = .1
		what := fmt.Sprintf("%s, parallel calls %t, learned %t", run.shape(), run.parallel, run.learned)
		s := run.run(t, what)
		above := 0
		for radius, n := range s.radii {
			if radius > 3 {
				above += n
			}
		}
		tab.loose = run.parallel
		tab.report(what+", at most", "3", float64(s.most))
		tab.report(what+", mean", "2", s.mean())
		tab.report(what+", share above 3", "0", float64(above)/float64(s.requests))
		tab.atMost(what+", most beyond what the runs explain", "-", 0, s.beyond)
	}
}

// stormRun is a run over many graphs, each with a few requests while its cause is down.
type stormRun struct {
	graphs   int
	depth    int // 0 = random graphs
	parallel bool
	learned  bool    // requests succeeded before, so that it is known who is a leaf
	breaks   bool    // the cause breaks connections
	each     float64 // how likely each hop but the entry is without the SDK
	outside  float64
	looping  float64
}

func (r stormRun) shape() string {
	if r.depth > 0 {
		return fmt.Sprintf("chain of %d", r.depth)
	}
	return "random graphs"
}

func (r stormRun) run(t *testing.T, name string) storm {
	t.Helper()
	var mu sync.Mutex
	var all storm
	t.Run(name, func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprintf("shard_%d", shard), func(t *testing.T) {
				t.Parallel()
				for i := shard; i < r.graphs; i += shards {
					synctest.Test(t, func(t *testing.T) {
						s := r.one(t, uint64(i))
						mu.Lock()
						defer mu.Unlock()
						for _, one := range s {
							all.add(one[0], one[1])
							all.beyond = max(all.beyond, one[0]-one[2])
						}
					})
				}
			})
		}
	})
	if all.requests == 0 {
		t.Fatal("nothing was run")
	}
	return all
}

// one runs one graph and returns radius and distance of each failing request, and the radius that its runs of hops explain.
func (r stormRun) one(t *testing.T, seed uint64) [][3]int {
	random := rand.New(rand.NewPCG(seed, 2424))
	plan := graphPlan{rules: stormRules, depth: r.depth, parallel: r.parallel, breaks: r.breaks, seed: seed}
	if r.depth == 0 {
		plan.depth, plan.fanOut = drawDepth(random), drawFanOut
	}
	plan.outside, plan.looping = some(random, plan.depth, r.outside), some(random, plan.depth, r.looping)
	for hop := 1; hop <= plan.depth && r.each > 0; hop++ {
		if random.Float64() < r.each {
			if plan.outside == nil {
				plan.outside = map[int]bool{}
			}
			plan.outside[hop] = true
		}
	}
	g := newGraph(t, plan)
	defer g.close()
	if r.learned {
		for range 17 {
			if radius, _, ok := g.ask(); !ok || radius > 0 {
				t.Errorf("a request succeeds: %t, %d hops retried, while nothing is down", ok, radius)
			}
		}
	}
	g.down.Store(true)
	explained := 1 + len(plan.outside)
	if r.parallel {
		explained *= 2
	}
	var came [][3]int
	for range 3 {
		radius, distance, ok := g.ask()
		if ok {
			t.Error("a request succeeded while its cause was down")
		}
		came = append(came, [3]int{radius, distance, explained})
	}
	return came
}

// some draws a share of the hops of a path: all but the entry, at least one of them, none of a share of 0.
func some(random *rand.Rand, depth int, share float64) map[int]bool {
	if share == 0 {
		return nil
	}
	n := max(1, int(share*float64(depth)))
	drawn := map[int]bool{}
	for _, i := range random.Perm(depth)[:n] {
		drawn[i+1] = true
	}
	return drawn
}
