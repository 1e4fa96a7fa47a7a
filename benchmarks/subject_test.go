package benchmarks

import (
	"sync"
	"testing"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

// Each subject does what its name says, again and again and on several goroutines: an Op checks its own outcome. Under
// the race detector this also is a test of the SDK and of how the libraries are set up here.
func TestSubjectsWork(t *testing.T) {
	const workers, runs = 4, 20
	for _, s := range subject.All() {
		t.Run(s.String(), func(t *testing.T) {
			run := s.Open()
			defer run.Close()
			var all sync.WaitGroup
			for range workers {
				op := run.Worker()
				all.Go(func() {
					for i := range runs {
						if err := op(); err != nil {
							t.Errorf("run %d: %v", i, err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

func TestSubjectsHaveOneNameEach(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range subject.All() {
		if seen[s.String()] {
			t.Errorf("two subjects are called %v", s)
		}
		seen[s.String()] = true
		if _, err := subject.Find(s.Path, subject.SDK); err != nil {
			t.Errorf("%v is compared with nothing: %v", s, err)
		}
	}
	if _, err := subject.Find("no/such", subject.SDK); err == nil {
		t.Error("Find finds what is not there")
	}
}

// The lease is on the wire when first attempts are measured: an empty purse would be cheaper.
func TestFirstAttemptsCarryALease(t *testing.T) {
	for range 3 {
		lent, err := subject.Lent(100)
		if err != nil {
			t.Fatal(err)
		}
		if lent != 200 {
			t.Fatalf("100 first attempts carried %d tokens, want 2 each", lent)
		}
	}
}
