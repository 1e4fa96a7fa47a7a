package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// sourceModel is what a source has to be, told slowly: nothing is kept but what was in force, and the text on the disk.
type sourceModel struct {
	inForce    *profiles.Catalog
	generation int64
	rejected   int64
	err        string
	swaps      int
	named      int // dependencies for which code named the profile "own"
	uses       int // those of them that have had it
}

// see is a look at the file.
func (m *sourceModel) see(path string) {
	if m.inForce.Profiles["own"] != nil {
		m.uses = m.named
	}
	c, err := profiles.LoadFile(path)
	why := ""
	if err != nil {
		why = err.Error()
	} else if m.uses > 0 && c.Profiles["own"] == nil {
		why = fmt.Sprint("does not fit ", m.uses)
	}
	switch {
	case why == "" && c.Digest() == m.inForce.Digest():
	case why == "":
		m.inForce = c
		m.generation++
		m.swaps++
	case why != m.err:
		m.rejected++
	}
	m.err = why
}

// TestSource_model: random files, good, bad, gone, identical in meaning or cut off anywhere, against the model.
func TestSource_model(t *testing.T) {
	own := func(n int) string {
		return fmt.Sprintf("version: 1\nprofiles:\n  own: {extends: read-heavy, retry: {max_attempts: %d}}\n", n)
	}
	var refused, swapped, same int
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 126))
		dir := t.TempDir()
		path := filepath.Join(dir, "catalog.yaml")
		content := own(1)
		put := func(text string) {
			content = text
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		put(content)
		first, err := profiles.LoadFile(path)
		require.NoError(t, err)
		s := new(SDK)
		warned := map[string]int{}
		s.Init(Config{Service: "checkout", Catalog: first, Warn: func(_ string, attributes ...any) { warned[fmt.Sprint(attributes[1])]++ }})
		s.source.path, s.source.load = path, profiles.LoadFile
		model := &sourceModel{inForce: first, generation: 1}
		var trace []string
		for range 60 {
			step := []string{"good", "good", "comment", "bad", "cut", "deleted", "folder", "unfit", "again", "used"}[r.IntN(10)]
			switch step {
			case "good":
				put(own(1 + r.IntN(5)))
			case "comment":
				put("# " + strings.Repeat("x", r.IntN(9)) + "\n" + content)
			case "bad":
				put([]string{"version: 2\n", "version: 1\nchian: {}\n", "", "version: 1\nchain: {budget: 500}\n"}[r.IntN(4)])
			case "cut":
				put(own(1 + r.IntN(5))[:r.IntN(60)])
			case "deleted":
				require.NoError(t, os.RemoveAll(path))
			case "folder":
				require.NoError(t, os.RemoveAll(path))
				require.NoError(t, os.Mkdir(path, 0o750))
				require.NoError(t, os.WriteFile(filepath.Join(path, "a.yaml"), []byte(own(1+r.IntN(5))), 0o600))
			case "unfit":
				put(fmt.Sprintf("version: 1\nchain: {budget: %d}\n", 4+r.IntN(3)))
			case "used":
				_, _, err := s.Dependency(fmt.Sprint("d", model.named), "own")
				require.Equal(t, model.inForce.Profiles["own"] == nil, err != nil)
				model.named++
			}
			trace = append(trace, step)
			before := model.swaps
			model.see(path)
			s.reload()
			status := s.CatalogStatus()
			why := ""
			if status.Err != nil {
				if why = status.Err.Error(); strings.Contains(why, "does not fit this service") {
					why = fmt.Sprint("does not fit ", strings.Count(why, "unknown profile"))
				}
			}
			require.Equal(t, model.err, why, "seed %d: %v", seed, trace)
			require.Equal(t, model.inForce.Digest(), status.Generation.Digest(), "seed %d: %v", seed, trace)
			require.Equal(t, model.generation, status.Generation.Number(), "seed %d: %v", seed, trace)
			require.Equal(t, model.rejected, status.Rejected, "seed %d: %v", seed, trace)
			switch {
			case status.Err != nil:
				refused++
			case model.swaps > before:
				swapped++
			default:
				same++
			}
		}
		for text, times := range warned {
			require.Equal(t, 1, times, "seed %d: %s", seed, text)
		}
	}
	t.Logf("%d looks found something bad, %d another catalog, %d the same one", refused, swapped, same)
	require.Greater(t, min(refused, swapped, same), 200, "every kind")
}
