package tables

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// numbers are those of all published tables, in the order of the report. A report without one of them fails.
var numbers = []string{
	"T1", "T1b", "T2", "T2b", "T3a", "T3b", "T3c", "T3d", "T4", "T5", "T6", "T7", "T8", "T9", "T10", "T11", "T12", "T13", "T14", "T15", "T16",
	"T17", "T18", "T19", "T20", "T21", "T22", "T23", "T24", "T25", "T26",
}

// recordFile has the report of a full run.
const recordFile = "../../docs/tables.md"

// A run is the tables of this process.
type run struct {
	mu     sync.Mutex
	tables []*table
}

var ran run

func (r *run) add(tab *table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tables = append(r.tables, tab)
}

// sorted returns the tables in the order of their numbers.
func (r *run) sorted() []*table {
	list := slices.Clone(r.tables)
	slices.SortStableFunc(list, func(a, b *table) int { return slices.Index(numbers, a.number) - slices.Index(numbers, b.number) })
	return list
}

// conclude prints the report of the run, and lists what is wrong with it: misses, tables that are missing, and what the
// recorded report has otherwise. With -update it records the run, if the tests passed and nothing else is wrong.
func (r *run) conclude(w io.Writer, passed bool) error {
	text := r.markdown()
	fmt.Fprintf(w, "\n%s\n", text)
	wrong := r.problems()
	switch {
	case *update && !*full:
		wrong = append(wrong, "only a full run is recorded: add -full")
	case *update && !passed:
		wrong = append(wrong, "nothing is recorded, because a test failed")
	case *update && len(wrong) == 0:
		return recordRun(text)
	}
	if !*update {
		recorded, err := os.ReadFile(recordFile)
		if err != nil {
			return err
		}
		wrong = append(wrong, r.differences(parseRecord(string(recorded)))...)
	}
	if len(wrong) > 0 {
		return errors.New("tables: " + strings.Join(wrong, "\ntables: "))
	}
	return nil
}

// problems lists what no report may have.
func (r *run) problems() (list []string) {
	has := map[string]bool{}
	for _, tab := range r.sorted() {
		all, misses := tab.verdicts()
		switch {
		case !slices.Contains(numbers, tab.number):
			list = append(list, fmt.Sprintf("%s is no number of a published table", tab.number))
		case all == 0:
			list = append(list, tab.number+" has no row with a verdict: "+tab.title)
		case misses > 0:
			list = append(list, fmt.Sprintf("%s: %d of %d rows miss: %s", tab.number, misses, all, tab.title))
		}
		has[tab.number] = has[tab.number] || all > 0
		for _, row := range tab.rows {
			key := tab.number + ": " + row.what
			if has[key] {
				list = append(list, "there are two rows "+key)
			}
			has[key] = true
		}
	}
	for _, n := range numbers {
		if !has[n] {
			list = append(list, n+" is not in the report: its test did not run")
		}
	}
	return list
}

// differences compares the run with the recorded one. Every row of a table that ran must be there, and no other; a full run must
// have measured the same, but for what varies.
func (r *run) differences(recorded map[string][]string) (list []string) {
	const remedy = "; find out why, or record it with make tables UPDATE=1"
	if recorded == nil {
		return []string{"docs/tables.md has no rows" + remedy}
	}
	seen := map[string]bool{}
	for _, tab := range r.sorted() {
		seen[tab.number] = true
		for _, row := range tab.rows {
			key, now := tab.number+": "+row.what, row.cells()
			seen[key] = true
			was, ok := recorded[key]
			switch {
			case !ok:
				list = append(list, fmt.Sprintf("docs/tables.md has no row %q%s", key, remedy))
			case was[0] != now[1]:
				list = append(list, fmt.Sprintf("docs/tables.md has another figure of the paper in row %q: %q, not %q%s", key, was[0], now[1], remedy))
			case *full && !row.loose && !slices.Equal(was, now[1:]):
				list = append(list, fmt.Sprintf("row %q was %s, and is %s%s", key, strings.Join(was, " | "), strings.Join(now[1:], " | "), remedy))
			}
		}
	}
	for key := range recorded {
		if number, _, _ := strings.Cut(key, ":"); seen[number] && !seen[key] {
			list = append(list, fmt.Sprintf("row %q of docs/tables.md is not in this run%s", key, remedy))
		}
	}
	slices.Sort(list)
	return list
}

const preface = `# The published tables, counted

This page is written by ` + "`make tables UPDATE=1`" + `. Each table is one that another system, a book or a paper has published about retries
in call chains, or one that this SDK promises for itself. Every figure under *measured* was counted: the SDK's own transport and handler
ran, or, for another system's policy, one built for comparison. ` + "`make tables`" + ` runs all of them, and fails on a miss, on a table that is
missing, and on a figure that is not the one here. ` + "`make tables SIZE=short`" + ` draws a fifth of the largest samples, and is part of ` + "`make test`" + `.

Draws have fixed seeds, so that every run gives the same figures. The exceptions stand behind ≈: the order in which goroutines run at one
moment of virtual time, or the time that a machine takes, has a part in them, and they vary within their tolerance. *report* is a figure
without a verdict: what was measured where nothing was published, or where the published figure is known not to hold. *formula* is one too
large to be counted. Attempts include the first one, retries never do. Where a table is about one mechanism, all other gates are off.
`

// markdown is the whole report.
func (r *run) markdown() string {
	var b strings.Builder
	b.WriteString(preface)
	var verdicts, misses, others int
	var draws []string
	tables := r.sorted()
	for _, tab := range tables {
		b.WriteString("\n" + tab.markdown())
		all, missed := tab.verdicts()
		verdicts, misses, others = verdicts+all, misses+missed, others+len(tab.rows)-all
		if tab.draws != "" {
			draws = append(draws, fmt.Sprintf("- %s: %s\n", tab.number, tab.draws))
		}
	}
	size := "a fifth of the largest samples"
	if *full {
		size = "full samples"
	}
	fmt.Fprintf(&b, "\n## In all\n\n%d tables of %d numbers, with %s. %d rows with a verdict, %d misses; %d rows without. Drawn were:\n\n%s",
		len(tables), len(numbers), size, verdicts, misses, others, strings.Join(draws, ""))
	return b.String()
}

// parseRecord returns the cells after the first one of each row of a report, by the table's number and the first cell.
func parseRecord(text string) map[string][]string {
	rows := map[string][]string{}
	number := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			number, _, _ = strings.Cut(title, ": ")
			continue
		}
		inner, ok := strings.CutPrefix(line, "| ")
		if !ok {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(inner, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == len(heading) && cells[0] != "" {
			rows[number+": "+cells[0]] = cells[1:]
		}
	}
	return rows
}
