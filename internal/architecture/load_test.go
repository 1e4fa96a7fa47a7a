package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A listedPackage is one package as go list reports it.
type listedPackage struct {
	ImportPath, Name, Dir string
	Export                string // file with the compiled package's types
	DepOnly               bool   // only a dependency of what was asked for
	GoFiles, CgoFiles     []string
}

// A build is a module's packages and everything below them, compiled, so that code against them can be type-checked
// without reading their sources again.
type build struct {
	packages []listedPackage // what was asked for
	fset     *token.FileSet
	imports  types.Importer
}

// load compiles the packages that match the patterns in the module at dir, with everything that they import.
func load(dir string, patterns ...string) (*build, error) {
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Name,Dir,Export,DepOnly,GoFiles,CgoFiles", "--"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join(root, dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the packages of module %s do not compile: %w\n%s", dir, err, stderr.String())
	}
	b := &build{fset: token.NewFileSet()}
	export := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		export[p.ImportPath] = p.Export
		if !p.DepOnly {
			b.packages = append(b.packages, p)
		}
	}
	b.imports = importer.ForCompiler(b.fset, "gc", func(path string) (io.ReadCloser, error) {
		if export[path] == "" {
			return nil, fmt.Errorf("package %s is not among the imports of module %s", path, dir)
		}
		return os.Open(export[path])
	})
	return b, nil
}

// check type-checks a package from its source, so that parameter names and the order of declarations are there.
func (b *build) check(p listedPackage) (*types.Package, error) {
	var parsed []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		file, err := parser.ParseFile(b.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	return b.checkFiles(p.ImportPath, parsed)
}

// checkFiles type-checks files as one package and returns all errors, one a line.
func (b *build) checkFiles(path string, parsed []*ast.File) (*types.Package, error) {
	var problems []string
	config := types.Config{Importer: b.imports, Error: func(err error) { problems = append(problems, err.Error()) }}
	pkg, err := config.Check(path, b.fset, parsed, nil)
	if err != nil {
		return nil, errors.New(strings.Join(problems, "\n"))
	}
	return pkg, nil
}
