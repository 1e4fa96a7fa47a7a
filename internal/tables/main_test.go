package tables

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// The samples make much garbage around a live heap of a few megabytes. With the usual setting a third of the time would
// be spent on collecting it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	flag.Parse()
	os.Exit(m.Run())
}

var full = flag.Bool("full", false, "draw samples of the size that the published tables ask for (make tables), and not a fifth of it")

// sampled returns how many of n draws a run makes. Tolerances follow from what is really drawn.
func sampled(n int) int {
	if *full {
		return n
	}
	return n / 5
}
