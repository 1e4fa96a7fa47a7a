package profiles

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// A line "-- name --" begins another file, and makes the input a folder.
func split(data []byte) fstest.MapFS {
	fsys, name := fstest.MapFS{}, ""
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok {
			if file, ok := strings.CutSuffix(rest, " --"); ok && fs.ValidPath(file) && file != "." {
				name = file
				if fsys[name] == nil {
					fsys[name] = &fstest.MapFile{}
				}
				continue
			}
		}
		if name != "" {
			fsys[name].Data = append(fsys[name].Data, line...)
		}
	}
	return fsys
}

// Whatever the input is: no panic, an error within bounds, or a catalog that holds together.
func FuzzLoad(f *testing.F) {
	sample, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sample)
	f.Add(builtinFile)
	f.Fuzz(func(t *testing.T, data []byte) {
		load := func() (*Catalog, error) { return Load(data, "fuzz.yaml") }
		if fsys := split(data); len(fsys) > 0 {
			load = func() (*Catalog, error) { return LoadFS(fsys, ".") }
		}
		c, err := load()
		if (c == nil) == (err == nil) {
			t.Fatalf("catalog %v and error %v", c, err)
		}
		if err != nil {
			fuzzError(t, err)
			return
		}
		fuzzCatalog(t, c)
		again, err := load()
		if err != nil || again.canonical() != c.canonical() || again.Digest() != c.Digest() {
			t.Fatalf("the same input means another thing: %v", err)
		}
	})
}

func fuzzError(t *testing.T, err error) {
	if len(err.Error()) > 100_000 {
		t.Fatalf("the error is not bounded: %d bytes", len(err.Error()))
	}
	var list *CatalogError
	if !errors.As(err, &list) {
		return // of the file system
	}
	if len(list.Problems) == 0 || len(list.Problems) > maxProblems || list.More < 0 {
		t.Fatalf("%d problems and %d more", len(list.Problems), list.More)
	}
	if strings.Count(err.Error(), "\n") > maxProblems+1 {
		t.Fatalf("more than one line for a problem:\n%s", err)
	}
	fuzzProblems(t, list.Problems)
}

func fuzzProblems(t *testing.T, list []Problem) {
	for _, p := range list {
		if p.What == "" || p.Fix == "" || len(p.String()) > 2000 || strings.Contains(p.String(), "\n") || p.Line < 0 || p.Column < 0 {
			t.Fatalf("%+v", p)
		}
	}
}

func fuzzCatalog(t *testing.T, c *Catalog) {
	if len(c.Warnings) > maxProblems {
		t.Fatalf("%d warnings", len(c.Warnings))
	}
	fuzzProblems(t, c.Warnings)
	for name, p := range c.Profiles {
		if err := p.Validate(); err != nil || p.Name != name || len(p.Digest()) != 8 {
			t.Fatalf("%s loaded and is invalid: %v", name, err)
		}
		e, err := c.Resolve("anything", name)
		if err != nil || e.Profile != p && !e.Pinned {
			t.Fatalf("%s does not resolve: %v", name, err)
		}
	}
	for name, d := range c.Dependencies {
		e, err := c.Resolve(name, "")
		if (err == nil) != (d.Profile != "") || e.Profile == nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := e.Profile.Validate(); err != nil {
			t.Fatal(err)
		}
		for _, h := range d.Hosts {
			c.Internal(h)
			if got, ok := c.DependencyForHost(strings.Replace(h, "*", "a", 1)); !ok {
				t.Fatalf("%s of %s belongs to %q", h, name, got)
			}
		}
	}
	for name := range c.Services {
		for _, d := range c.Serves(name) {
			if d != name && c.Dependencies[d] == nil {
				t.Fatalf("%s serves %s, which nobody knows", name, d)
			}
		}
	}
	if c.Chain.Budget > c.Chain.MaxBudget || c.Chain.OrphanBudget > c.Chain.MaxBudget || c.Chain.MaxBudget > 99 {
		t.Fatalf("%+v", c.Chain)
	}
}
