package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A verdict is what came of one mutant.
type verdict struct {
	mutant
	killed bool
	reason string // for a reader
	took   time.Duration
	output string // the last lines of the run that decided, when the mutant was not killed
}

// shownLines is how much of a run's output explains a mutant that was not killed.
const shownLines = 30

// A trial tries mutants one after the other in one copy.
type trial struct {
	copy     repositoryCopy
	progress io.Writer
	baseline map[target]verdict // of the unchanged copy, by test: several mutants may share one
}

// run tries all mutants. The error is of the run itself; what came of the mutants is in the verdicts.
func (t *trial) run(ctx context.Context, mutants []mutant) ([]verdict, error) {
	t.baseline = map[target]verdict{}
	if err := t.passTogether(ctx, mutants); err != nil {
		return nil, err
	}
	var verdicts []verdict
	for i, m := range mutants {
		fmt.Fprintf(t.progress, "[%d/%d] %s: %s ... ", i+1, len(mutants), m.name, m.target)
		began := time.Now()
		v, err := t.try(ctx, m)
		if err != nil {
			fmt.Fprintln(t.progress, "stopped")
			return verdicts, fmt.Errorf("%s: %w", m.name, err)
		}
		v.mutant, v.took = m, time.Since(began)
		word := "killed"
		if !v.killed {
			word = "NOT KILLED"
		}
		fmt.Fprintf(t.progress, "%s, %s (%.1fs)\n", word, v.reason, v.took.Seconds())
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// passTogether runs the tests of each package in the unchanged copy at once, which is much sooner done than one by one. Those
// that pass are known to; any other is asked alone when its turn comes.
func (t *trial) passTogether(ctx context.Context, mutants []mutant) error {
	tests := map[string][]string{}
	for _, m := range mutants {
		if !strings.Contains(m.test, "/") && !slices.Contains(tests[m.pkg], m.test) {
			tests[m.pkg] = append(tests[m.pkg], m.test)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(tests)) {
		fmt.Fprintf(t.progress, "%s, unchanged: %d tests\n", pkg, len(tests[pkg]))
		out, err := t.copy.run(ctx, pkg, "^("+strings.Join(tests[pkg], "|")+")$")
		if err != nil {
			return err
		}
		for _, test := range tests[pkg] {
			if judge(out, test) == passed {
				t.baseline[target{pkg, test}] = verdict{}
			}
		}
	}
	return nil
}

func (t *trial) try(ctx context.Context, m mutant) (verdict, error) {
	baseline, known := t.baseline[m.target]
	if !known {
		out, err := t.copy.run(ctx, m.pkg, runPattern(m.test))
		if err != nil {
			return verdict{}, err
		}
		if got := judge(out, m.test); got != passed {
			baseline = verdict{reason: "without the patch the test " + got.String(), output: printed(out, shownLines)}
		}
		t.baseline[m.target] = baseline
	}
	if baseline.reason != "" {
		return baseline, nil
	}
	if err := t.copy.patch(ctx, m.patch, false); err != nil {
		return verdict{reason: "the patch does not apply", output: err.Error()}, ctx.Err()
	}
	out, err := t.copy.run(ctx, m.pkg, runPattern(m.test))
	if err != nil {
		return verdict{}, err
	}
	// git apply changes all files or none, so the copy is whole again or the run ends.
	if err := t.copy.patch(ctx, m.patch, true); err != nil {
		return verdict{}, fmt.Errorf("take the patch back: %w", err)
	}
	got := judge(out, m.test)
	v := verdict{killed: got == failed, reason: "the test " + got.String()}
	if !v.killed {
		v.output = printed(out, shownLines)
	}
	return v, nil
}

// report prints the table and what explains the mutants that were not killed, and says whether all were.
func report(w io.Writer, verdicts []verdict) (allKilled bool, err error) {
	allKilled = true
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nMUTANT\tTEST\tVERDICT\tTIME")
	for _, v := range verdicts {
		word := "killed"
		if !v.killed {
			word, allKilled = "NOT KILLED: "+v.reason, false
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1fs\n", v.name, v.target, word, v.took.Seconds())
	}
	if err := table.Flush(); err != nil {
		return allKilled, err
	}
	for _, v := range verdicts {
		if !v.killed {
			fmt.Fprintf(w, "\n--- %s: %s\n%s\n", v.name, v.reason, v.output)
		}
	}
	return allKilled, nil
}
