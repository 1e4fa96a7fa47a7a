package tables

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
)

var (
	full   = flag.Bool("full", false, "draw samples of the size that the published tables ask for (make tables), and not a fifth of it")
	report = flag.Bool("report", false, "print every table in one report when all tests have run, and fail when one is missing (make tables)")
	update = flag.Bool("update", false, "with -full -report: write the report to docs/tables.md, and its short form into README.md")
)

func TestMain(m *testing.M) {
	// The samples make much garbage around a live heap of a few megabytes. With the usual setting a third of the time would
	// be spent on collecting it.
	debug.SetGCPercent(1000)
	flag.Parse()
	code := m.Run()
	if *report {
		if err := ran.conclude(os.Stdout, code == 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// sampled returns how many of n draws a run makes. Tolerances follow from what is really drawn.
func sampled(n int) int {
	if *full {
		return n
	}
	return n / 5
}
