package profiles

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of an error, whatever the file holds.
const (
	maxProblems = 50  // listed; the rest is counted
	maxText     = 400 // bytes of each text of a problem
	maxQuote    = 48  // bytes of a value that is shown
)

// A Problem is one thing wrong in a catalog, with the place and the remedy.
type Problem struct {
	File         string // as given to the loader; "" = made in code
	Line, Column int    // from 1; 0 = no place
	Path         string // of the value, such as profiles.payments-write.retry.max_attempts
	What         string // is wrong
	Fix          string // how to mend it
}

// String returns "file:line:column: path: what; fix" without the parts that are empty.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		b.WriteByte(':')
	}
	if p.Line > 0 {
		b.WriteString(strconv.Itoa(p.Line))
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(p.Column))
		b.WriteByte(':')
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.What)
	if p.Fix != "" {
		b.WriteString("; ")
		b.WriteString(p.Fix)
	}
	return b.String()
}

// A CatalogError lists what is wrong with a catalog or a profile, in the order of the files and their lines: the first 50 problems, and
// how many more there are. Its text is bounded.
type CatalogError struct {
	Name     string    // of the catalog or profile
	Problems []Problem // at least one, at most 50
	More     int       // problems beyond those
}

// Error returns one line that counts, and one line for each problem.
func (e *CatalogError) Error() string {
	var b strings.Builder
	b.WriteString("chainbudget: ")
	b.WriteString(e.Name)
	b.WriteString(": ")
	b.WriteString(strconv.Itoa(len(e.Problems) + e.More))
	b.WriteString(" problem")
	if len(e.Problems)+e.More != 1 {
		b.WriteByte('s')
	}
	for _, p := range e.Problems {
		b.WriteByte('\n')
		b.WriteString(p.String())
	}
	if e.More > 0 {
		b.WriteString("\nand ")
		b.WriteString(strconv.Itoa(e.More))
		b.WriteString(" more")
	}
	return b.String()
}

// problemList collects problems. It keeps only what an error shows: a hostile file costs no more than its own size.
type problemList struct {
	kept  []Problem
	total int
}

func (l *problemList) add(p Problem) {
	l.total++
	if l.full() {
		return
	}
	p.Path, p.What, p.Fix = clip(p.Path, maxText), clip(p.What, maxText), clip(p.Fix, maxText)
	l.kept = append(l.kept, p)
}

// full reports whether further problems are only counted. The file is not read strictly from top to bottom, so more are
// kept than shown, and the topmost are shown.
func (l *problemList) full() bool { return len(l.kept) >= 4*maxProblems }

// err returns nil if there is no problem. The result is sorted by place.
func (l *problemList) err(name string) error {
	if l.total == 0 {
		return nil
	}
	kept := l.sorted(maxProblems)
	return &CatalogError{Name: clip(name, maxText), Problems: kept, More: l.total - len(kept)}
}

// sorted returns the first problems by place, most at most.
func (l *problemList) sorted(most int) []Problem {
	slices.SortStableFunc(l.kept, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	return slices.Clone(l.kept[:min(len(l.kept), most)])
}

// clip bounds s without splitting a rune, and keeps it on one line.
func clip(s string, limit int) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
		s = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '?'
			}
			return r
		}, strings.ToValidUTF8(s, "?"))
	}
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

func quote(s string) string { return strconv.Quote(clip(s, maxQuote)) }

// listNames joins names for an error: "a, b, c", bounded.
func listNames[S ~string](names []S) string {
	const most = 20
	var b strings.Builder
	for i, n := range names {
		if i == most {
			b.WriteString(" and ")
			b.WriteString(strconv.Itoa(len(names) - most))
			b.WriteString(" more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clip(string(n), maxQuote))
	}
	return b.String()
}
