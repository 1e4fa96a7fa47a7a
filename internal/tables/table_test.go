package tables

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// A table collects the rows of one published table. A row that misses fails the test; print shows all of them.
type table struct {
	t    *testing.T
	name string
	rows [][]string
}

func newTable(t *testing.T, name string) *table {
	return &table{t: t, name: name, rows: [][]string{{"", "paper", "expected", "measured", "tolerance", "verdict"}}}
}

func (tab *table) add(what, paper, expected, measured, tolerance string, ok bool) {
	tab.t.Helper()
	verdict := "ok"
	if !ok {
		verdict = "MISS"
		tab.t.Errorf("%s: %s: measured %s, expected %s (tolerance %s), the paper has %s", tab.name, what, measured, expected, tolerance, paper)
	}
	tab.rows = append(tab.rows, []string{what, paper, expected, measured, tolerance, verdict})
}

// count is a row whose numbers are counts: nothing but the expected ones will do.
func (tab *table) count(what, paper string, expected, measured []int) {
	tab.t.Helper()
	want, got := join(expected), join(measured)
	tab.add(what, paper, want, got, "exact", want == got)
}

// drawn is a row whose share was measured with n draws: it may be off from the expected one, which is exact, by chance. The
// paper's figure may be off from the exact one by rounding.
func (tab *table) drawn(what, paper string, rounding, expected, measured float64, n int) {
	tab.t.Helper()
	if printed, err := strconv.ParseFloat(paper, 64); err != nil || math.Abs(printed-expected) > rounding {
		tab.t.Errorf("%s: %s: the paper has %s, the formula %s", tab.name, what, paper, share(expected))
	}
	tolerance := chance(expected, n)
	tab.add(what, paper, share(expected), share(measured), "±"+share(tolerance), math.Abs(expected-measured) <= tolerance)
}

// near is a row whose number may be off by a stated tolerance.
func (tab *table) near(what, paper string, expected, measured, tolerance float64) {
	tab.t.Helper()
	tab.add(what, paper, share(expected), share(measured), "±"+share(tolerance), math.Abs(expected-measured) <= tolerance)
}

// atLeast is a row whose share has a lower bound. The tolerance is none: the bound was set with room for chance.
func (tab *table) atLeast(what, paper string, bound, measured float64) {
	tab.t.Helper()
	tab.add(what, paper, "≥ "+share(bound), share(measured), "none", measured >= bound)
}

// between is a row whose number has two bounds.
func (tab *table) between(what, paper string, low, up, measured int) {
	tab.t.Helper()
	tab.add(what, paper, fmt.Sprintf("%d to %d", low, up), strconv.Itoa(measured), "none", low <= measured && measured <= up)
}

// atMost is a row whose number has an upper bound.
func (tab *table) atMost(what, paper string, bound, measured int) {
	tab.t.Helper()
	tab.add(what, paper, "≤ "+strconv.Itoa(bound), strconv.Itoa(measured), "none", measured <= bound)
}

// report is a row without a verdict: what was measured where the paper's figure is known not to hold.
func (tab *table) report(what, paper string, measured float64) {
	tab.rows = append(tab.rows, []string{what, paper, "", share(measured), "", "report"})
}

// print logs the table. It is deferred, so that a run that stops half way shows how far it came.
func (tab *table) print() {
	width := make([]int, len(tab.rows[0]))
	for _, row := range tab.rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	b.WriteString(tab.name)
	for _, row := range tab.rows {
		b.WriteString("\n ")
		for i, cell := range row {
			if i > 0 {
				b.WriteString(" |")
			}
			fmt.Fprintf(&b, " %-*s", width[i], cell)
		}
	}
	tab.t.Log(b.String())
}

func share(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }

func join(n []int) string {
	words := make([]string, len(n))
	for i, v := range n {
		words[i] = strconv.Itoa(v)
	}
	return strings.Join(words, ",")
}
