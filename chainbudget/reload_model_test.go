package chainbudget_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// TestReload_model: what is in force after each of many random changes of a watched file is what somebody would say who
// looks at the file, and remembers only the last good one.
func TestReload_model(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 4))
		f := following(t, file(t, attempts(1)))
		require.NoError(t, f.err)
		model := &reloadModel{generation: 1, digest: f.Catalog().Digest}
		good := attempts(1)
		var trace []string
		for range 12 {
			// Each change is one for whoever looks, so that the model cannot miss what the watcher saw.
			step := []string{"good", "comment", "bad", "cut", "deleted"}[r.IntN(5)]
			switch step {
			case "good":
				good = attempts(1 + r.IntN(5))
				put(t, f.path, good)
			case "comment":
				put(t, f.path, good+strings.Repeat("#", r.IntN(9)))
			case "bad":
				put(t, f.path, []string{"version: 2\n", "version: 1\nchian: {}\n", ""}[r.IntN(3)])
			case "cut":
				put(t, f.path, good[:r.IntN(len(good))])
			case "deleted":
				_ = os.Remove(f.path) // it may be gone already
			}
			trace = append(trace, step)
			model.see(f.path)
			if !assert.Eventually(t, func() bool { return model.agrees(f.Catalog()) }, patient, 2*time.Millisecond) {
				t.Fatalf("seed %d, after %v: %+v is in force, want %+v", seed, trace, f.Catalog(), model)
			}
		}
		require.NoError(t, f.Close())
		assert.True(t, model.agrees(f.Catalog()), "and it stays so")
	}
}

// reloadModel is that somebody.
type reloadModel struct {
	generation   int
	rejected     int64
	digest, says string
}

func (m *reloadModel) see(path string) {
	c, err := profiles.LoadFile(path)
	switch {
	case err != nil && err.Error() != m.says:
		m.rejected++
		m.says = err.Error()
	case err == nil:
		m.says = ""
		if digest := c.Digest(); digest != m.digest {
			m.generation++
			m.digest = digest
		}
	}
}

func (m *reloadModel) agrees(s chainbudget.CatalogStatus) bool {
	says := ""
	if s.Err != nil {
		says = s.Err.Error()
	}
	return m.generation == s.Generation && m.rejected == s.Rejected && m.digest == s.Digest && m.says == says
}
