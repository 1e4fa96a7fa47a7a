package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

const (
	columns = "\tns\tallocs\tB\tadded ns\tadded allocs\treal ns\tours/its: time\treal\tallocs\ttarget\tverdict\t"
	legend  = `ns, allocs, B: medians of whole operations, in processor time. real: what goroutines take together, waiting included; on a busy machine it says nothing.
added: beyond the bare operation, in rows that take it off; there the ratios are of what ours and the other add, else of the whole.
A missed target for allocations ends the command with status 1. A missed target for time is reported.
`
)

// print writes the results as one table, with a block for each row.
func print(w io.Writer, results []result) {
	var text bytes.Buffer
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, columns)
	for _, r := range results {
		for _, cells := range r.lines() {
			// Each line has all cells: a column ends where a line lacks it.
			fmt.Fprintln(t, strings.Join(append(cells, make([]string, width-len(cells))...), "\t")+"\t")
		}
	}
	t.Flush()
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	fmt.Fprint(w, "\n", legend)
}

// width is the number of columns.
var width = strings.Count(columns, "\t")

// lines returns the cells of a row's block.
func (res *result) lines() [][]string {
	own := res.own()
	list := [][]string{{res.name}, append(res.side("chainbudget", res.ours), "", "", "", own.text(), own.String())}
	for _, c := range res.peers {
		v := res.against(c)
		real := ""
		if res.waits() {
			real = ratio(c.real)
		}
		list = append(list, append(res.side(c.who, c.figures), ratio(c.time), real, ratio(c.allocs), v.text(), v.String()))
	}
	if res.bare != nil {
		list = append(list, res.side("bare", *res.bare)[:4])
	}
	return list
}

// side returns the cells that every side has.
func (res *result) side(who string, f figures) []string {
	cells := []string{"  " + who, whole(f.nanos), whole(f.allocs), whole(f.bytes), "", "", ""}
	if res.bare != nil {
		added := res.added(f)
		cells[4], cells[5] = whole(added.nanos), whole(added.allocs)
	}
	if res.waits() {
		cells[6] = whole(f.real)
	}
	return cells
}

func whole(v float64) string { return fmt.Sprintf("%.0f", math.Round(v)) }

func ratio(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}
