package edges

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxEdges bounds the edges of one table; the one that failed least recently makes room.
	MaxEdges = 10_000
	// MaxOperations bounds the inbound operations; further ones share one.
	MaxOperations = 2_000
	// HalfLife is the traffic time after which an old failure counts half.
	HalfLife = time.Hour

	// window is how many of the last failures count. It is the smallest round number with which 16 of 16 classify and a
	// few coincidences do not unclassify.
	window = 32
	// keep is how many failures never fade with time: rare ones must not be forgotten before they count.
	keep = 20
	// busy bounds how much traffic time one request can add: a longer pause is no traffic.
	busy = time.Second
)

// Table holds the edges of one service. The zero value is not usable; see [New].
type Table struct {
	halfLife time.Duration
	start    time.Time
	last     atomic.Int64 // when traffic time was last advanced, nanoseconds since start
	traffic  atomic.Int64 // nanoseconds

	operations sync.Map // name -> *Operation
	count      atomic.Int64
	other      *Operation

	mu    sync.Mutex // guards the making and removing of edges
	edges int
}

// New returns an empty table. A half-life that is not above zero is [HalfLife].
func New(halfLife time.Duration) *Table {
	if halfLife <= 0 {
		halfLife = HalfLife
	}
	t := &Table{halfLife: halfLife, start: time.Now()}
	t.other = &Operation{table: t, name: "other"}
	return t
}

// Operation is one inbound operation: a route pattern or an RPC method, never a raw path.
type Operation struct {
	table *Table
	name  string
	edges atomic.Pointer[[]*Edge] // copied when it changes

	clean atomic.Int64 // requests in which no dependency failed
	own   atomic.Int64 // those of them that failed
}

// Edge is one operation's use of one dependency.
type Edge struct {
	dependency string
	requests   atomic.Int64 // in which the dependency was called
	alone      atomic.Int64 // in which we failed and it had not

	mu     sync.Mutex
	failed float64 // weight of the failures of the dependency
	both   float64 // weight of those with which we failed
	at     int64   // traffic time of the last change
}

// Operation returns the operation of that name, making it at first use.
func (t *Table) Operation(name string) *Operation {
	if o, ok := t.operations.Load(name); ok {
		return o.(*Operation)
	}
	if name == t.other.name { // as it was saved
		return t.other
	}
	if t.count.Load() >= MaxOperations {
		return t.other
	}
	o, loaded := t.operations.LoadOrStore(strings.Clone(name), &Operation{table: t, name: strings.Clone(name)})
	if !loaded {
		t.count.Add(1)
	}
	return o.(*Operation)
}

// Name returns the operation's name.
func (o *Operation) Name() string { return o.name }

// edge returns the edge to a dependency, or nil.
func (o *Operation) edge(dependency string) *Edge {
	if list := o.edges.Load(); list != nil {
		for _, e := range *list {
			if e.dependency == dependency {
				return e
			}
		}
	}
	return nil
}

// edgeFor returns the edge to a dependency, making it at first use.
func (o *Operation) edgeFor(dependency string) *Edge {
	if e := o.edge(dependency); e != nil {
		return e
	}
	t := o.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := o.edge(dependency); e != nil {
		return e
	}
	if t.edges >= MaxEdges {
		t.makeRoom()
	}
	e := &Edge{dependency: dependency, at: t.traffic.Load()}
	o.put(e)
	return e
}

// put adds an edge. The table's lock is held.
func (o *Operation) put(e *Edge) {
	var list []*Edge
	if old := o.edges.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = append(list, e)
	o.edges.Store(&list)
	o.table.edges++
}

