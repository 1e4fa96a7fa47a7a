//go:build !race

package benchmarks

import (
	"math"
	"testing"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

// cost returns the allocations and bytes of one operation.
func cost(t *testing.T, path, who string) (allocs, bytes float64) {
	t.Helper()
	s, err := subject.Find(path, who)
	if err != nil {
		t.Fatal(err)
	}
	run := s.Open()
	defer run.Close()
	allocs, bytes, err = subject.Memory(run.Worker(), 500)
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	return math.Round(allocs), bytes
}

// The allocations that the project promises, on top of what the operation costs without the SDK.
func TestAllocsAreWithinTheirTargets(t *testing.T) {
	for _, c := range []struct {
		path string
		bare bool
		most float64
	}{
		{"transport/first_attempt", true, 5},
		{"transport/first_attempt/timeout", true, 10},
		{"do", false, 1},
		{"decision/allowed", false, 0},
		{"refusal/breaker_open", false, 0},
		{"refusal/breaker_open/transport", false, 0},
		{"refusal/budget_empty", false, 0},
		{"refusal/budget_empty/with_error", false, 1},
	} {
		t.Run(c.path, func(t *testing.T) {
			allocs, _ := cost(t, c.path, subject.SDK)
			if c.bare {
				base, _ := cost(t, c.path, subject.Bare)
				allocs -= base
			}
			if allocs > c.most {
				t.Errorf("%v allocations, at most %v", allocs, c.most)
			}
		})
	}
}

// What the SDK adds is at most a quarter of what the library adds that a user would take in its place.
func TestAllocsAreAQuarterOfOthers(t *testing.T) {
	for path, peer := range map[string]string{
		"transport/first_attempt":  subject.Failsafe,
		"full_hop":                 subject.OTelHTTP,
		"full_hop/foreign_baggage": subject.OTelHTTP,
	} {
		t.Run(path, func(t *testing.T) {
			base, _ := cost(t, path, subject.Bare)
			ours, _ := cost(t, path, subject.SDK)
			theirs, _ := cost(t, path, peer)
			if ours-base > (theirs-base)/4 {
				t.Errorf("the SDK adds %v allocations, %s %v: want at most a quarter", ours-base, peer, theirs-base)
			}
		})
	}
}

// Metrics add nothing to a call, whoever observes them. What a collection allocates is not the call's: the least of several
// measurements has none in it.
func TestAllocsOfMetricsAreNone(t *testing.T) {
	const path = "transport/first_attempt/metrics"
	least := func(who string) float64 {
		n := math.Inf(1)
		for range 5 {
			allocs, _ := cost(t, path, who)
			n = min(n, allocs)
		}
		return n
	}
	if with, without := least(subject.SDK), least(subject.NoMetrics); with > without {
		t.Errorf("%v allocations with a provider that collects, %v without", with, without)
	}
}

// A breaker is no reason to allocate.
func TestAllocsOfABreakerAreNone(t *testing.T) {
	with, _ := cost(t, "transport/first_attempt", subject.SDK)
	without, _ := cost(t, "transport/first_attempt", subject.NoBreaker)
	if with > without {
		t.Errorf("%v allocations with a breaker, %v without", with, without)
	}
}

// A replayable body of 1 MiB is never copied: what a PUT costs beyond a bare one does not depend on it.
func TestAllocsOfAnUploadDoNotGrowWithItsBody(t *testing.T) {
	const most = 4 << 10
	_, base := cost(t, "transport/put_1mib", subject.Bare)
	_, ours := cost(t, "transport/put_1mib", subject.SDK)
	if ours-base > most {
		t.Errorf("%.0f B beyond a bare PUT of 1 MiB, at most %d", ours-base, most)
	}
	if _, copied := cost(t, "transport/put_1mib", subject.Failsafe); copied-base < 1<<20 {
		t.Errorf("a library known to copy the body took %.0f B: the measurement does not see copies", copied-base)
	}
}

// Requests to ever new hosts and paths leave nothing behind.
func TestAllocsAreNotKeptPerHostOrPath(t *testing.T) {
	op, end := subject.Spread()
	defer end()
	grown, err := subject.Growth(op, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	if grown > subject.GrowthLimit {
		t.Errorf("the heap grew by %d B over 20,000 requests to as many hosts, at most %d", grown, subject.GrowthLimit)
	}
}
