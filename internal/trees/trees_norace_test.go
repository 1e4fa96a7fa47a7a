//go:build !race

package trees

import (
	"flag"
	"testing"
)

var full = flag.Bool("full", false, "run 100,000 trees in virtual time and 2,000 over loopback (make trees), and not a quarter of them")

// sampled returns how many of n trees a run without the race detector has.
func sampled(n int) int {
	if *full {
		return n
	}
	return n / 4
}

// TestI1_RandomTrees_NoRace is [TestI1_RandomTrees] with more trees.
func TestI1_RandomTrees_NoRace(t *testing.T) {
	trees := sampled(100_000)
	virtualTrees(t, trees, 4).demand(t, trees, 15)
}

// TestI1_LoopbackTrees_NoRace is [TestI1_LoopbackTrees] with more trees.
func TestI1_LoopbackTrees_NoRace(t *testing.T) {
	trees := sampled(2_000)
	loopbackTrees(t, trees, 24, 5).demand(t, trees, 15)
}
