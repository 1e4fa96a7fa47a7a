package page

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// fence is a block of code in a page: its language and its text.
var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// A Page is what one file of Markdown says.
type Page struct {
	Code    []string // its blocks of Go
	Catalog string   // its block of YAML; at most one
	Rows    []Row    // of its first table of three columns, without the head

	name string
}

// A Row is a line of a page's table: what was measured, before and after.
type Row struct{ What, Before, After string }

// Read returns the page in a file.
func Read(t testing.TB, name string) *Page {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	p := &Page{name: name}
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		switch block[1] {
		case "go":
			p.Code = append(p.Code, block[2])
		case "yaml":
			if p.Catalog != "" {
				t.Fatalf("%s has two catalogs: which one is measured?", name)
			}
			p.Catalog = block[2]
		}
	}
	inside := false
	for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		switch {
		case len(cells) != 5:
			if inside {
				return p
			}
		case inside && !strings.HasPrefix(cells[1], "-"):
			p.Rows = append(p.Rows, Row{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])})
		default:
			inside = true
		}
	}
	return p
}

// Compare holds the page's table against what was measured, row by row.
func (p *Page) Compare(t testing.TB, measured []Row) {
	t.Helper()
	for i := range max(len(measured), len(p.Rows)) {
		switch {
		case i >= len(p.Rows):
			t.Errorf("%s lacks the row\n| %s | %s | %s |", p.name, measured[i].What, measured[i].Before, measured[i].After)
		case i >= len(measured):
			t.Errorf("%s: nothing measures the row %q", p.name, p.Rows[i].What)
		case p.Rows[i] != measured[i]:
			t.Errorf("%s says\n| %s | %s | %s |\nmeasured was\n| %s | %s | %s |", p.name, p.Rows[i].What, p.Rows[i].Before, p.Rows[i].After,
				measured[i].What, measured[i].Before, measured[i].After)
		}
	}
}

// Quotes holds the page's code against the given files of Go: each block is whole declarations of one of them. There are at
// least so many blocks.
func (p *Page) Quotes(t testing.TB, blocks int, files ...string) {
	t.Helper()
	var source strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(data)
	}
	if len(p.Code) < blocks {
		t.Errorf("%s has %d blocks of Go, want %d at least", p.name, len(p.Code), blocks)
	}
	for _, block := range p.Code {
		if !strings.Contains(source.String(), "\n\n"+block) {
			t.Errorf("%s quotes what is not in %q:\n%s", p.name, files, block)
		}
	}
}
