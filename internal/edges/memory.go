package edges

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Version is the version of the saved form. A file of any other version is refused whole.
const Version = 1

// maxFile bounds what is read of a saved table.
const maxFile = 8 << 20

// Memory is a table as it is saved: what a restart, or another instance, begins with.
type Memory struct {
	Version    int               `json:"version"`
	Operations []OperationMemory `json:"operations"`
}

// OperationMemory is one saved operation.
type OperationMemory struct {
	Name  string       `json:"name"`
	Clean int64        `json:"clean"`
	Own   int64        `json:"own"`
	Edges []EdgeMemory `json:"edges"`
}

// EdgeMemory is one saved edge.
type EdgeMemory struct {
	Dependency string  `json:"dependency"`
	Requests   int64   `json:"requests"`
	Failed     float64 `json:"failed"`
	Both       float64 `json:"both"`
	Alone      int64   `json:"alone"`
}

// Class is what the saved edge has shown.
func (m *EdgeMemory) Class() Class { return classify(m.Both, m.Failed) }

// Memory returns the table as it is now, sorted by name.
func (t *Table) Memory() Memory {
	m := Memory{Version: Version}
	t.each(func(o *Operation) {
		om := OperationMemory{Name: o.name, Clean: o.clean.Load(), Own: max(0, o.own.Load())}
		if list := o.edges.Load(); list != nil {
			for _, e := range *list {
				e.mu.Lock()
				em := EdgeMemory{Dependency: e.dependency, Requests: e.requests.Load(), Failed: e.failed, Both: e.both, Alone: e.alone.Load()}
				e.mu.Unlock()
				om.Edges = append(om.Edges, em)
			}
		}
		if om.Clean > 0 || len(om.Edges) > 0 {
			m.Operations = append(m.Operations, om)
		}
	})
	m.sort()
	return m
}

// Empty reports whether the table has learned nothing yet.
func (t *Table) Empty() bool {
	empty := true
	t.each(func(o *Operation) { empty = empty && o.clean.Load() == 0 && o.edges.Load() == nil })
	return empty
}

func (m *Memory) sort() {
	slices.SortFunc(m.Operations, func(a, b OperationMemory) int { return strings.Compare(a.Name, b.Name) })
	for i := range m.Operations {
		slices.SortFunc(m.Operations[i].Edges, func(a, b EdgeMemory) int { return strings.Compare(a.Dependency, b.Dependency) })
	}
}

// Remember adds a saved table to this one.
func (t *Table) Remember(m Memory) {
	for _, om := range m.Operations {
		o := t.Operation(om.Name)
		o.clean.Add(om.Clean)
		o.own.Add(om.Own)
		for _, em := range om.Edges {
			e := o.edgeFor(strings.Clone(em.Dependency))
			e.requests.Add(em.Requests)
			e.alone.Add(em.Alone)
			e.mu.Lock()
			e.failed += em.Failed
			e.both += em.Both
			if e.failed > window {
				e.scale(window / e.failed)
			}
			e.mu.Unlock()
		}
	}
}

// Merge makes one memory of several instances'.
func Merge(all ...Memory) Memory {
	t := New(0)
	for _, m := range all {
		t.Remember(m)
	}
	return t.Memory()
}

// Encode writes the saved form.
func (m Memory) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", " ")
	return append(b, '\n'), err
}

// Decode reads the saved form. What is corrupt, of another version or out of range is refused whole; the error says
// what and where.
func Decode(data []byte) (Memory, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var m Memory
	if err := d.Decode(&m); err != nil {
		return Memory{}, fmt.Errorf("chainbudget: saved edges are not readable: %w: delete the file to start empty", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Memory{}, errors.New("chainbudget: saved edges go on after their end: delete the file to start empty")
	}
	if m.Version != Version {
		return Memory{}, fmt.Errorf("chainbudget: saved edges have version %d, this SDK reads %d: delete the file to start empty",
			m.Version, Version)
	}
	if err := m.check(); err != nil {
		return Memory{}, err
	}
	return m, nil
}

// check looks for numbers that cannot have been saved.
func (m *Memory) check() error {
	seen := map[[2]string]bool{}
	edges := 0
	for _, o := range m.Operations {
		if key := [2]string{o.Name}; seen[key] {
			return fmt.Errorf("chainbudget: saved edges name operation %.80q twice", o.Name)
		} else {
			seen[key] = true
		}
		if o.Clean < 0 || o.Own < 0 || o.Own > o.Clean {
			return fmt.Errorf("chainbudget: saved edges of operation %.80q: %d own failures of %d requests", o.Name, o.Own, o.Clean)
		}
		for _, e := range o.Edges {
			key := [2]string{o.Name, "\x00" + e.Dependency}
			edges++
			switch {
			case seen[key]:
				return fmt.Errorf("chainbudget: saved edges of operation %.80q name %.80q twice", o.Name, e.Dependency)
			case !sane(e.Failed) || !sane(e.Both) || e.Both > e.Failed || e.Requests < 0 || e.Alone < 0:
				return fmt.Errorf("chainbudget: saved edge %.80q to %.80q: %g of %g failures, %d requests, %d alone: not a count",
					o.Name, e.Dependency, e.Both, e.Failed, e.Requests, e.Alone)
			}
			seen[key] = true
		}
	}
	if edges > MaxEdges || len(m.Operations) > MaxOperations+1 {
		return fmt.Errorf("chainbudget: %d saved edges of %d operations are more than %d and %d",
			edges, len(m.Operations), MaxEdges, MaxOperations)
	}
	return nil
}

// sane reports whether a weight can have been saved; a sum of fractions may be a little off.
func sane(weight float64) bool { return weight >= 0 && weight <= window*1.001 && !math.IsNaN(weight) }

// Save replaces a file by the table as it is now, all or nothing.
func (t *Table) Save(path string) error {
	data, err := t.Memory().Encode()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("chainbudget: edges are not saved: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("chainbudget: edges are not saved: %w", err)
	}
	return nil
}

// LoadAll reads several saved files, all of which must exist. On an error, which names every file that is not readable,
// there are none.
func LoadAll(paths ...string) ([]Memory, error) {
	var (
		all  []Memory
		errs []error
	)
	for _, path := range paths {
		_, err := os.Stat(path)
		var m Memory
		if err == nil {
			m, err = Load(path)
		} else {
			err = fmt.Errorf("chainbudget: saved edges are not readable: %w", err)
		}
		all, errs = append(all, m), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

// Load reads a saved file. A file that does not exist is an empty memory.
func Load(path string) (Memory, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return Memory{Version: Version}, nil
	}
	if err != nil {
		return Memory{}, fmt.Errorf("chainbudget: saved edges are not readable: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return Memory{}, fmt.Errorf("chainbudget: saved edges are not readable: %w", err)
	case len(data) > maxFile:
		return Memory{}, fmt.Errorf("chainbudget: saved edges %.200q are larger than %d bytes: delete the file to start empty", path, maxFile)
	}
	m, err := Decode(data)
	if err != nil {
		return Memory{}, fmt.Errorf("%w (file %.200q)", err, path)
	}
	return m, nil
}
