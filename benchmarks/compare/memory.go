package main

import (
	"fmt"
	"io"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

// requests is how many go out, each to a host and path of its own.
const requests = 100_000

// The rows about memory, for -run.
const (
	growthID        = "memory/growth"
	perDependencyID = "memory/per_dependency"
)

// growth prints by how many bytes the heap grows over requests, and reports whether that is within its target.
func growth(w io.Writer) (ok bool, err error) {
	op, end := subject.Spread()
	defer end()
	grown, err := subject.Growth(op, requests)
	if err != nil {
		return false, err
	}
	verdict := "ok"
	if grown > subject.GrowthLimit {
		verdict = "MISS"
	}
	fmt.Fprintf(w, "memory: %d requests to as many hosts and paths, one dependency: heap %+d B, target <= %d B: %s\n",
		requests, grown, subject.GrowthLimit, verdict)
	return grown <= subject.GrowthLimit, nil
}

// perDependency prints what one of many dependencies holds.
func perDependency(w io.Writer) error {
	fmt.Fprintf(w, "memory of each of %d dependencies, beyond a bare transport's:\n", subject.Many)
	const path = "transport/10000_dependencies"
	bare, err := subject.PerDependency(path, subject.Bare, processor)
	if err != nil {
		return err
	}
	for _, who := range []string{subject.SDK, subject.Failsafe, subject.ByHand} {
		held, err := subject.PerDependency(path, who, processor)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  %-18s %5.0f B when made, %5.0f B after 1 request, %5.0f B after 20; made in %.1f µs\n", who,
			held.Made-bare.Made, held.One-bare.One, held.Twenty-bare.Twenty, float64(held.Making)/1e3)
	}
	return nil
}
