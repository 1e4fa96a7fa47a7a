package main

import (
	"math"
	"time"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

// row is one promise about cost.
type row struct {
	name string
	path string // of the subjects
	peer string // "" = none: the target is in nanoseconds
	// over takes off what the bare operation costs, so that only what the libraries add is compared.
	over    bool
	workers int     // goroutines; 0 = 1
	ratio   float64 // target for time, 0 = none
	nanos   float64 // target for time in nanoseconds, 0 = none
	allocs  int     // target for allocations of ours, over bare if over is set; -1 = none
	share   float64 // target for allocations as a share of the peer's, 0 = none
	bytes   float64 // target for bytes of ours beyond the peer's, 0 = none
}

// none is a row without a target for the number of allocations.
const none = -1

var rows = []row{
	{name: "transport, first attempt", path: "transport/first_attempt", peer: subject.Failsafe, over: true,
		ratio: 0.6, allocs: 5, share: 0.25},
	{name: "  below it a base that asks for Done", path: "transport/first_attempt/done_asked", peer: subject.Failsafe, over: true,
		allocs: none},
	{name: "  with an attempt timeout", path: "transport/first_attempt/timeout", peer: subject.Failsafe, over: true,
		ratio: 0.5, allocs: 10},
	{name: "  with metrics, against without", path: "transport/first_attempt/metrics", peer: subject.NoMetrics, over: true,
		ratio: 1.1, allocs: 5, share: 1},
	{name: "client and handler, a full hop", path: "full_hop", peer: subject.OTelHTTP, over: true,
		ratio: 0.12, allocs: none},
	{name: "  with foreign baggage and timeouts", path: "full_hop/foreign_baggage", peer: subject.OTelHTTP, over: true,
		ratio: 0.25, allocs: none, share: 0.25},
	{name: "Do around a function", path: "do", peer: subject.ByHand, ratio: 0.75, allocs: 1},
	{name: "refusal, breaker open", path: "refusal/breaker_open", nanos: 150, allocs: 0},
	{name: "  of a transport", path: "refusal/breaker_open/transport", nanos: 150, allocs: 0},
	{name: "refusal, budget empty", path: "refusal/budget_empty", nanos: 150, allocs: 0},
	{name: "  with the error to wrap", path: "refusal/budget_empty/with_error", nanos: 150, allocs: 1},
	{name: "the decision itself", path: "decision/allowed", allocs: 0},
	{name: "1 MiB replayable PUT", path: "transport/put_1mib", peer: subject.Bare, ratio: 1.1, allocs: none, bytes: 4 << 10},
	{name: "16 goroutines, one dependency", path: "transport/first_attempt", peer: subject.Failsafe, workers: 16,
		ratio: 0.8, allocs: none},
	{name: "  against no breaker", path: "transport/first_attempt", peer: subject.NoBreaker, workers: 16,
		ratio: 1.15, allocs: none},
	{name: "gRPC client, first attempt", path: "grpc/first_attempt", peer: subject.Failsafe, allocs: none},
	{name: "  against a retry interceptor", path: "grpc/first_attempt", peer: subject.Middleware, allocs: none},
	{name: "  against no library", path: "grpc/first_attempt", peer: subject.Bare, allocs: none},
	{name: "gRPC client and server, a full hop", path: "grpc/full_hop", peer: subject.Bare, allocs: none},
	{name: "connect client, first attempt", path: "connect/first_attempt", peer: subject.Bare, allocs: none},
	{name: "  against backoff and gobreaker by hand", path: "connect/first_attempt", peer: subject.ByHand, allocs: none},
	{name: "connect client and handler, a full hop", path: "connect/full_hop", peer: subject.Bare, allocs: none},
	{name: "connect v2 client, first attempt", path: "connect2/first_attempt", peer: subject.Bare, allocs: none},
	{name: "  against backoff and gobreaker by hand", path: "connect2/first_attempt", peer: subject.ByHand, allocs: none},
	{name: "connect v2 client and server, a full hop", path: "connect2/full_hop", peer: subject.Bare, allocs: none},
}

// result is what a row came to.
type result struct {
	row
	ours, peer, bare         float64 // nanoseconds, medians
	ratioIs                  float64
	oursAllocs, peerAllocs   float64 // over bare, if the row is
	oursBytes, peerBytes     float64
	timeMissed, allocsMissed bool
}

// measure runs one row.
func (r row) measure(rounds int, round time.Duration) (result, error) {
	res := result{row: r}
	ours, err := open(r.path, subject.SDK, max(r.workers, 1))
	if err != nil {
		return res, err
	}
	defer ours.run.Close()
	sides := []*side{ours}
	var peer, bare *side
	if r.peer != "" {
		if peer, err = open(r.path, r.peer, max(r.workers, 1)); err != nil {
			return res, err
		}
		defer peer.run.Close()
		sides = append(sides, peer)
	}
	if r.over {
		if bare, err = open(r.path, subject.Bare, 1); err != nil {
			return res, err
		}
		defer bare.run.Close()
		sides = append(sides, bare)
	}
	if err := interleave(sides, rounds, round); err != nil {
		return res, err
	}
	if err := res.memory(ours, peer, bare); err != nil {
		return res, err
	}
	res.ours = median(ours.rounds)
	if bare != nil {
		res.bare = median(bare.rounds)
	}
	if peer != nil {
		res.peer = median(peer.rounds)
		res.ratioIs = median(ratios(ours, peer, bare))
	}
	res.judge()
	return res, nil
}

// memoryRuns is how many operations are averaged. What is made once in a while, such as the block of a breaker's next
// tenth of a window, then is a small part of one allocation.
const memoryRuns = 2000

// memory measures allocations and bytes, over bare if there is one.
func (res *result) memory(ours, peer, bare *side) error {
	var baseAllocs, baseBytes float64
	var err error
	if bare != nil {
		if baseAllocs, baseBytes, err = subject.Memory(bare.workers[0], memoryRuns); err != nil {
			return err
		}
	}
	if res.oursAllocs, res.oursBytes, err = subject.Memory(ours.workers[0], memoryRuns); err != nil {
		return err
	}
	if peer != nil {
		if res.peerAllocs, res.peerBytes, err = subject.Memory(peer.workers[0], memoryRuns); err != nil {
			return err
		}
		res.peerAllocs, res.peerBytes = res.peerAllocs-baseAllocs, res.peerBytes-baseBytes
	}
	res.oursAllocs, res.oursBytes = res.oursAllocs-baseAllocs, res.oursBytes-baseBytes
	return nil
}

// judge compares with the targets. Allocations are whole: what is beyond is noise of the runtime.
func (res *result) judge() {
	res.timeMissed = res.ratio > 0 && res.ratioIs > res.ratio || res.nanos > 0 && res.ours > res.nanos
	res.allocsMissed = res.allocs != none && math.Round(res.oursAllocs) > float64(res.allocs) ||
		res.share > 0 && math.Round(res.oursAllocs) > res.share*math.Round(res.peerAllocs) ||
		res.bytes > 0 && res.oursBytes > res.peerBytes+res.bytes
}
