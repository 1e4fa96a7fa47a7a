// Package benchmarks compares what the SDK costs with what other libraries cost. It holds only tests: run
//
//	go test -bench . -benchmem
//	go run ./compare
//
// README.md says how to read the comparison, and what each side does.
//
// Nanoseconds drift with the machine, so the comparison reports ratios of one run; allocations do not, and are guarded by
// tests.
package benchmarks
