package migrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/examples/page"
)

const pages = "../../docs/migrate"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func readPage(t *testing.T, name string) *page.Page {
	t.Helper()
	return page.Read(t, filepath.Join(pages, name+".md"))
}

// What a page shows is code of this package, which compiles and is measured. A page without a file of its own name is one that
// nothing measures.
func TestPagesQuoteThisPackage(t *testing.T) {
	entries, err := os.ReadDir(pages)
	if err != nil || len(entries) < 6 {
		t.Fatalf("%d pages, %v", len(entries), err)
	}
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".md")
		t.Run(name, func(t *testing.T) { readPage(t, name).Quotes(t, 2, name+".go") })
	}
}
