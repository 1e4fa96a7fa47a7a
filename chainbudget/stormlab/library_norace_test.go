//go:build !race

package stormlab_test

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

// Every scenario of the library keeps its thresholds: what was published shows. They take too long under the race detector.
func TestLibrary_NoRace(t *testing.T) {
	t.Run("docs", func(t *testing.T) {
		s, err := stormlab.Load(documented(t), "ours.yaml")
		if err != nil {
			t.Fatal(err)
		}
		keeps(t, s)
	})
	files, err := fs.Glob(stormlab.Library(), "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("the library has %d scenarios: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := fs.ReadFile(stormlab.Library(), file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := stormlab.Load(data, file)
			if err != nil {
				t.Fatal(err)
			}
			keeps(t, s)
		})
	}
}

func keeps(t *testing.T, s *stormlab.Scenario) {
	if len(s.Expect) == 0 {
		t.Error("it expects nothing: nobody would notice that it shows something else")
	}
	for _, v := range run(t, s).Verdicts {
		if !v.OK {
			measured := "nothing"
			if v.Measured != nil {
				measured = fmt.Sprint(*v.Measured)
			}
			t.Errorf("%s: %s of %q is %s", v.Variant, v.Metric, v.Service, measured)
		}
	}
}
