//go:build !race

package tables

import (
	"io/fs"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

// fromLibrary loads a scenario that comes with the storm lab.
func fromLibrary(t *testing.T, name string) *stormlab.Scenario {
	t.Helper()
	data, err := fs.ReadFile(stormlab.Library(), name+".yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := stormlab.Load(data, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inLab runs a scenario in virtual time, and returns what came of each variant by its name.
func inLab(t *testing.T, s *stormlab.Scenario) map[string]labRun {
	t.Helper()
	result, err := s.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]labRun{}
	for _, v := range result.Variants {
		runs[v.Name] = labRun{scenario: s, Outcome: v}
	}
	return runs
}

// A labRun is what came of one variant of a scenario.
type labRun struct {
	scenario *stormlab.Scenario
	stormlab.Outcome
}

// service returns what a service saw.
func (r labRun) service(name string) stormlab.ServiceOutcome {
	return r.Services[r.index(name)]
}

func (r labRun) index(name string) int {
	for i, s := range r.scenario.Services {
		if s.Name == name {
			return i
		}
	}
	return -1
}
