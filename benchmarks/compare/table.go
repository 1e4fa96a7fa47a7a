package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

const (
	columns = "path\tours ns\tpeer ns\tratio\ttarget\tallocs\ttarget\tB\tpeer's allocs\tpeer\tverdict\t"
	legend  = `ns: medians of whole operations, in processor time except for goroutines. ratio: of what each adds to the bare operation, where a row has one, else of the whole.
allocs, B: what ours adds likewise. A missed target for allocations fails the run; a missed one for time is reported.
`
)

// print writes the results as one table.
func print(w io.Writer, results []result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, columns)
	for _, r := range results {
		fmt.Fprintln(t, strings.Join(r.cells(), "\t")+"\t")
	}
	t.Flush()
	fmt.Fprint(w, "\n", legend)
}

func (res *result) cells() []string {
	cells := []string{res.name, nanos(res.ours), "-", "-", "-", whole(res.oursAllocs), "-", whole(res.oursBytes), "-", "-", res.verdict()}
	if res.peer > 0 {
		cells[2], cells[3] = nanos(res.peer), fmt.Sprintf("%.2f", res.ratioIs)
		cells[8], cells[9] = whole(res.peerAllocs), res.row.peer
	}
	switch {
	case res.ratio > 0:
		cells[4] = fmt.Sprintf("<= %.2f", res.ratio)
	case res.nanos > 0:
		cells[4] = fmt.Sprintf("<= %.0f ns", res.nanos)
	}
	var targets []string
	if res.allocs != none {
		targets = append(targets, fmt.Sprintf("<= %d", res.allocs))
	}
	if res.share > 0 {
		targets = append(targets, fmt.Sprintf("<= %.2f x", res.share))
	}
	if res.bytes > 0 {
		targets = append(targets, fmt.Sprintf("<= +%.0f B", res.bytes))
	}
	if len(targets) > 0 {
		cells[6] = strings.Join(targets, ", ")
	}
	return cells
}

func (res *result) verdict() string {
	switch {
	case res.allocsMissed:
		return "FAIL: allocations"
	case res.timeMissed:
		return "slower than the target"
	case res.ratio == 0 && res.nanos == 0 && res.allocs == none:
		return "no target"
	default:
		return "ok"
	}
}

func nanos(v float64) string { return fmt.Sprintf("%.0f", v) }

func whole(v float64) string { return fmt.Sprintf("%.0f", math.Round(v)) }
