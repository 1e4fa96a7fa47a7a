package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

const recorded = "grafana/chainbudget.json"

// The file is what people import; nobody changes it by hand.
func TestDashboardIsRecorded(t *testing.T) {
	want, err := render()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code makes: run make dashboards", recorded)
	}
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "board.json")
	if err := run([]string{file}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || !json.Valid(data) {
		t.Errorf("it wrote %d bytes, valid %t, %v", len(data), json.Valid(data), err)
	}
	for _, args := range [][]string{nil, {file, file}, {filepath.Join(file, "below")}} {
		if run(args) == nil {
			t.Errorf("run(%q) succeeded", args)
		}
	}
}

func TestRowsAreFull(t *testing.T) {
	for _, r := range rows {
		width := uint32(0)
		for _, p := range r.panels {
			width += p.width
			if p.title == "" || p.about == "" || len(p.queries) == 0 {
				t.Errorf("row %q: a panel lacks its title, what it is about, or a query: %+v", r.title, p)
			}
		}
		if width != 24 {
			t.Errorf("row %q is %d wide, want 24", r.title, width)
		}
	}
}
