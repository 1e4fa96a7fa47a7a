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

// maxLines is the most lines that a Go file may have. Files are meant to stay at 600; the rest is for a file in change.
const maxLines = 700

// emptyNames say nothing about what a package or a file holds.
var emptyNames = []string{"base", "common", "helper", "helpers", "lib", "misc", "shared", "types", "util", "utils"}

// machinePath matches absolute paths that exist on the author's machine and not on the reader's.
var machinePath = regexp.MustCompile(`(?:^|[^\w.~/$}-])(?:/(?:home|Users|work|workspace|root|tmp|var/folders|private/tmp)/[\w.]|[A-Z]:\\Users\\)`)

func TestNoMachinePaths(t *testing.T) {
	for _, name := range files(t) {
		text := read(t, name)
		if strings.ContainsRune(text, 0) {
			continue // not a text file
		}
		for i, line := range strings.Split(text, "\n") {
			if found := machinePath.FindString(line); found != "" {
				t.Errorf("%s:%d: absolute path of a machine near %q: use a relative path or a temporary folder", name, i+1, found)
			}
		}
	}
}

func TestMachinePathPattern(t *testing.T) {
	// Written in two parts, so that this file does not match.
	for _, text := range []string{"cd /" + "work/main", "/" + "home/ann/x", `"/` + `tmp/out"`, "(/" + "Users/ann/x)", `C:` + `\Users\ann`} {
		if !machinePath.MatchString(text) {
			t.Errorf("the pattern does not see %q", text)
		}
	}
	for _, text := range []string{"https://example.com/home/x", "go run ./work/x", "$HOME/work/x", "framework/tmp/x", "/homes", "a /tmp file"} {
		if machinePath.MatchString(text) {
			t.Errorf("the pattern takes %q for a path of a machine", text)
		}
	}
}

func TestPackageComments(t *testing.T) {
	commented := map[string][]string{} // folder → files with a package comment
	for _, file := range goFiles(t) {
		if _, ok := commented[file.dir]; !ok {
			commented[file.dir] = nil
		}
		if file.comment == "" {
			continue
		}
		commented[file.dir] = append(commented[file.dir], path.Base(file.path))
		want := "Package " + file.pkg + " "
		if file.pkg == "main" {
			want = "Command " + path.Base(file.dir) + " "
		}
		if !strings.HasPrefix(file.comment, want) {
			t.Errorf("%s: the package comment begins %.40q, want %q", file.path, file.comment, want)
		}
	}
	for dir, names := range commented {
		if !slices.Equal(names, []string{"doc.go"}) {
			t.Errorf("package %s has package comments in %q: it has exactly one, in doc.go", dir, names)
		}
	}
}

func TestNamesSaySomething(t *testing.T) {
	for _, file := range goFiles(t) {
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(file.path), ".go"), "_test")
		for _, name := range []string{strings.TrimSuffix(file.pkg, "_test"), stem} {
			if slices.Contains(emptyNames, name) {
				t.Errorf("%s: the name %q says nothing about what is inside: use the noun that it holds", file.path, name)
			}
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, file := range goFiles(t) {
		if lines := strings.Count(read(t, file.path), "\n"); lines > maxLines {
			t.Errorf("%s has %d lines, at most %d: split it by noun", file.path, lines, maxLines)
		}
	}
}

func TestCIScriptIsExecutable(t *testing.T) {
	info, err := os.Stat(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode()&0o111 != 0o111 {
		t.Errorf(".ci/run has mode %v, want it executable by all", info.Mode())
	}
}
