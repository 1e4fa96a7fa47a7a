//go:build !race

package trees

import "testing"

// TestI1_RandomTrees_NoRace is [TestI1_RandomTrees] with ten times the trees.
func TestI1_RandomTrees_NoRace(t *testing.T) {
	const trees = 100_000
	virtualTrees(t, trees, 4).demand(t, trees, 15)
}

// TestI1_LoopbackTrees_NoRace is [TestI1_LoopbackTrees] with ten times the trees.
func TestI1_LoopbackTrees_NoRace(t *testing.T) {
	const trees = 2_000
	loopbackTrees(t, trees, 24, 5).demand(t, trees, 15)
}
