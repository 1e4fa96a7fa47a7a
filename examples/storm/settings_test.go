package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFlags(t *testing.T) {
	s, err := parse([]string{"-depth", "6", "-fail", "f", "-rate", "160", "-duration", "15s", "-budget", "2", "-seed", "7", "-json", "-out", filepath.Join(t.TempDir(), "r.html")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Depth != 6 || s.Failing != "F" || s.failing != 5 || s.Rate != 160 || s.Duration != 15*time.Second || s.Budget != 2 || s.Seed != 7 || !s.json {
		t.Errorf("the flags were read as %+v", s)
	}
	if s, err = parse(nil, nil); err != nil || s.Rate != 200 || s.failing != 3 || s.Budget != 3 || s.out != "storm-report.html" {
		t.Errorf("without flags: %+v, %v", s, err)
	}
}

func TestBadFlagsGetOneLine(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct{ args, says string }{
		"unknown":           {"-speed 3", "-speed"},
		"not_a_number":      {"-depth x", "-depth"},
		"depth_zero":        {"-depth 0", "use 1 to 7"},
		"depth_high":        {"-depth 8", "use 1 to 7"},
		"fail_not_there":    {"-fail H", "A to G"},
		"fail_two_letters":  {"-fail AB", "A to G"},
		"fail_empty":        {"-fail=", "A to G"},
		"fail_not_a_letter": {"-fail é", "A to G"},
		"rate_low":          {"-rate 120", "160 to 400"},
		"rate_high":         {"-rate 440", "160 to 400"},
		"rate_between":      {"-rate 201", "multiple of 40"},
		"duration_short":    {"-duration 9s", "10s to 40s"},
		"duration_long":     {"-duration 41s", "10s to 40s"},
		"duration_unit":     {"-duration 24", "-duration"},
		"budget_zero":       {"-budget 0", "use 1 to 5"},
		"budget_high":       {"-budget 6", "use 1 to 5"},
		"seed_negative":     {"-seed -1", "-seed"},
		"out_folder":        {"-out " + dir, "is a folder"},
		"out_nowhere":       {"-out " + filepath.Join(dir, "none", "r.html"), "there is no folder"},
		"out_empty":         {"-out=", "name a file"},
		"argument":          {"now", "flags only"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(tc.args), &stdout, &stderr)
			if text := stderr.String(); code != exitUsage || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "storm: ") || !strings.Contains(text, tc.says) || stdout.Len() > 0 {
				t.Errorf("exit %d, stdout %q, stderr %q: want %d and one line that says %q", code, &stdout, text, exitUsage, tc.says)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Errorf("exit %d, stderr %q: want %d and nothing", code, &stderr, exitOK)
	}
	for _, name := range []string{"-depth", "-fail", "-rate", "-duration", "-budget", "-seed", "-json", "-out"} {
		if !strings.Contains(stdout.String(), "  "+name) {
			t.Errorf("the help does not list %s", name)
		}
	}
}

// An interrupt before anything could be counted still leaves a report.
func TestInterruptAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(t.TempDir(), "r.html")
	var stdout, stderr bytes.Buffer
	if code := run(ctx, []string{"-out", out}, &stdout, &stderr); code != exitInterrupted {
		t.Errorf("exit %d, want %d", code, exitInterrupted)
	}
	if text, err := os.ReadFile(out); err != nil || !bytes.Contains(text, []byte("interrupted")) {
		t.Errorf("the report does not say that the run was interrupted (%v)", err)
	}
}
