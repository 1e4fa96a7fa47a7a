package main

import "github.com/chainbudget/chainbudget-go/benchmarks/subject"

// requests is how many go out, each to a host and path of its own.
const requests = 100_000

// growth returns by how many bytes the heap grows meanwhile.
func growth() (int64, error) {
	op, end := subject.Spread()
	defer end()
	return subject.Growth(op, requests)
}
