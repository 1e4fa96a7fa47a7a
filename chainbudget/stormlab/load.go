package stormlab

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// MaxFileSize is the largest scenario that is read, in bytes.
const MaxFileSize = 1 << 20

// SchemaVersion is the version of the file format that this package reads.
const SchemaVersion = 1

// maxProblems is how many problems an error lists; the rest is counted.
const maxProblems = 50

// LoadFile reads a scenario; see [Load]. An error of the file system is returned as it is.
func LoadFile(path string) (*Scenario, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxFileSize {
		return nil, problem(path, fmt.Sprintf("the file is larger than %d bytes", MaxFileSize), "shorten it")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Load(data, path)
}

// Load reads a scenario in YAML. Keys are the fields of [Scenario] and of its parts in lower case, with an underscore between
// words, under "version: 1"; name stands for the file in errors, and catalogs that the scenario names are looked for beside
// it. What is wrong, unknown or out of range is a *[profiles.CatalogError] that lists all of it with its place and remedy;
// nothing is corrected silently.
func Load(data []byte, name string) (*Scenario, error) {
	root, err := parse(data, name)
	if err != nil {
		return nil, err
	}
	r := &reader{name: name, data: data, places: make(map[string]*yaml.Node), strange: make(map[string]bool)}
	file := struct {
		Version  int
		Scenario `lab:"inline"`
	}{}
	r.read(root, "", &file)
	if r.bad[""] {
		return nil, r.err()
	}
	if r.places["version"] == nil {
		r.report(root, "version", "is missing", `begin the file with "version: 1"`)
	} else if file.Version != SchemaVersion && !r.bad["version"] {
		r.report(r.places["version"], "version", fmt.Sprintf("%d is not known here", file.Version), "write 1, or use a release that knows this version")
	}
	s := &file.Scenario
	if s.Name == "" {
		s.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	}
	for _, f := range s.check() {
		r.find(&f, root)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

func problem(name, what, fix string) error { return problemAt(name, 1, what, fix) }

func problemAt(name string, line int, what, fix string) error {
	return &profiles.CatalogError{Name: "scenario " + name, Problems: []profiles.Problem{{File: name, Line: line, Column: 1, What: what, Fix: fix}}}
}

// syntax is the parser's error, with the line taken out of its text.
func syntax(name, text string) error {
	line := 1
	if n, rest, ok := strings.Cut(strings.TrimPrefix(text, "line "), ": "); ok {
		if at, err := strconv.Atoi(n); err == nil {
			line, text = at, rest
		}
	}
	return problemAt(name, line, "not valid YAML: "+text, "check indentation, colons and quotes there")
}

// parse returns the tree of the one document in data.
func parse(data []byte, name string) (root *yaml.Node, err error) {
	if len(data) > MaxFileSize {
		return nil, problem(name, fmt.Sprintf("the file is larger than %d bytes", MaxFileSize), "shorten it")
	}
	defer func() { // the parser is foreign code: should it ever panic, that is one more invalid file
		if recover() != nil {
			root, err = nil, problem(name, "the file is not valid YAML", "check it with a YAML linter")
		}
	}()
	source := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := source.Decode(&doc); {
	case errors.Is(err, io.EOF), err == nil && len(doc.Content) == 0:
		return nil, problem(name, "the file is empty", `begin it with "version: 1"`)
	case err != nil:
		return nil, syntax(name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := source.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, problem(name, "there is a second document", "keep everything in one, without a line ---")
	}
	return doc.Content[0], nil
}

// reader turns a tree into a scenario, and collects every problem instead of stopping at the first.
type reader struct {
	name     string
	data     []byte
	places   map[string]*yaml.Node // of every value, by its path
	bad      map[string]bool       // paths whose value was refused
	strange  map[string]bool       // paths of mappings with unknown keys
	problems []profiles.Problem
	more     int
}

func (r *reader) report(n *yaml.Node, path, what, fix string) {
	r.add(profiles.Problem{File: r.name, Line: n.Line, Column: n.Column, Path: path, What: what, Fix: fix})
}

func (r *reader) add(p profiles.Problem) {
	if len(r.problems) >= 4*maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, p)
}

// refuse reports a value that cannot be read.
func (r *reader) refuse(n *yaml.Node, path, what, fix string) {
	r.spoil(path)
	r.report(n, path, what, fix)
}

// spoil notes a value that was refused and reported.
func (r *reader) spoil(path string) {
	if r.bad == nil {
		r.bad = make(map[string]bool)
	}
	r.bad[path] = true
}

// spoilt reports whether a value, or one that it is part of or that is part of it, was refused: what is said about what is
// there instead would mislead.
func (r *reader) spoilt(path string) bool {
	for bad := range r.bad {
		if within(path, bad) || within(bad, path) {
			return true
		}
	}
	return false
}

// find reports a finding, unless it only follows from what is reported already.
func (r *reader) find(f *finding, root *yaml.Node) {
	if r.spoilt(f.at) || f.rests != "" && r.spoilt(f.rests) {
		return
	}
	lacks, what := f.at, f.what
	if f.lacks != "" {
		lacks = f.lacks
	}
	if r.places[lacks] == nil {
		if r.strange[lacks[:max(strings.LastIndexByte(lacks, '.'), 0)]] {
			r.spoil(lacks) // the unknown key is reported, and is likely to be this one
			return
		}
		if f.missing != "" {
			what = f.missing
		}
	}
	r.report(r.place(f.at, root), f.at, what, f.fix)
}

func within(path, whole string) bool {
	rest, ok := strings.CutPrefix(path, whole)
	return ok && (rest == "" || whole == "" || rest[0] == '.' || rest[0] == '[')
}

// place returns the node of a path, or of the nearest part around it that is there.
func (r *reader) place(path string, root *yaml.Node) *yaml.Node {
	for {
		if n := r.places[path]; n != nil {
			return n
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return root
		}
		path = path[:cut]
	}
}

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b profiles.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	shown := r.problems[:min(len(r.problems), maxProblems)]
	return &profiles.CatalogError{Name: "scenario " + r.name, Problems: shown, More: r.more + len(r.problems) - len(shown)}
}
