package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the repository's top folder, seen from this package's folder, where go test runs its tests.
const root = "../.."

// rootModule is the module path of the SDK itself.
const rootModule = "github.com/chainbudget/chainbudget-go"

// files lists the repository's files as slash-separated paths below root: what git tracks or would add. Outside a git
// checkout (an unpacked archive, a copy), it is every file.
func files(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err == nil {
		cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		cmd.Dir = root
		if out, err := cmd.Output(); err == nil {
			list := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
			slices.Sort(list)
			// git lists an unmerged file once for each side, and a file that was just deleted.
			return slices.DeleteFunc(slices.Compact(list), func(name string) bool {
				info, err := os.Lstat(filepath.Join(root, name))
				return err != nil || !info.Mode().IsRegular()
			})
		}
	}
	var list []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == ".bin") {
			return fs.SkipDir
		}
		if entry.Type().IsRegular() {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			list = append(list, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list the repository: %v", err)
	}
	return list
}

// read returns the contents of a file below root.
func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// moduleDirs lists the folders that hold a go.mod, "." for the root module.
func moduleDirs(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, name := range files(t) {
		if path.Base(name) == "go.mod" {
			dirs = append(dirs, path.Dir(name))
		}
	}
	if !slices.Contains(dirs, ".") {
		t.Fatal("no go.mod at the top of the repository")
	}
	return dirs
}

// moduleOf returns the innermost of the modules' folders that contains the folder dir.
func moduleOf(modules []string, dir string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if slices.Contains(modules, dir) {
			return dir
		}
	}
	return "."
}

// A goFile is one Go file outside testdata, parsed as far as its imports.
type goFile struct {
	path    string // below root
	dir     string // below root
	pkg     string // as its package clause says
	test    bool   // is a _test.go file
	comment string // its package comment
	imports []string
}

// goFiles parses every Go file of the repository, whatever its build constraints.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var list []goFile
	for _, name := range files(t) {
		if path.Ext(name) != ".go" || slices.Contains(strings.Split(name, "/"), "testdata") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		list = append(list, goFile{
			path:    name,
			dir:     path.Dir(name),
			pkg:     file.Name.Name,
			test:    strings.HasSuffix(name, "_test.go"),
			comment: file.Doc.Text(),
			imports: importPaths(file),
		})
	}
	if len(list) == 0 {
		t.Fatal("the repository has no Go file")
	}
	return list
}

func importPaths(file *ast.File) []string {
	var paths []string
	for _, spec := range file.Imports {
		// The parser accepted the literal, so it unquotes.
		name, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, name)
	}
	return paths
}

// isStd reports whether an import path belongs to the standard library: its first element has no dot.
func isStd(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// under reports whether name is folder or lies below it, both slash-separated.
func under(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}
