package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

func TestWrongArgumentsEndWithStatus2AndOneLine(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-rounds", "1001"}, {"-round", "1us"}, {"-round", "1h"}, {"x"}, {"-run", "("}, {"-run", "no_such_row"}} {
		var out, errs bytes.Buffer
		if code := run(args, &out, &errs); code != 2 {
			t.Errorf("%q: status %d, want 2", args, code)
		}
		if out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%q: printed %q and %q", args, out.String(), errs.String())
		}
	}
}

// Every row names subjects that exist, and has a name of its own.
func TestRowsCanBeMeasured(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.id()] {
			t.Errorf("two rows are called %s", r.id())
		}
		seen[r.id()] = true
		for _, who := range r.sides() {
			if _, err := subject.Find(r.path, who); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		}
	}
}

func TestRunPicksRows(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"-run", "^chain$", "-rounds", "1", "-round", "1ms"}, &out, &errs); code != 0 {
		t.Fatalf("status %d: %s", code, errs.String())
	}
	if got := out.String(); !strings.Contains(got, "a chain begun and ended") || strings.Contains(got, "transport, one retry") || strings.Contains(got, "memory:") {
		t.Errorf("printed %q, want the one row", got)
	}
}

// A row is measured from its subjects to its lines.
func TestARowHasALineForEachSide(t *testing.T) {
	r := row{name: "one", path: "transport/one_retry", over: true, allocs: none, peers: others(subject.Failsafe)}
	res, err := r.measure(2, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	print(&out, []result{res})
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"", "one", "  chainbudget ", "  failsafe ", "  bare "} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want it to begin with %q", i, lines[i], want)
		}
	}
	if res.bare.nanos <= 0 || res.ours.allocs <= res.bare.allocs || res.peers[0].figures.allocs <= res.bare.allocs {
		t.Errorf("ours %v, failsafe %v, bare %v: want what the bare operation costs, and both above it", res.ours, res.peers[0].figures, *res.bare)
	}
}

func TestVerdicts(t *testing.T) {
	bare := &figures{100, 0, 4, 1000}
	for _, c := range []struct {
		name    string
		row     row
		ours    figures
		bare    *figures
		against *comparison // nil = the row's own targets
		verdict string
		missed  bool
	}{
		{name: "within", row: row{nanos: 150, allocs: 5}, ours: figures{150, 0, 5.2, 0}, verdict: "ok"},
		{name: "within_over_bare", row: row{allocs: 5}, ours: figures{0, 0, 9.3, 0}, bare: bare, verdict: "ok"},
		{name: "too_many", row: row{allocs: 5}, ours: figures{0, 0, 6, 0}, verdict: "MISS: allocations", missed: true},
		{name: "too_slow", row: row{nanos: 150, allocs: 0}, ours: figures{151, 0, 0, 0}, verdict: "miss: slower"},
		{name: "nothing_asked", row: row{allocs: none}, ours: figures{9, 0, 99, 0}, verdict: ""},
		{name: "share", row: row{allocs: none}, against: &comparison{peer: peer{share: 0.25}, allocs: 0.25}, verdict: "ok"},
		{name: "too_large_a_share", row: row{allocs: none}, against: &comparison{peer: peer{share: 0.25}, allocs: 0.26}, verdict: "MISS: allocations", missed: true},
		{name: "bytes_within", row: row{allocs: none}, ours: figures{0, 0, 0, 300}, against: &comparison{peer: peer{bytes: 100}, figures: figures{0, 0, 0, 200}}, verdict: "ok"},
		{name: "too_many_bytes", row: row{allocs: none}, ours: figures{0, 0, 0, 301}, against: &comparison{peer: peer{bytes: 100}, figures: figures{0, 0, 0, 200}},
			verdict: "MISS: allocations", missed: true},
		{name: "too_slow_a_ratio", row: row{allocs: none}, against: &comparison{peer: peer{ratio: 0.6}, time: 0.61}, verdict: "miss: slower"},
		{name: "goroutines_by_real_time", row: row{allocs: none, workers: 16}, against: &comparison{peer: peer{ratio: 0.8}, time: 2, real: 0.8}, verdict: "ok"},
		{name: "goroutines_too_slow", row: row{allocs: none, workers: 16}, against: &comparison{peer: peer{ratio: 0.8}, time: 0.1, real: 0.9}, verdict: "miss: slower"},
		{name: "no_ratio", row: row{allocs: none}, against: &comparison{peer: peer{ratio: 0.6}, time: math.NaN()}, verdict: "miss: slower"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := result{row: c.row, ours: c.ours, bare: c.bare}
			v := res.own()
			if c.against != nil {
				res.peers = []comparison{*c.against}
				v = res.against(*c.against)
			}
			if v.String() != c.verdict || res.missed() != c.missed {
				t.Errorf("%q, missed %v, want %q, %v", v, res.missed(), c.verdict, c.missed)
			}
		})
	}
}

func TestRatiosAreOfWhatIsAdded(t *testing.T) {
	ours, peer, bare := []float64{15, 20}, []float64{20, 30}, []float64{10, 30}
	if got := ratios(ours, peer, bare); len(got) != 1 || got[0] != 0.5 {
		t.Errorf("over bare: %v, want one of 0.5, as the peer added nothing in the other round", got)
	}
	if got := ratios(ours, peer, nil); len(got) != 2 || got[0] != 0.75 {
		t.Errorf("of the whole: %v, want 0.75 first", got)
	}
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("median of three: %v", m)
	}
	if m := median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("median of four: %v", m)
	}
	if m := median(nil); !math.IsNaN(m) {
		t.Errorf("median of none: %v", m)
	}
}
