package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// textWidth is where running text is broken.
const textWidth = 100

// writeTables prints the numbers for people.
func (n *numbers) writeTables(w io.Writer) error {
	var b strings.Builder
	for i := range n.Chains {
		chainTable(&b, &n.Chains[i])
	}
	if n.Incident != nil {
		incidentTable(&b, n.Incident)
		b.WriteString(wrap(n.Incident.About()) + "\n")
	}
	for _, warning := range n.Warnings {
		b.WriteString(wrap("Warning: "+warning) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes rows with their first column to the left and all others to the right.
func table(b *strings.Builder, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("  " + cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteByte('\n')
	}
}

func chainTable(b *strings.Builder, r *chain.Result) {
	fmt.Fprintf(b, "\n%s: requests per service for each request of a user\n", r.Title)
	head := []string{""}
	for _, node := range r.Nodes {
		if node == r.Failing {
			node += "!"
		}
		head = append(head, node)
	}
	rows := [][]string{append(head, "counted")}
	for i := range r.Counts {
		c := &r.Counts[i]
		row := []string{c.Policy}
		for node := range c.Requests {
			row = append(row, chain.Short(c.PerRoot(node)))
		}
		rows = append(rows, append(row, fmt.Sprintf("%d for %d", c.Total, c.Roots)))
	}
	table(b, rows)
}

func incidentTable(b *strings.Builder, r *incident.Result) {
	fmt.Fprintf(b, "\nGrab and Go: %d payments a second for %.1f s, fault from %.1f to %.1f s\n", r.Rate, r.Seconds, r.FaultFrom, r.FaultTo)
	rows := [][]string{{"", "before", "after"}}
	for _, row := range r.Rows() {
		rows = append(rows, []string{row.What, row.Before, row.After})
	}
	table(b, rows)
	b.WriteByte('\n')
	for _, target := range r.Targets {
		mark := "met   "
		if !target.Met {
			mark = "MISSED"
		}
		fmt.Fprintf(b, "  %s  %s: %s (wanted: %s)\n", mark, target.What, target.Got, target.Want)
	}
	b.WriteByte('\n')
}

// wrap breaks running text into lines.
func wrap(text string) string {
	var b strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case width == 0:
		case width+1+n > textWidth:
			b.WriteByte('\n')
			width = 0
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}
