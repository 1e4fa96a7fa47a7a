package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

func TestWrongArgumentsEndWithStatus2AndOneLine(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-rounds", "1001"}, {"-round", "1us"}, {"-round", "1h"}, {"x"}} {
		var out, errs bytes.Buffer
		if code := run(args, &out, &errs); code != 2 {
			t.Errorf("%q: status %d, want 2", args, code)
		}
		if out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%q: printed %q and %q", args, out.String(), errs.String())
		}
	}
}

// Every row names subjects that exist.
func TestRowsCanBeMeasured(t *testing.T) {
	for _, r := range rows {
		whose := []string{subject.SDK}
		if r.peer != "" {
			whose = append(whose, r.peer)
		}
		if r.over {
			whose = append(whose, subject.Bare)
		}
		for _, who := range whose {
			if _, err := subject.Find(r.path, who); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name    string
		result  result
		verdict string
	}{
		{"within", result{row: row{ratio: 0.6, allocs: 5, share: 0.25}, ratioIs: 0.6, oursAllocs: 5.2, peerAllocs: 22}, "ok"},
		{"too many", result{row: row{ratio: 0.6, allocs: 5}, ratioIs: 0.1, oursAllocs: 6}, "FAIL: allocations"},
		{"too large a share", result{row: row{allocs: none, share: 0.25}, oursAllocs: 6, peerAllocs: 20}, "FAIL: allocations"},
		{"too many bytes", result{row: row{allocs: none, bytes: 100}, oursBytes: 301, peerBytes: 200}, "FAIL: allocations"},
		{"bytes within", result{row: row{allocs: none, ratio: 1, bytes: 100}, oursBytes: 300, peerBytes: 200}, "ok"},
		{"too slow a ratio", result{row: row{ratio: 0.6, allocs: 5}, ratioIs: 0.61, oursAllocs: 5}, "slower than the target"},
		{"too slow", result{row: row{nanos: 150, allocs: 0}, ours: 151}, "slower than the target"},
		{"nothing asked", result{row: row{allocs: none}, ratioIs: 9, oursAllocs: 99}, "no target"},
	} {
		c.result.judge()
		if got := c.result.verdict(); got != c.verdict {
			t.Errorf("%s: %q, want %q", c.name, got, c.verdict)
		}
	}
}

func TestRatiosAreOfWhatIsAdded(t *testing.T) {
	ours, peer, bare := &side{rounds: []float64{15, 20}}, &side{rounds: []float64{20, 30}}, &side{rounds: []float64{10, 30}}
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
	if m := median(nil); m != 0 {
		t.Errorf("median of none: %v", m)
	}
}