// makeRoom removes the sixteenth of the edges that failed least recently. The table's lock is held.
func (t *Table) makeRoom() {
	type old struct {
		o  *Operation
		e  *Edge
		at int64
	}
	var all []old
	t.each(func(o *Operation) {
		if list := o.edges.Load(); list != nil {
			for _, e := range *list {
				e.mu.Lock()
				at := e.at
				if e.failed == 0 {
					at = -1
				}
				e.mu.Unlock()
				all = append(all, old{o, e, at})
			}
		}
	})
	slices.SortFunc(all, func(a, b old) int { return int(max(-1, min(1, a.at-b.at))) })
	for _, x := range all[:max(1, len(all)/16)] {
		list := slices.DeleteFunc(slices.Clone(*x.o.edges.Load()), func(e *Edge) bool { return e == x.e })
		x.o.edges.Store(&list)
		t.edges--
	}
}

func (t *Table) each(f func(*Operation)) {
	t.operations.Range(func(_, o any) bool {
		f(o.(*Operation))
		return true
	})
	f(t.other)
}

// Call is one dependency that a request called, and whether it failed for good.
type Call struct {
	Dependency string
	Failed     bool
	// Cause is what is exactly known: whether this failure failed the request. It counts in place of the coincidence.
	Cause, Exact bool
}

// Record learns from one request that ended now: whether it failed, and what it called, each dependency once.
func (o *Operation) Record(now time.Time, failed bool, calls []Call) {
	o.table.advance(now)
	clean := true
	for i := range calls {
		c := &calls[i]
		e := o.edgeFor(c.Dependency)
		e.requests.Add(1)
		switch {
		case c.Failed:
			clean = false
			both := failed
			if c.Exact {
				both = c.Cause
			}
			e.learn(both, o.table)
		case failed:
			e.alone.Add(1)
		}
	}
	if clean {
		o.learnOwn(failed)
	}
}

// ownWindow is how many clean requests count for the operation's own failure rate.
const ownWindow = 1 << 17

func (o *Operation) learnOwn(failed bool) {
	if failed {
		o.own.Add(1)
	}
	if n := o.clean.Add(1); n >= ownWindow && o.clean.CompareAndSwap(n, n/2) {
		o.own.Add(-o.own.Load() / 2)
	}
}

// advance counts traffic time: the time between requests, without the pauses.
func (t *Table) advance(at time.Time) {
	const step = int64(100 * time.Millisecond)
	now := int64(at.Sub(t.start))
	last := t.last.Load()
	if now-last < step || !t.last.CompareAndSwap(last, now) {
		return
	}
	t.traffic.Add(min(now-last, int64(busy)))
}

// learn counts one failure of the dependency.
func (e *Edge) learn(both bool, t *Table) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fade(t)
	if e.failed > window-1 {
		e.scale((window - 1) / e.failed)
	}
	e.failed++
	if both {
		e.both++
	}
}

// fade makes old failures count less by the traffic time since the last change, but not below those that are kept.
func (e *Edge) fade(t *Table) {
	now := t.traffic.Load()
	elapsed := now - e.at
	e.at = now
	if elapsed <= 0 || e.failed <= keep {
		return
	}
	left := e.failed * math.Exp2(-float64(elapsed)/float64(t.halfLife))
	e.scale(max(left, keep) / e.failed)
}

func (e *Edge) scale(by float64) {
	e.failed *= by
	e.both *= by
}

// Share is what an edge has shown: how much of the dependency's failures failed the operation, of how many.
type Share struct {
	Class  Class
	Share  float64 // 0 to 1; 0 while Failed is 0
	Failed float64 // weight of the failures that it is drawn from
}

// Look returns what the edge to a dependency has shown.
func (o *Operation) Look(dependency string) Share {
	e := o.edge(dependency)
	if e == nil {
		return Share{}
	}
	e.mu.Lock()
	both, failed := e.both, e.failed
	e.mu.Unlock()
	s := Share{Class: classify(both, failed), Failed: failed}
	if failed > 0 {
		s.Share = both / failed
	}
	return s
}

// Own returns the operation's own failure rate: of the requests in which no dependency failed, how many failed.
func (o *Operation) Own() (rate float64, requests int64) {
	requests = o.clean.Load()
	if requests <= 0 {
		return 0, 0
	}
	return float64(max(0, o.own.Load())) / float64(requests), requests
}
