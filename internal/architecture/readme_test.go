package architecture

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readmeLines is the most lines that the README may have: it is for the first ten minutes, not a manual.
const readmeLines = 200

// wiringMark stands on the line before the README's first code block: what a user pastes into main.
const wiringMark = "<!-- wiring -->"

// readmeModule is the module whose imports the README's code may use: the one below which every adapter that the
// README shows can be imported.
const readmeModule = "adapters/budgetgrpc"

// readmeImports are the packages that the README's code may name without an import statement, by their names there.
var readmeImports = map[string]string{
	"budgetgrpc":      rootModule + "/adapters/budgetgrpc",
	"budgethttp":      rootModule + "/adapters/budgethttp",
	"chainbudget":     rootModule + "/chainbudget",
	"chainbudgettest": rootModule + "/chainbudget/chainbudgettest",
	"context":         "context",
	"errors":          "errors",
	"fmt":             "fmt",
	"grpc":            "google.golang.org/grpc",
	"http":            "net/http",
	"log":             "log",
	"ownership":       rootModule + "/ownership",
	"profiles":        rootModule + "/profiles",
	"sql":             "database/sql",
	"testing":         "testing",
	"time":            "time",
}

// readmeDeclarations are what a reader has already: the names that the code uses without declaring them.
const readmeDeclarations = `
var (
	mux  *http.ServeMux
	addr string
	ctx  context.Context
	db   *sql.DB
)
`

// A codeBlock is one fenced block of Go in a Markdown file.
type codeBlock struct {
	line   int // of its first line of code, from 1
	wiring bool
	code   string
}

// goBlocks returns the fenced blocks of Go code in a Markdown text.
func goBlocks(markdown string) ([]codeBlock, error) {
	var (
		blocks   []codeBlock
		inside   bool // in a fenced block of any language
		isGo     bool
		previous string // the last line that is not blank
	)
	for i, line := range strings.Split(markdown, "\n") {
		language, fence := strings.CutPrefix(strings.TrimRight(line, " \r"), "```")
		switch {
		case fence && !inside:
			inside, isGo = true, language == "go"
			if isGo {
				blocks = append(blocks, codeBlock{line: i + 2, wiring: previous == wiringMark})
			}
		case fence:
			inside = false
		case inside && isGo:
			blocks[len(blocks)-1].code += line + "\n"
		}
		if text := strings.TrimSpace(line); text != "" {
			previous = text
		}
	}
	if inside {
		return nil, errors.New("the last code block is not closed")
	}
	return blocks, nil
}

// compile type-checks a block as a user would have it: in a file with the imports that it needs.
func (c codeBlock) compile(b *build) error {
	body := fmt.Sprintf("//line README.md:%d\n%s", c.line, c.code)
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package readme\n"+body, parser.SkipObjectResolution); err != nil {
		// Statements without a function around them.
		body = fmt.Sprintf("func _() error {\n%s\nreturn nil\n}\n", body)
	}
	body = readmeDeclarations + body
	parsed, err := parser.ParseFile(token.NewFileSet(), "", "package readme\n"+body, 0)
	if err != nil {
		return err
	}
	// The parser leaves unresolved what no declaration of the file explains: packages, and Go's own names.
	var imports []string
	for _, ident := range parsed.Unresolved {
		if importPath, ok := readmeImports[ident.Name]; ok {
			imports = append(imports, fmt.Sprintf("%q", importPath))
		}
	}
	slices.Sort(imports)
	source := "package readme\nimport (\n" + strings.Join(slices.Compact(imports), "\n") + "\n)\n" + body
	file, err := parser.ParseFile(b.fset, "readme.go", source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	_, err = b.checkFiles("readme", []*ast.File{file})
	return err
}

func TestREADME(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if errors.Is(err, os.ErrNotExist) {
		t.Fatal("the repository has no README.md")
	}
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if lines := strings.Count(text, "\n"); lines > readmeLines {
		t.Errorf("README.md has %d lines, at most %d", lines, readmeLines)
	}
	blocks, err := goBlocks(text)
	if err != nil {
		t.Fatalf("README.md: %v", err)
	}
	if len(blocks) == 0 || !blocks[0].wiring {
		t.Errorf("README.md: its first ```go block is the wiring and has the line %s before it", wiringMark)
	}
	patterns := []string{"./..."}
	for _, importPath := range readmeImports {
		patterns = append(patterns, importPath)
	}
	b, err := load(readmeModule, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		if err := block.compile(b); err != nil {
			t.Errorf("README.md: the code at line %d does not compile:\n%v", block.line, err)
		}
	}
}

// grpc.NewClient refuses options without transport credentials as the program runs, which no compiler sees: wherever it is
// shown with the adapter's options, the line says so.
func TestRegression_shown_gRPC_clients_have_credentials(t *testing.T) {
	client := regexp.MustCompile(`grpc\.NewClient\(.*budgetgrpc\.DialOptions\(`)
	shown := 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".md") && !strings.HasSuffix(name, ".go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(data), "\n") {
			if !client.MatchString(line) {
				continue
			}
			shown++
			if !strings.Contains(line, "grpc.WithTransportCredentials(") {
				t.Errorf("%s:%d: nothing says that this client needs credentials: %s", path, i+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if shown < 4 {
		t.Errorf("%d clients found, README.md and package budgetgrpc show four", shown)
	}
}

func TestGoBlocks(t *testing.T) {
	const markdown = "# Title\n\n<!-- wiring -->\n\n```go\nfunc run() {\n}\n```\n\n```sh\nmake demo\n```\n```go\nx()\n```\n"
	blocks, err := goBlocks(markdown)
	want := []codeBlock{{line: 6, wiring: true, code: "func run() {\n}\n"}, {line: 14, code: "x()\n"}}
	if err != nil || !slices.Equal(blocks, want) {
		t.Errorf("goBlocks = %v, %v; want %v", blocks, err, want)
	}
	if _, err := goBlocks("```go\nx()\n"); err == nil {
		t.Error("goBlocks accepts a block that is not closed")
	}
}

func TestCodeBlockCompiles(t *testing.T) {
	b, err := load(".", "context", "database/sql", "errors", "net/http")
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{
		"declarations":     "func run() error {\n\tmux.Handle(addr, http.NotFoundHandler())\n\treturn db.PingContext(ctx)\n}\n",
		"statements":       "if err := db.PingContext(ctx); err != nil {\n\treturn err\n}\n",
		"shadowed_package": "func handle(errors []error) int { return len(errors) }\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := (codeBlock{line: 5, code: code}).compile(b); err != nil {
				t.Error(err)
			}
		})
	}
	for name, code := range map[string]string{
		"unused_variable": "func run() {\n\tx := 1\n}\n",
		"unknown_name":    "func run() {\n\tno.Such()\n}\n",
		"syntax":          "func run( {\n",
	} {
		t.Run(name, func(t *testing.T) {
			err := codeBlock{line: 5, code: code}.compile(b)
			if err == nil {
				t.Fatal("compiles")
			}
			if name != "syntax" && !strings.Contains(err.Error(), "README.md:6") {
				t.Errorf("the error does not name the line of README.md: %v", err)
			}
		})
	}
}
