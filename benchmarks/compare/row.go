package main

import (
	"math"
	"strconv"
	"time"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

// row is one operation, done by the SDK and, in the same run, by everything that it is compared with.
type row struct {
	name string
	path string // of the subjects
	// over takes off what the bare operation costs, so that only what the libraries add is compared.
	over    bool
	workers int // goroutines; 0 = one
	peers   []peer

	// Targets of ours. allocs is over bare if over is set.
	nanos  float64 // 0 = none
	allocs int     // -1 = none
}

// peer is what ours is compared with, and what the comparison should come to.
type peer struct {
	who   string
	ratio float64 // target for time as a share of the peer's, 0 = none; for several goroutines it is real time
	share float64 // target for allocations as a share of the peer's, 0 = none
	bytes float64 // target for bytes of ours beyond the peer's, 0 = none
}

// none is a row without a target for the number of allocations.
const none = -1

// others are peers without a target.
func others(who ...string) []peer {
	peers := make([]peer, len(who))
	for i, w := range who {
		peers[i].who = w
	}
	return peers
}

// with puts peers with a target before those without.
func with(first peer, rest ...string) []peer { return append([]peer{first}, others(rest...)...) }

var rows = []row{
	{name: "transport, first attempt", path: "transport/first_attempt", over: true, allocs: 5,
		peers: with(peer{who: subject.Failsafe, ratio: 0.6, share: 0.25}, subject.ByHand, subject.RetryableHTTP, subject.OTelHTTP)},
	{name: "  below it a base that asks for Done", path: "transport/first_attempt/done_asked", over: true, allocs: none,
		peers: others(subject.Failsafe)},
	{name: "  with an attempt timeout", path: "transport/first_attempt/timeout", over: true, allocs: 10,
		peers: with(peer{who: subject.Failsafe, ratio: 0.5})},
	{name: "  with metrics", path: "transport/first_attempt/metrics", over: true, allocs: 5,
		peers: with(peer{who: subject.NoMetrics, ratio: 1.1, share: 1})},
	{name: "transport, one retry", path: "transport/one_retry", over: true, allocs: none,
		peers: others(subject.Failsafe, subject.ByHand, subject.RetryableHTTP)},
	{name: "transport, denied by an empty budget", path: "transport/denied", over: true, allocs: none,
		peers: others(subject.Failsafe, subject.ByHand, subject.RetryableHTTP)},
	{name: "transport, denied by the callee's word", path: "transport/denied/unclaimed", over: true, allocs: none,
		peers: others(subject.Failsafe, subject.ByHand, subject.RetryableHTTP)},
	{name: "a chain begun and ended, part of every row of retries and denials", path: "chain", allocs: none},
	{name: "transport, PUT of 1 MiB", path: "transport/put_1mib", allocs: none,
		peers: with(peer{who: subject.Bare, ratio: 1.1, bytes: 4 << 10}, subject.Failsafe, subject.ByHand, subject.RetryableHTTP, subject.OTelHTTP)},
	{name: "refusal, breaker open", path: "refusal/breaker_open", nanos: 150, allocs: 0,
		peers: others(subject.Failsafe, subject.GoBreaker)},
	{name: "  of a transport", path: "refusal/breaker_open/transport", nanos: 150, allocs: 0,
		peers: others(subject.Failsafe, subject.ByHand)},
	{name: "refusal, budget empty", path: "refusal/budget_empty", nanos: 150, allocs: 0},
	{name: "  with the error to wrap", path: "refusal/budget_empty/with_error", nanos: 150, allocs: 1},
	{name: "the decision itself", path: "decision/allowed", allocs: 0},
	{name: "handler", path: "handler", over: true, allocs: none,
		peers: others(subject.OTelHTTP, subject.Failsafe)},
	{name: "client and handler, a full hop", path: "full_hop", over: true, allocs: none,
		peers: with(peer{who: subject.OTelHTTP, ratio: 0.12}, subject.Failsafe)},
	{name: "  with foreign baggage and timeouts", path: "full_hop/foreign_baggage", over: true, allocs: none,
		peers: with(peer{who: subject.OTelHTTP, ratio: 0.25, share: 0.25}, subject.Failsafe)},
	{name: "function, first attempt", path: "do", allocs: 1,
		peers: with(peer{who: subject.ByHand, ratio: 0.75}, subject.Failsafe, subject.Bare)},
	{name: "function, one retry", path: "do/one_retry", over: true, allocs: none,
		peers: others(subject.ByHand, subject.Failsafe)},
	{name: "function, denied by an empty budget", path: "do/denied", over: true, allocs: none,
		peers: others(subject.ByHand, subject.Failsafe)},
	{name: "1 goroutine, 1 dependency", path: "transport/first_attempt", workers: 1, allocs: none, peers: parallel},
	{name: "2 goroutines, 1 dependency", path: "transport/first_attempt", workers: 2, allocs: none, peers: parallel},
	{name: "16 goroutines, 1 dependency", path: "transport/first_attempt", workers: 16, allocs: none,
		peers: append([]peer{{who: subject.Failsafe, ratio: 0.8}, {who: subject.NoBreaker, ratio: 1.15}}, others(subject.ByHand, subject.RetryableHTTP, subject.OTelHTTP, subject.Bare)...)},
	{name: "1 goroutine, 10,000 dependencies", path: "transport/10000_dependencies", workers: 1, allocs: none, peers: parallelMany},
	{name: "2 goroutines, 10,000 dependencies", path: "transport/10000_dependencies", workers: 2, allocs: none, peers: parallelMany},
	{name: "16 goroutines, 10,000 dependencies", path: "transport/10000_dependencies", workers: 16, allocs: none, peers: parallelMany},
	{name: "gRPC client, first attempt", path: "grpc/first_attempt", allocs: none,
		peers: others(subject.Failsafe, subject.Middleware, subject.Bare)},
	{name: "gRPC client, one retry", path: "grpc/one_retry", allocs: none,
		peers: others(subject.Failsafe, subject.Middleware, subject.Bare)},
	{name: "gRPC client, denied by an empty budget", path: "grpc/denied", allocs: none,
		peers: others(subject.Failsafe, subject.Middleware, subject.Bare)},
	{name: "gRPC client, breaker open", path: "grpc/breaker_open", allocs: none, peers: others(subject.Failsafe)},
	{name: "gRPC client and server, a full hop", path: "grpc/full_hop", allocs: none, peers: others(subject.Failsafe, subject.Bare)},
	{name: "connect client, first attempt", path: "connect/first_attempt", allocs: none, peers: others(subject.ByHand, subject.Bare)},
	{name: "connect client and handler, a full hop", path: "connect/full_hop", allocs: none, peers: others(subject.Bare)},
	{name: "connect v2 client, first attempt", path: "connect2/first_attempt", allocs: none, peers: others(subject.ByHand, subject.Bare)},
	{name: "connect v2 client and server, a full hop", path: "connect2/full_hop", allocs: none, peers: others(subject.Bare)},
}

var (
	parallel     = others(subject.Failsafe, subject.NoBreaker, subject.ByHand, subject.RetryableHTTP, subject.OTelHTTP, subject.Bare)
	parallelMany = others(subject.Failsafe, subject.ByHand, subject.Bare)
)

// waits reports whether the row is about goroutines that may wait for each other, which takes no processor: such rows have
// real time beside processor time.
func (r row) waits() bool { return r.workers > 1 }

// id names the row for -run.
func (r row) id() string {
	if r.workers == 0 {
		return r.path
	}
	return r.path + "/parallel_" + strconv.Itoa(r.workers)
}

// sides returns whom the row measures: ours, the peers, and bare where it is taken off.
func (r row) sides() []string {
	list := []string{subject.SDK}
	for _, p := range r.peers {
		list = append(list, p.who)
	}
	if r.over {
		list = append(list, subject.Bare)
	}
	return list
}

// result is what a row came to.
type result struct {
	row
	ours  figures
	peers []comparison
	bare  *figures // nil where nothing is taken off
}

// figures are those of one side: medians of whole operations. nanos is processor time.
type figures struct{ nanos, real, allocs, bytes float64 }

// comparison is ours against one peer. Ratios are of what each adds, if the row takes off the bare operation; NaN where the
// peer adds nothing.
type comparison struct {
	peer
	figures
	time, real, allocs float64
}

// measure runs one row.
func (r row) measure(rounds int, round time.Duration) (result, error) {
	res := result{row: r}
	var sides []*side
	defer func() {
		for _, d := range sides {
			d.run.Close()
		}
	}()
	for _, who := range r.sides() {
		d, err := open(r.path, who, r.workers)
		if err != nil {
			return res, err
		}
		sides = append(sides, d)
	}
	if err := interleave(sides, rounds, round); err != nil {
		return res, err
	}
	list := make([]figures, len(sides))
	for i, d := range sides {
		var err error
		if list[i], err = d.figures(); err != nil {
			return res, err
		}
	}
	res.ours = list[0]
	var bare []float64
	if r.over {
		bare, res.bare = sides[len(sides)-1].rounds, &list[len(list)-1]
	}
	for i, p := range r.peers {
		res.peers = append(res.peers, comparison{
			peer: p, figures: list[i+1],
			time:   median(ratios(sides[0].rounds, sides[i+1].rounds, bare)),
			real:   median(ratios(sides[0].reals, sides[i+1].reals, nil)),
			allocs: quotient(res.added(res.ours).allocs, res.added(list[i+1]).allocs),
		})
	}
	return res, nil
}

// added returns figures beyond those of the bare operation, if that is taken off. Allocations are whole: what is beyond is
// noise of the runtime.
func (res *result) added(f figures) figures {
	if res.bare != nil {
		f = figures{f.nanos - res.bare.nanos, f.real, math.Round(f.allocs) - math.Round(res.bare.allocs), f.bytes - res.bare.bytes}
	}
	f.allocs = math.Round(f.allocs)
	return f
}

func quotient(ours, peer float64) float64 {
	if peer <= 0 {
		return math.NaN()
	}
	return ours / peer
}

// memoryRuns is how many operations are averaged. What is made once in a while, such as the block of a breaker's next
// tenth of a window, then is a small part of one allocation.
const memoryRuns = 2000

func (d *side) figures() (figures, error) {
	f := figures{nanos: median(d.rounds), real: median(d.reals)}
	var err error
	f.allocs, f.bytes, err = subject.Memory(d.workers[0], memoryRuns)
	return f, err
}
