package profiles

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// MaxFileSize is the largest catalog that is read, in bytes.
const MaxFileSize = 1 << 20

//go:embed builtin.yaml
var builtinFile []byte

const builtinName = "builtin.yaml"

// Builtin returns the embedded catalog: the built-in profiles and the defaults of everything else. It is the same one on
// each call.
func Builtin() *Catalog { return builtin() }

var builtin = sync.OnceValue(func() *Catalog {
	c, err := load([]file{{name: builtinName, data: builtinFile}}, builtinName, nil)
	if err != nil {
		// A test loads this file; if it is broken all the same, calls are made once, which harms nobody.
		p := Default()
		p.Name = NoRetry
		c.Profiles = map[Name]*Profile{NoRetry: &p}
	}
	return c
})

// Load reads a catalog on top of the built-in profiles. name stands for the file in errors. What is wrong, unknown,
// out of range or contradictory is an error, a [*CatalogError] that lists all of it; nothing is corrected silently.
// The data is not kept.
func Load(data []byte, name string) (*Catalog, error) {
	return loadWhole([]file{{name: name, data: data}}, name, nil)
}

// loadWhole reads the files on top of the built-in profiles. strays are warnings from before.
func loadWhole(files []file, source string, strays []Problem) (*Catalog, error) {
	c, err := load(files, source, Builtin(), strays...)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// load reads the files on top of base, whose profiles the catalog inherits; nil = nothing. With an error the catalog is
// incomplete, and not nil.
func load(files []file, source string, base *Catalog, strays ...Problem) (*Catalog, error) {
	d := &decoder{builtin: base == nil}
	for _, p := range strays {
		d.warnings.add(p)
	}
	c := newCatalog(source)
	var whole parts
	for i := range files {
		d.begin(&files[i])
		if root := d.parse(files[i].data); root != nil {
			d.part(root, &files[i], &whole)
		} else {
			d.partial = true
		}
	}
	if whole.files > 0 {
		d.catalog(&whole, c, base)
	}
	c.Warnings = d.warnings.warnings()
	return c, d.list.err("catalog " + quoteFile(source))
}

// newCatalog returns a catalog with the defaults of a file that says nothing.
func newCatalog(source string) *Catalog {
	return &Catalog{
		Source:       source,
		Chain:        DefaultChain(),
		Profiles:     map[Name]*Profile{},
		Dependencies: map[string]*Dependency{},
		Services:     map[string]*Service{},
		Overrides:    Overrides{Dependencies: map[string]bool{}},
		from:         newOrigins(),
	}
}

// parse returns the tree of the one document in data, or nil with at least one problem reported.
func (d *decoder) parse(data []byte) (root *yaml.Node) {
	top := &yaml.Node{Line: d.base() + 1, Column: 1}
	if len(data) > MaxFileSize {
		d.report(top, "", fmt.Sprintf("the file is larger than %d bytes", MaxFileSize), "split the fleet's catalog or shorten it")
		return nil
	}
	// The parser is the only foreign code that sees the bytes. Should it ever panic, that is one more invalid file.
	defer func() {
		if p := recover(); p != nil {
			d.report(top, "", "the file is not valid YAML", "check it with a YAML linter")
			root = nil
		}
	}()
	source := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := source.Decode(&doc); {
	case errors.Is(err, io.EOF), err == nil && len(doc.Content) == 0:
		d.report(top, "", "the file is empty", `begin it with "version: 1"`)
		return nil
	case err != nil:
		d.syntax(err)
		return nil
	}
	switch err := source.Decode(&second); {
	case err == nil:
		second.Line += d.base()
		d.report(&second, "", "there is a second document", "keep everything in one, without a line ---")
		return nil
	case !errors.Is(err, io.EOF):
		d.syntax(err)
		return nil
	}
	if !d.checkTree(&doc, 0) {
		return nil
	}
	return doc.Content[0]
}

var syntaxLine = regexp.MustCompile(`^line ([0-9]{1,9}): `)

// syntax reports the parser's error, with the line taken out of its text.
func (d *decoder) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	at := &yaml.Node{Line: d.base() + 1, Column: 1}
	if m := syntaxLine.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1]) // at most nine digits
		at.Line = d.base() + line
		text = text[len(m[0]):]
	}
	d.report(at, "", "not valid YAML: "+text, "check indentation, colons and quotes there")
}

func quoteFile(name string) string {
	if name == "" {
		return "without a name"
	}
	return clip(name, maxText)
}
