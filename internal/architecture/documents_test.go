package architecture

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// documentLink is a link of Markdown to a file of the repository; group 1 is the path.
	documentLink = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	// documentTest is a test named in a document; with an ellipsis it stands for all that begin like it.
	documentTest = regexp.MustCompile("`(Test[A-Za-z0-9_]+)(…?)`")
	// documentFile is a file or folder named in a document by its path below the top folder.
	documentFile = regexp.MustCompile("`((?:adapters|api|benchmarks|breaker|chainbudget|docs|examples|internal|otelprop|ownership|profiles)/[a-z0-9_./-]+)`")

	declaredTest = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// Documents name files and tests. Both are renamed by people who do not read the documents.
func TestDocumentsNameWhatExists(t *testing.T) {
	list := files(t)
	var tests []string
	for _, name := range list {
		if strings.HasSuffix(name, "_test.go") {
			for _, match := range declaredTest.FindAllStringSubmatch(readFile(t, name), -1) {
				tests = append(tests, match[1])
			}
		}
	}
	if len(tests) == 0 {
		t.Fatal("no test found in the repository")
	}
	exists := func(name string) bool {
		name = path.Clean(name)
		return slices.ContainsFunc(list, func(file string) bool { return file == name || under(file, name) })
	}
	for _, document := range list {
		if !strings.HasSuffix(document, ".md") {
			continue
		}
		text := readFile(t, document)
		for _, match := range documentLink.FindAllStringSubmatch(text, -1) {
			if target := path.Join(path.Dir(document), match[1]); !exists(target) {
				t.Errorf("%s links to %s, which does not exist", document, target)
			}
		}
		for _, match := range documentFile.FindAllStringSubmatch(text, -1) {
			if !exists(match[1]) {
				t.Errorf("%s names %s, which does not exist", document, match[1])
			}
		}
		for _, match := range documentTest.FindAllStringSubmatch(text, -1) {
			named, prefix := match[1], match[2] != ""
			if !slices.ContainsFunc(tests, func(name string) bool { return name == named || prefix && strings.HasPrefix(name, named) }) {
				t.Errorf("%s names the test %s, which does not exist", document, named+match[2])
			}
		}
	}
}

// Who looks for something begins at the map of folders in DESIGN.md. A package that was added since is on it too.
func TestDesignHasEveryFolder(t *testing.T) {
	_, where, _ := strings.Cut(readFile(t, "DESIGN.md"), "## Where things are")
	where, _, _ = strings.Cut(where, "\n## ")
	missing := map[string]bool{}
	for _, f := range goFiles(t) {
		parts := strings.Split(f.dir, "/")
		name := parts[0]
		switch {
		case len(parts) > 1 && name == "examples":
			name = parts[1]
		case len(parts) > 1 && (name == "adapters" || name == "cmd" || name == "internal"):
			name += "/" + parts[1]
		}
		if !strings.Contains(where, "`"+name+"`") {
			missing[name] = true
		}
	}
	for name := range missing {
		t.Errorf("DESIGN.md, Where things are, does not have `%s`: say in a line what it is", name)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
