//go:build !race

package benchmarks

import (
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

func TestManyDependenciesWork_NoRace(t *testing.T) {
	for _, s := range subject.All() {
		if s.Path == many {
			t.Run(s.String(), func(t *testing.T) { wantWork(t, s) })
		}
	}
}

// Requests to many dependencies go to each equally often.
func TestManyDependenciesHaveTheirTurns_NoRace(t *testing.T) {
	s, err := subject.Find(many, subject.Bare)
	if err != nil {
		t.Fatal(err)
	}
	run := s.Open()
	defer run.Close()
	op := run.Worker()
	for range 2 * subject.Many {
		if err := op(); err != nil {
			t.Fatal(err)
		}
	}
	reached := run.Reached()
	if len(reached) != subject.Many {
		t.Fatalf("%d callees, want %d", len(reached), subject.Many)
	}
	for i, n := range reached {
		if n != 2 {
			t.Fatalf("callee %d had %d requests of %d, want 2", i, n, 2*subject.Many)
		}
	}
}

// What a dependency holds is there after its first request, but for the tenths of its breaker's window.
func TestManyDependenciesDoNotGrowWithTheirRequests_NoRace(t *testing.T) {
	const most = 4 << 10
	held, err := subject.PerDependency(many, subject.SDK, func() time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	if held.Made <= 0 || held.Twenty-held.One > most {
		t.Errorf("%+v: want at most %d B more after 20 requests than after one", held, most)
	}
}
