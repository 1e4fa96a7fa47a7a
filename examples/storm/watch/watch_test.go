package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rulesFolder is where the rules are.
const rulesFolder = "../../../dashboards/prometheus"

// Only durations change, and only by being 60 times as short.
func TestHasten(t *testing.T) {
	const rules = `
      - record: chainbudget:x:ratio_rate2m # of 2 minutes
        expr: rate(a_total[2m]) / rate(b_total[1h]) offset 1h > 1.25 # 10m
        for: 10m`
	const want = `
      - record: chainbudget:x:ratio_rate2m # of 2 minutes
        expr: rate(a_total[2s]) / rate(b_total[1m]) offset 1m > 1.25 # 10s
        for: 10s`
	if got := string(hasten([]byte(rules))); got != want {
		t.Errorf("hastened:\n%s\nwant:\n%s", got, want)
	}
	names, err := filepath.Glob(filepath.Join(rulesFolder, "*.rules.yaml"))
	if err != nil || len(names) < 2 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		durations := regexp.MustCompile(`\b\d+[smh]\b`)
		if durations.ReplaceAllString(string(hasten(data)), "") != durations.ReplaceAllString(string(data), "") {
			t.Errorf("%s: more than durations changed", name)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{{"-rate", "1"}, {"-duration", "1s"}, {"-rounds", "x"}, {"more"}, {"-rules", t.TempDir()}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("run(%q) succeeded", args)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if err := run(t.Context(), []string{"-rules", rulesFolder}, io.Discard); err == nil || !strings.Contains(err.Error(), "Install it") {
		t.Errorf("without Prometheus: %v", err)
	}
}

// An interrupt is how it usually ends: at once, and nothing stays.
func TestInterrupt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancelCause(t.Context()) // as signal.NotifyContext does
	defer cancel(nil)
	start := time.Now()
	out := &seen{word: "waiting for the first scrape", then: func() { cancel(errors.New("interrupt signal received")) }}
	if err := run(ctx, []string{"-rules", rulesFolder}, out); err != nil {
		t.Errorf("interrupted: %v", err)
	}
	if took := time.Since(start); took > scrapeWithin/2 {
		t.Errorf("it took %s to end", took)
	}
	for _, want := range []string{"/graph?", "/alerts", "before grab", "after  ledger"} {
		if !strings.Contains(out.text.String(), want) {
			t.Errorf("it did not say %q:\n%s", want, &out.text)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// Without Prometheus there is nothing to wait for.
func TestPrometheusEnds(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	stage, err := newStage(ctx, end, t.TempDir(), rulesFolder)
	if err != nil {
		t.Fatal(err)
	}
	if err := stage.prometheus.process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := stage.Ready(ctx); err == nil {
		t.Error("it was ready without Prometheus")
	}
	if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "prometheus has ended") {
		t.Errorf("it ended with %v", cause)
	}
	if err := stage.close(); err != nil {
		t.Error(err)
	}
}

// seen is an output that does something when a word appears in it.
type seen struct {
	text strings.Builder
	word string
	then func()
}

func (s *seen) Write(p []byte) (int, error) {
	s.text.Write(p)
	if strings.Contains(s.text.String(), s.word) {
		s.then()
	}
	return len(p), nil
}
