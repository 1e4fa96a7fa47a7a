package architecture

import (
	"flag"
	"go/ast"
	"go/parser"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write api/*.txt instead of comparing with it (make api)")

// privateFolders hold packages that no user imports, besides every folder named internal.
var privateFolders = []string{"benchmarks", "cmd", "examples", "internal"}

// A size is how much a package may export.
type size struct{ types, funcs, values, methods int }

// limits are the sizes that public packages keep; a package without a line has no limit. What only adapters need goes
// into internal packages. Members of enums are not counted, aliases of types are.
var limits = map[string]size{
	"chainbudget": {12, 12, 12, 40},
	"ownership":   {5, 5, 5, 10},
	"breaker":     {5, 2, 5, 12},

	// A scenario is plain data: its types are many and small.
	"chainbudget/stormlab": {20, 5, 5, 10},
}

// adapterLimits bounds the types and functions of each package under adapters.
var adapterLimits = size{types: 3, funcs: 6}

// publicAPI returns what every public package exports, by folder.
func publicAPI(t *testing.T) map[string][]symbol {
	t.Helper()
	modules := moduleDirs(t)
	wanted := map[string][]string{} // module → patterns
	for _, file := range goFiles(t) {
		private := slices.ContainsFunc(privateFolders, func(folder string) bool { return under(file.dir, folder) }) ||
			slices.Contains(strings.Split(file.dir, "/"), "internal")
		if private || file.test || file.pkg == "main" {
			continue
		}
		module := moduleOf(modules, file.dir)
		rel, err := filepath.Rel(module, file.dir)
		if err != nil {
			t.Fatal(err)
		}
		if pattern := "./" + filepath.ToSlash(rel); !slices.Contains(wanted[module], pattern) {
			wanted[module] = append(wanted[module], pattern)
		}
	}
	api := map[string][]symbol{}
	for module, patterns := range wanted {
		b, err := load(module, patterns...)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range b.packages {
			pkg, err := b.check(p)
			if err != nil {
				t.Fatalf("%s does not compile: %v", p.ImportPath, err)
			}
			api[strings.TrimPrefix(p.ImportPath, rootModule+"/")] = symbols(pkg)
		}
	}
	if len(api) == 0 {
		t.Fatal("the repository has no public package")
	}
	return api
}

// The exported API is a decision: a change of it shows in the diff of api/, one line for each symbol.
func TestAPI(t *testing.T) {
	api := publicAPI(t)
	t.Run("is_recorded", func(t *testing.T) { checkRecorded(t, api) })
	t.Run("is_small", func(t *testing.T) { checkSize(t, api) })
}

func checkRecorded(t *testing.T, api map[string][]symbol) {
	recorded, err := filepath.Glob(filepath.Join(root, "api", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]string{} // file → its folder
	for dir, list := range api {
		name := filepath.Join(root, "api", path.Base(dir)+".txt")
		if other, taken := wanted[name]; taken {
			t.Fatalf("packages %s and %s would share %s: rename one", dir, other, name)
		}
		wanted[name] = dir
		var lines []string
		for _, s := range list {
			lines = append(lines, s.line)
		}
		if *update {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("the API of %s is not recorded: %v; run make api", dir, err)
			continue
		}
		old := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		for _, line := range old {
			if !slices.Contains(lines, line) {
				t.Errorf("%s no longer exports, but api/ records: %s\n(if this is meant, run make api)", dir, line)
			}
		}
		for _, line := range lines {
			if !slices.Contains(old, line) {
				t.Errorf("%s exports, but api/ does not record: %s\n(if this is meant, run make api)", dir, line)
			}
		}
	}
	for _, name := range recorded {
		if _, ok := wanted[name]; ok {
			continue
		}
		if *update {
			if err := os.Remove(name); err != nil {
				t.Error(err)
			}
			continue
		}
		t.Errorf("%s records a package that does not exist: run make api", name)
	}
}

func checkSize(t *testing.T, api map[string][]symbol) {
	for dir, list := range api {
		limit, ok := limits[dir]
		adapter := strings.HasPrefix(dir, "adapters/")
		if !ok && adapter {
			limit, ok = adapterLimits, true
		}
		if !ok {
			continue
		}
		count := map[kind]int{}
		for _, s := range list {
			count[s.kind]++
		}
		check := func(what string, k kind, most int) {
			if count[k] > most {
				t.Errorf("%s exports %d %s, at most %d: what only adapters need goes into internal/", dir, count[k], what, most)
			}
		}
		check("types", typeSymbol, limit.types)
		check("functions", funcSymbol, limit.funcs)
		if !adapter {
			check("constants and variables", valueSymbol, limit.values)
			check("methods", methodSymbol, limit.methods)
		}
	}
	for dir := range limits {
		if _, ok := api[dir]; !ok {
			t.Errorf("package %s has a limit and does not exist: remove it from api_test.go", dir)
		}
	}
}

// The printer is what the record and the limits rest on, so it is shown one of everything.
func TestSymbols(t *testing.T) {
	const source = `package sample

import "time"

type Color uint8

const (
	Red Color = iota
	Blue
	hidden
)

const Wait time.Duration = 5
const Size = 1 << 3

var ErrNone error

type Pair[K comparable, V any] struct {
	Key K
	time.Time
	value V
}

func (p *Pair[K, V]) Value() V { return p.value }
func (c Color) String() string { return "" }
func (c Color) lower()         {}

type inner struct{ Depth int }

func (*inner) Reset() {}

type Outer struct{ *inner }

type Option interface{ apply() }
type Closer interface{ Close() error }
type Number interface{ ~int | ~uint }
type Same = Pair[string, int]
type Func func(n int) error

func New(name string, options ...Option) (*Pair[string, int], error) { return nil, nil }
func Call[T any](f func() T) T                                       { return f() }
func unseen()                                                        {}
`
	b, err := load(".", "time")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(b.fset, "sample.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := b.checkFiles("sample", []*ast.File{file})
	if err != nil {
		t.Fatal(err)
	}
	want := []symbol{
		{memberSymbol, "const Blue Color = 1"},
		{memberSymbol, "const Red Color = 0"},
		{valueSymbol, "const Size untyped int = 8"},
		{valueSymbol, "const Wait time.Duration = 5"},
		{fieldSymbol, "field Outer.Depth int"},
		{fieldSymbol, "field Pair.Key K"},
		{fieldSymbol, "field Pair.Time time.Time (embedded)"},
		{funcSymbol, "func Call[T any](f func() T) T"},
		{funcSymbol, "func New(name string, options ...Option) (*Pair[string, int], error)"},
		{methodSymbol, "method (*Pair[K, V]) Value() V"},
		{methodSymbol, "method (Color) String() string"},
		{methodSymbol, "method (Outer) Reset() (promoted)"},
		{methodSymbol, "method Closer.Close() error"},
		{typeSymbol, "type Closer interface"},
		{typeSymbol, "type Color uint8"},
		{typeSymbol, "type Func func(n int) error"},
		{typeSymbol, "type Number interface{~int | ~uint}"},
		{typeSymbol, "type Option interface (sealed)"},
		{typeSymbol, "type Outer struct"},
		{typeSymbol, "type Pair[K comparable, V any] struct"},
		{typeSymbol, "type Same = Pair[string, int]"},
		{valueSymbol, "var ErrNone error"},
	}
	got := symbols(pkg)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing %v", want[i])
		case i >= len(want):
			t.Errorf("unexpected %v", got[i])
		case got[i] != want[i]:
			t.Errorf("symbol %d is %v, want %v", i, got[i], want[i])
		}
	}
}
