package migrate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

const pages = "../../docs/migrate"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fence is a block of code in a page: its language and its text.
var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// A page is what one file of docs/migrate says.
type page struct {
	code    []string // its blocks of Go
	catalog string   // its block of YAML
	rows    []row    // of its first table
}

// A row is a line of a page's table: what was measured, before and after.
type row struct{ what, before, after string }

func readPage(t *testing.T, name string) (p page) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(pages, name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		switch block[1] {
		case "go":
			p.code = append(p.code, block[2])
		case "yaml":
			if p.catalog != "" {
				t.Fatalf("%s.md has two catalogs: which one is measured?", name)
			}
			p.catalog = block[2]
		}
	}
	for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "-") {
			if len(p.rows) > 0 && len(cells) != 5 {
				break // the table has ended
			}
			continue
		}
		p.rows = append(p.rows, row{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])})
	}
	if len(p.rows) < 2 {
		t.Fatalf("%s.md has no table of three columns", name)
	}
	p.rows = p.rows[1:] // without its head
	return p
}

// compare holds the page's table against what was measured, row by row.
func (p page) compare(t *testing.T, measured []row) {
	t.Helper()
	for i := range max(len(measured), len(p.rows)) {
		switch {
		case i >= len(p.rows):
			t.Errorf("the page lacks the row\n| %s | %s | %s |", measured[i].what, measured[i].before, measured[i].after)
		case i >= len(measured):
			t.Errorf("nothing measures the page's row %q", p.rows[i].what)
		case p.rows[i] != measured[i]:
			t.Errorf("the page says\n| %s | %s | %s |\nmeasured was\n| %s | %s | %s |", p.rows[i].what, p.rows[i].before, p.rows[i].after,
				measured[i].what, measured[i].before, measured[i].after)
		}
	}
}

// What a page shows is code of this package, which compiles and is measured.
func TestPagesQuoteThisPackage(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(name + ".go")
			if err != nil {
				t.Fatalf("every page has a file of this package with its code: %v", err)
			}
			p := readPage(t, name)
			if len(p.code) < 2 {
				t.Errorf("%d blocks of Go, want one before and one after at least", len(p.code))
			}
			for _, block := range p.code {
				if !strings.Contains(string(source), "\n\n"+block) {
					t.Errorf("%s.go does not have the page's code\n%s", name, block)
				}
			}
		})
	}
}
