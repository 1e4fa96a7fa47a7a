package tables

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// A table collects the rows of one published table. A row that misses fails the test, and so does a table without a verdict.
type table struct {
	t      *testing.T
	number string // T2, T2b, T3a
	title  string
	draws  string // from which seeds, and how much; empty = everything is counted, and nothing drawn
	loose  bool   // of the rows that follow
	rows   []row
}

// A row is what was published, expected and measured of one thing.
type row struct {
	what, paper, expected, measured, tolerance string
	verdict                                    verdict
	// loose says that the order in which goroutines run at one moment, or the machine's own time, has a part in what was
	// measured, so that it is not the same in every run.
	loose bool
}

type verdict string

const (
	held     verdict = "ok"
	missed   verdict = "MISS"
	reported verdict = "report"  // measured where the paper's figure is known not to hold, or where it has none
	computed verdict = "formula" // too large to be counted
)

// newTable begins the table of a number. draws says from which seeds its numbers are drawn; empty = nothing is.
func newTable(t *testing.T, number, title, draws string) *table {
	tab := &table{t: t, number: number, title: title, draws: draws}
	ran.add(tab)
	return tab
}

func (tab *table) name() string { return tab.number + ": " + tab.title }

// put adds a row as it is.
func (tab *table) put(r row) {
	tab.t.Helper()
	r.loose = tab.loose
	for _, other := range tab.rows {
		if other.what == r.what {
			tab.t.Errorf("%s: there are two rows %q", tab.number, r.what)
		}
	}
	tab.rows = append(tab.rows, r)
}

func (tab *table) add(what, paper, expected, measured, tolerance string, ok bool) {
	tab.t.Helper()
	v := held
	if !ok {
		v = missed
		tab.t.Errorf("%s: %s: measured %s, expected %s (tolerance %s), the paper has %s", tab.name(), what, measured, expected, tolerance, paper)
	}
	tab.put(row{what: what, paper: paper, expected: expected, measured: measured, tolerance: tolerance, verdict: v})
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
		tab.t.Errorf("%s: %s: the paper has %s, the formula %s", tab.name(), what, paper, share(expected))
	}
	tab.near(what, paper, expected, measured, chance(expected, n))
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

// below is a row whose number has an upper bound.
func (tab *table) below(what, paper string, bound, measured float64) {
	tab.t.Helper()
	tab.add(what, paper, "≤ "+share(bound), share(measured), "none", measured <= bound+1e-9)
}

// between is a row whose number has two bounds.
func (tab *table) between(what, paper string, low, up, measured int) {
	tab.t.Helper()
	tab.add(what, paper, fmt.Sprintf("%d to %d", low, up), strconv.Itoa(measured), "none", low <= measured && measured <= up)
}

// atMost is a row whose count has an upper bound.
func (tab *table) atMost(what, paper string, bound, measured int) {
	tab.t.Helper()
	tab.add(what, paper, "≤ "+strconv.Itoa(bound), strconv.Itoa(measured), "none", measured <= bound)
}

// report is a row without a verdict: what was measured where the paper's figure is known not to hold.
func (tab *table) report(what, paper string, measured float64) {
	tab.t.Helper()
	tab.put(row{what: what, paper: paper, measured: share(measured), verdict: reported})
}

// formula is a row that nobody can count.
func (tab *table) formula(what, paper, value string) {
	tab.t.Helper()
	tab.put(row{what: what, paper: paper, expected: value, verdict: computed})
}

// print logs the table, unless the report at the end shows it. It is deferred, so that a run that stops half way shows how
// far it came.
func (tab *table) print() {
	tab.t.Helper()
	if verdicts, _ := tab.verdicts(); verdicts == 0 {
		tab.t.Errorf("%s: no row has a verdict", tab.name())
	}
	if !*report {
		tab.t.Log("\n" + tab.markdown())
	}
}

// verdicts counts the rows that could miss, and those that did.
func (tab *table) verdicts() (all, misses int) {
	for _, r := range tab.rows {
		switch r.verdict {
		case held:
			all++
		case missed:
			all++
			misses++
		}
	}
	return all, misses
}

// heading are the columns of every table.
var heading = []string{"", "paper", "expected", "measured", "tolerance", "verdict"}

// cells are a row as it is printed.
func (r row) cells() []string {
	measured := r.measured
	if r.loose {
		measured = loosely + measured
	}
	return []string{r.what, r.paper, r.expected, measured, r.tolerance, string(r.verdict)}
}

// loosely stands before what is not the same in every run.
const loosely = "≈ "

// markdown is the table as it stands in docs/tables.md. Its columns are lined up, so that it can be read as it is.
func (tab *table) markdown() string {
	lines := [][]string{heading}
	for _, r := range tab.rows {
		lines = append(lines, r.cells())
	}
	width := make([]int, len(heading))
	for _, cells := range lines {
		for i, cell := range cells {
			width[i] = max(width[i], len([]rune(cell)), len("---"))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", tab.name())
	if tab.draws != "" {
		fmt.Fprintf(&b, "Drawn: %s.\n\n", tab.draws)
	}
	for n, cells := range lines {
		for i, cell := range cells {
			fmt.Fprintf(&b, "| %-*s ", width[i], cell)
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, w := range width {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// share prints a number to six places, without the zeros at its end.
func share(v float64) string {
	text := strings.TrimRight(strconv.FormatFloat(v, 'f', 6, 64), "0")
	return strings.TrimSuffix(text, ".")
}

func join(n []int) string {
	words := make([]string, len(n))
	for i, v := range n {
		words[i] = strconv.Itoa(v)
	}
	return strings.Join(words, ",")
}
