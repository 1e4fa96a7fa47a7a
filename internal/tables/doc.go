// Package tables reproduces published tables about retries in call chains and fan-outs. Every number in them is counted,
// never computed from its formula alone: the SDK's own transport and handler run, or, for the policy of another system, a
// policy built here for comparison. Each table is one test, which prints what the paper says, what is expected, what was
// measured and how far the two may lie apart, and fails on a miss.
//
//	go test ./internal/tables -v -run 'TestT4_|TestT12|TestT26'
//	make tables SIZE=short
//	make tables
//
// The last two run every table and print one report, which fails where a number is missing, and which docs/tables.md has of the
// last full run. A test of its own prints its own table.
//
// Tables of exact counts run on real servers on the loopback interface, or where time matters in virtual time. Tables of
// probabilities are drawn with fixed seeds; they take too long under the race detector and are left out there.
// Without -full, which make tables sets, the largest samples are a fifth of what the published tables ask for. What the order of
// goroutines at one moment has a part in is marked as loose; the rest is the same in every run.
//
// Where a table is about one mechanism all other gates are off. Attempts include the first one, retries never do, and a
// chain of depth d has d edges: d = 1 is an entry that calls the leaf.
//
// The files without _test hold the policies for comparison and the formulas. They know nothing of the SDK.
package tables
