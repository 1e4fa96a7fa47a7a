package tables

import (
	"slices"
	"strings"
	"testing"
)

// whole is a run of every number, with one row each.
func whole() *run {
	r := new(run)
	for _, n := range slices.Backward(numbers) {
		r.add(&table{number: n, title: "title of " + n, rows: []row{{what: "a", paper: "1", expected: "1", measured: "1", tolerance: "exact", verdict: held}}})
	}
	return r
}

// A report that lacks something must not pass.
func TestReport_finds_what_is_wrong(t *testing.T) {
	first := func(r *run) *table { return r.sorted()[0] }
	for name, tt := range map[string]struct {
		spoil func(*run)
		want  string
	}{
		"nothing":        {func(*run) {}, ""},
		"a_miss":         {func(r *run) { first(r).rows[0].verdict = missed }, "T1: 1 of 1 rows miss: title of T1"},
		"a_table_less":   {func(r *run) { r.tables = r.tables[1:] }, "T26 is not in the report: its test did not run"},
		"no_verdict":     {func(r *run) { first(r).rows[0].verdict = reported }, "T1 has no row with a verdict: title of T1\nT1 is not in the report: its test did not run"},
		"formula_only":   {func(r *run) { first(r).rows[0].verdict = computed }, "T1 has no row with a verdict: title of T1\nT1 is not in the report: its test did not run"},
		"unknown_number": {func(r *run) { first(r).number = "T99" }, "T99 is no number of a published table\nT1 is not in the report: its test did not run"},
		"a_row_twice":    {func(r *run) { first(r).rows = append(first(r).rows, first(r).rows[0]) }, "there are two rows T1: a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := whole()
			tt.spoil(r)
			if got := strings.Join(r.problems(), "\n"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// The numbers come in their order, whatever the order of the tests, and what is printed can be read again.
func TestReport_is_read_as_it_is_written(t *testing.T) {
	r := whole()
	text := r.markdown()
	last := -1
	for _, n := range numbers {
		at := strings.Index(text, "## "+n+": ")
		if at <= last {
			t.Errorf("%s is not in its place", n)
		}
		last = at
	}
	if got := parseRecord(text); len(got) != len(numbers) || !slices.Equal(got["T5: a"], []string{"1", "1", "1", "exact", "ok"}) {
		t.Errorf("read %v", got)
	}
}

// A run is compared with the recorded one: always in its rows, and at full size in what was measured.
func TestReport_is_compared_with_the_record(t *testing.T) {
	defer func(was bool) { *full = was }(*full)
	recorded := parseRecord(whole().markdown())
	for name, tt := range map[string]struct {
		full    bool
		change  func(*row)
		differs bool
	}{
		"nothing":              {true, func(*row) {}, false},
		"another_row":          {false, func(r *row) { r.what = "b" }, true},
		"another_paper":        {false, func(r *row) { r.paper = "2" }, true},
		"measured_in_short":    {false, func(r *row) { r.measured = "2" }, false},
		"measured_in_full":     {true, func(r *row) { r.measured = "2" }, true},
		"loose_in_full":        {true, func(r *row) { r.measured, r.loose = "2", true }, false},
		"tolerance_in_full":    {true, func(r *row) { r.tolerance = "±1" }, true},
		"loose_and_not_before": {true, func(r *row) { r.loose = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			*full = tt.full
			r := whole()
			tt.change(&r.sorted()[0].rows[0])
			if got := r.differences(recorded); len(got) > 0 != tt.differs {
				t.Errorf("differences: %v", got)
			}
		})
	}
	less := whole()
	less.tables = less.tables[1:]
	if got := less.differences(recorded); len(got) > 0 {
		t.Errorf("a table that did not run has differences: %v; that it is missing is said once", got)
	}
}
