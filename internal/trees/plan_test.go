package trees

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/testnet"
)

// The bounds of a random tree.
const (
	maxDepth  = 8  // edges below the entry
	maxFanout = 12 // calls of one handler
	maxCalls  = 64 // edges of the tree
	services  = 8  // besides the entry's, which is number 0
)

// budgets are what entries mint; each has a route in the catalog.
var budgets = []int{0, 1, 2, 3, 3, 3, 5, 10}

// A tree is the plan of one random call tree: who calls whom, how, and what goes wrong. Every draw hangs on the seed and
// on what it is about, not on the order of events, so that the same tree can be run again.
type tree struct {
	seed     uint64
	budget   int
	faulty   float64       // share of attempts that something happens to on the way
	patience time.Duration // of whoever calls the entry; 0 = it waits for the answer
	scale    time.Duration // what all times are multiplied by; above 1 for real time, in which hangs are kept rare
	nodes    []*node       // [0] is the entry
}

// A node is one place of a tree: a handler at one path below the entry.
type node struct {
	id, depth int
	service   int
	operation string // leaves and others differ, so that dependencies learn who is a leaf
	method    string
	body      body
	children  []*node

	parallel bool // all calls at once
	cancels  bool // of parallel calls, the first failure cancels the others
	goesOn   bool // of sequential calls, a failure does not end the handler
	tolerant bool // answers without the calls that failed
	exact    bool // wraps the failed call in the error that it returns
	recovers bool // stands behind a middleware that answers panics with 500
	early    bool // sends its headers before its calls
	keep     int  // tokens kept for after the headers

	fails, hangs, panics float64 // shares of its executions
}

// body says what a node's requests carry.
type body uint8

const (
	noBody body = iota
	replayableBody
	streamBody // cannot be sent twice
)

// draw returns a source that hangs on the seed and on what names the draw.
func (t *tree) draw(name ...int) *rand.Rand {
	h := t.seed
	for _, n := range name {
		h = (h ^ uint64(n+1)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return rand.New(rand.NewPCG(t.seed, h))
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// newTree draws a tree.
func newTree(seed uint64, scale time.Duration) *tree {
	t := &tree{seed: seed, scale: scale}
	r := t.draw()
	t.budget = pick(r, budgets...)
	t.faulty = pick(r, 0, 0.05, 0.2, 0.2, 0.5)
	if chance(r, 0.15) {
		t.patience = time.Duration(r.IntN(1000)+1) * time.Millisecond * scale
	}
	failing := pick(r, 0.05, 0.2, 0.5, 1) // share of nodes with a fault of their own
	t.nodes = append(t.nodes, &node{})
	for size := 8 + r.IntN(maxCalls-7); len(t.nodes) <= size; {
		// Of two candidates the deeper, so that deep trees are not rare.
		parent := t.nodes[r.IntN(len(t.nodes))]
		if other := t.nodes[r.IntN(len(t.nodes))]; other.depth > parent.depth {
			parent = other
		}
		if parent.depth == maxDepth || len(parent.children) == maxFanout {
			continue
		}
		n := &node{id: len(t.nodes), depth: parent.depth + 1, service: 1 + r.IntN(services)}
		parent.children = append(parent.children, n)
		t.nodes = append(t.nodes, n)
	}
	for _, n := range t.nodes {
		n.draw(r, failing)
		n.hangs /= float64(scale * scale)
	}
	t.nodes[0].method = http.MethodPut
	t.nodes[0].operation = "entry"
	return t
}

func (n *node) draw(r *rand.Rand, failing float64) {
	n.operation = "inner"
	if len(n.children) == 0 && !chance(r, 0.02) { // a few leaves pass for others, so that lessons are unlearned
		n.operation = "leaf"
	}
	n.method = pick(r, http.MethodGet, http.MethodGet, http.MethodGet, http.MethodPut, http.MethodPut, http.MethodPost)
	if n.method != http.MethodGet {
		n.body = pick(r, noBody, replayableBody, replayableBody, streamBody)
	}
	n.parallel = chance(r, 0.5)
	n.cancels = chance(r, 0.3)
	n.goesOn = chance(r, 0.5)
	n.tolerant = chance(r, 0.2)
	n.exact = chance(r, 0.5)
	n.recovers = chance(r, 0.5)
	n.early = chance(r, 0.03)
	if n.early && chance(r, 0.5) {
		n.keep = 1 + r.IntN(2)
	}
	if n.id > 0 && chance(r, failing) {
		n.fails = pick(r, 0.1, 0.5, 0.5, 0.9, 1)
		n.hangs = pick(r, 0, 0, 0, 0.1, 0.3)
		n.panics = pick(r, 0, 0, 0, 0.2)
	}
}

// behaviour is what one execution of a node's handler does.
type behaviour struct {
	work                time.Duration
	fail, hang, panicky bool
	last                bool // the fault comes after the calls, not before
	status              int  // of a failure of its own
}

func (t *tree) behaviour(n *node, execution int) behaviour {
	r := t.draw(1, n.id, execution)
	return behaviour{
		work:    time.Duration(r.IntN(10)) * time.Millisecond,
		fail:    chance(r, n.fails),
		hang:    chance(r, n.hangs),
		panicky: chance(r, n.panics),
		last:    chance(r, 0.3),
		status:  pick(r, 500, 503, 503, 503, 504, 429, 400),
	}
}

// late is more than some profiles' patience, and less than others'.
func (t *tree) late() time.Duration { return 150 * time.Millisecond * t.scale }

// slow are the faults, in the order below, that somebody waits for.
var slow = [11]bool{2: true, 4: true, 6: true, 7: true}

// fault is what the network does to one of the attempts towards a node.
func (t *tree) fault(n *node, number int) testnet.Fault {
	r := t.draw(2, n.id, number)
	f := testnet.Fault{
		Before: time.Duration(r.IntN(3)) * time.Millisecond,
		After:  time.Duration(r.IntN(3)) * time.Millisecond,
		Notice: pick(r, 0, 0, 5*time.Millisecond, 100*time.Millisecond, testnet.Never),
	}
	if !chance(r, t.faulty) {
		return f
	}
	kind := r.IntN(11)
	for t.scale > 1 && slow[kind] && chance(r, 0.7) {
		kind = r.IntN(11)
	}
	switch kind {
	case 0:
		f.Kind = testnet.Refuse
	case 1:
		f.Kind = testnet.Drop
	case 2:
		f.Kind = testnet.Hang
	case 3:
		f.Kind = testnet.Lose
	case 4:
		f.Kind = testnet.Swallow
	case 5:
		f.Kind, f.After = testnet.Crash, time.Duration(r.IntN(20))*time.Millisecond
	case 6:
		f.Before = t.late()
	case 7:
		f.After = t.late()
	case 8:
		f.Return = testnet.Remove
	case 9:
		f.Return = testnet.Duplicate
	case 10:
		f.Return = testnet.Stale
	}
	return f
}
