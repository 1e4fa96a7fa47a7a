package walk

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// What the pages for people on call name is a metric of docs/metrics.md, or a label of one.
func TestPagesNameMetrics(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	docs := filepath.Join("..", "..", "docs")
	metrics := read(filepath.Join(docs, "metrics.md"))
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `chainbudget[a-z_.]+` `(chainbudget_[a-z_]+)` \\|").FindAllStringSubmatch(metrics, -1) {
		known[m[1]] = true
	}
	if len(known) < 30 {
		t.Fatalf("docs/metrics.md has %d metrics that can be read, it has more", len(known))
	}
	for _, label := range []string{"dependency", "service", "owner", "claim", "reason", "hop", "digest"} {
		known["chainbudget_"+label] = true
	}
	pages, err := filepath.Glob(filepath.Join(docs, "denied", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, filepath.Join(docs, "runbook.md"), filepath.Join(docs, "traces.md"), filepath.Join(docs, "sample-catalog", "runbook.md"))
	seen := 0
	for _, page := range pages {
		for _, name := range regexp.MustCompile("chainbudget_[a-z_]+").FindAllString(read(page), -1) {
			seen++
			if !known[name] {
				t.Errorf("%s names %s, which docs/metrics.md does not have", page, name)
			}
		}
	}
	if seen < len(pages) {
		t.Errorf("%d names on %d pages", seen, len(pages))
	}
}
