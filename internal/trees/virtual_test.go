package trees

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/chainbudget/chainbudget-go/internal/testnet"
)

var onlySeed = flag.Uint64("seed", 0, "run the random tree of this seed alone, 200 times (go test -run TestI1_RandomTrees -args -seed N)")

// firstSeed makes the trees the same from run to run. Each test adds the ordinal of the tree.
const firstSeed = 20260101

// A census says how many trees were run, and in how many of them what happened.
type census struct {
	mu                          sync.Mutex
	trees, retries, calls, most int
	depth                       int
	saw                         [events]int
}

func (c *census) add(l *ledger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trees++
	c.retries += l.retries
	c.calls += len(l.calls)
	c.most = max(c.most, len(l.tree.nodes)-1)
	for _, n := range l.tree.nodes {
		if l.received[n.id] > 0 {
			c.depth = max(c.depth, n.depth)
		}
	}
	for e, seen := range l.saw {
		if seen {
			c.saw[e]++
		}
	}
}

func (c *census) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d trees, %.1f calls and %.2f retries a tree, at most %d calls planned, depth %d;", c.trees,
		float64(c.calls)/float64(c.trees), float64(c.retries)/float64(c.trees), c.most, c.depth)
	for e, n := range c.saw {
		fmt.Fprintf(&b, " %s %.1f %%,", eventNames[e], 100*float64(n)/float64(c.trees))
	}
	return strings.TrimSuffix(b.String(), ",")
}

// demand fails the test where the trees were not what they have to be: a rule that nothing strained was not tested.
func (c *census) demand(t *testing.T, trees int, calls float64) {
	t.Helper()
	t.Log(c)
	if c.trees < trees {
		t.Errorf("%d trees were run, want %d", c.trees, trees)
	}
	if mean := float64(c.calls) / float64(c.trees); mean < calls {
		t.Errorf("a tree has %.1f calls on average, want %.0f", mean, calls)
	}
	if c.most > maxCalls || c.depth > maxDepth || c.depth < maxDepth {
		t.Errorf("%d calls in a tree and a depth of %d, want at most %d and exactly %d", c.most, c.depth, maxCalls, maxDepth)
	}
	for e, n := range c.saw {
		// How often depends on the machine where connections are real: of a few hundred trees one is enough. What only a
		// narrow moment brings about, in a few of a hundred trees, may be missing from so few.
		want := c.trees / 1000 * 10
		if c.trees >= 500 || !narrow[e] {
			want = max(want, 1)
		}
		if n < want {
			t.Errorf("%s in %d of %d trees, want %d", eventNames[e], n, c.trees, want)
		}
	}
}

// virtualTrees runs trees in several bubbles, each with a fleet and a network of its own. Half of the fleets enforce
// everything, the others all but ownership, whose refusals would otherwise leave the purses little to do.
func virtualTrees(t *testing.T, trees, shards int) *census {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // the heap is a few megabytes: collecting it is half of the time
	var c census
	t.Run("shards", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					from, to := trees*shard/shards, trees*(shard+1)/shards
					virtualShard(t, &c, []string{"enforce", "budget"}[shard%2], firstSeed+uint64(from), to-from)
				})
			})
		}
	})
	return &c
}

func virtualShard(t *testing.T, c *census, mode string, first uint64, trees int) {
	network := testnet.New(plannedFault)
	defer network.Close()
	f := newFleet(t, first, mode, 1, meter{base: network}, serviceName)
	for i, h := range f.handlers {
		network.Handle(serviceName(i), h)
	}
	minted, retries := 0, 0
	violations := 0
	for i := range trees {
		seed := first + uint64(i)
		if *onlySeed != 0 {
			seed = *onlySeed
		}
		l, err := f.enter(newTree(seed, 1), network)
		network.Wait()
		synctest.Wait() // for attempts that have lost against a hedge
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for _, v := range l.finish() {
			t.Errorf("seed %d: %s", seed, v)
			violations++
		}
		f.runs.Delete(seed)
		c.add(l)
		minted += l.minted
		retries += l.retries
		if violations > 20 {
			t.Fatal("too many violations")
		}
	}
	f.reconcile(t, minted, retries)
}

// reconcile compares what the wire showed with what the SDKs counted.
func (f *fleet) reconcile(t *testing.T, minted, retries int) {
	t.Helper()
	var got struct{ minted, retries, orphans, noPurse, unreadable, lent, home int64 }
	for _, sdk := range f.sdks {
		totals := sdk.Totals()
		got.minted += totals.Minted
		got.orphans += totals.Orphans
		got.noPurse += totals.NoPurse
		got.unreadable += totals.Unreadable
		for _, d := range totals.Dependencies {
			got.retries += d.Retries
			got.lent += d.Lent
			got.home += d.Home
		}
	}
	if got.minted != int64(minted) || got.retries != int64(retries) {
		t.Errorf("the SDKs counted %d tokens and %d retries, the wire showed %d and %d", got.minted, got.retries, minted, retries)
	}
	if got.orphans != 0 || got.noPurse != 0 || got.unreadable != 0 {
		t.Errorf("%d orphans, %d calls without a purse, %d unreadable members, want none", got.orphans, got.noPurse, got.unreadable)
	}
	if got.home > got.lent || got.lent == 0 {
		t.Errorf("%d tokens came home of %d lent", got.home, got.lent)
	}
}

// TestI1_RandomTrees holds I1, I2, I3 and I4 on random trees in virtual time. Under the race detector every run also
// looks for unsynchronized access, with more threads than cores.
func TestI1_RandomTrees(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	if *onlySeed != 0 {
		t.Log(virtualTrees(t, 200, 2))
		return
	}
	const trees = 10_000
	virtualTrees(t, trees, 4).demand(t, trees, 15)
}
