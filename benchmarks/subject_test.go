package benchmarks

import (
	"strings"
	"sync"
	"testing"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// Each subject does what its name says, again and again and on several goroutines: an Op checks its own outcome, and the
// callees count. Under the race detector this also is a test of the SDK and of how the libraries are set up here. Those of
// many dependencies take long to make and have a test without it.
func TestSubjectsWork(t *testing.T) {
	for _, s := range subject.All() {
		if s.Path != many {
			t.Run(s.String(), func(t *testing.T) { wantWork(t, s) })
		}
	}
}

const many = "transport/10000_dependencies"

func wantWork(t *testing.T, s subject.Subject) {
	t.Helper()
	const workers, runs = 4, 20
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
	reached := int64(0)
	for _, n := range run.Reached() {
		reached += n
	}
	if want := attempts(s.Path) * workers * runs; reached != want {
		t.Errorf("%d operations reached their callees %d times, want %d", workers*runs, reached, want)
	}
	if totals, ok := run.Totals(); ok {
		wantCounted(t, s.Path, totals, workers*runs)
	}
}

// attempts is how often one operation reaches its callee.
func attempts(path string) int64 {
	switch {
	case strings.HasPrefix(path, "refusal/"), strings.HasSuffix(path, "/breaker_open"), strings.HasPrefix(path, "decision/"), path == "chain":
		return 0
	case strings.HasSuffix(path, "/one_retry"):
		return 2
	default:
		return 1
	}
}

// wantCounted demands of the SDK that it has retried, or has refused to, for the reason that the path is about.
func wantCounted(t *testing.T, path string, totals engine.Totals, ops int64) {
	t.Helper()
	var retries int64
	denied := map[string]int64{}
	for _, d := range totals.Dependencies {
		retries += d.Retries
		for reason, n := range d.Denied {
			denied[reason] += n
		}
	}
	want, reason := int64(0), ""
	switch path {
	case "transport/denied", "do/denied", "grpc/denied":
		reason = ownership.ReasonChainExhausted.String()
	case "transport/denied/unclaimed":
		reason = ownership.ReasonUnclaimed.String()
	default:
		if strings.HasSuffix(path, "/one_retry") {
			want = ops
		}
	}
	if retries != want {
		t.Errorf("%d operations made %d retries, want %d", ops, retries, want)
	}
	if reason != "" && denied[reason] != ops {
		t.Errorf("%d operations were refused %v, want all as %s", ops, denied, reason)
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
