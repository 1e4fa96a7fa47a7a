//go:build !race

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// The promises, with room for a busy machine. A machine that stops for a while breaks any of them, so that the best of
// three runs counts.
func TestStormKeepsItsBounds_NoRace(t *testing.T) {
	var problems []string
	for range 3 {
		n, code, _ := play(t.Context(), t, &watched{}, "-duration", "10s", "-depth", "1")
		if code != exitOK {
			t.Fatalf("exit %d, want %d", code, exitOK)
		}
		if problems = judge(n.Incident); len(problems) == 0 {
			return
		}
		t.Logf("the machine stopped for up to %.0f ms: %s", n.Incident.Stalled, strings.Join(problems, "; "))
	}
	t.Errorf("none of three runs kept the bounds; the last one:\n%s", strings.Join(problems, "\n"))
}

// judge lists what is wrong with a run.
func judge(r *incident.Result) (problems []string) {
	check := func(ok bool, format string, values ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, values...))
		}
	}
	b, a := &r.Before, &r.After
	check(b.Summary.LoadMean >= 2.5 && b.Summary.LoadPeak >= 3, "before: load %.2f and %.2f", b.Summary.LoadMean, b.Summary.LoadPeak)
	check(b.Summary.P95Fault >= 1500, "before: p95 %.0f ms in the fault", b.Summary.P95Fault)
	check(b.Ledger.QueueMax == 50 && b.Ledger.RejectedForRetry > 100, "before: queue %d, %d writes rejected because of a retry", b.Ledger.QueueMax, b.Ledger.RejectedForRetry)
	check(a.Summary.LoadMean <= 1 && a.Summary.LoadPeak <= 1.3, "after: load %.2f and %.2f", a.Summary.LoadMean, a.Summary.LoadPeak)
	check(a.Ledger.RejectedForRetry == 0, "after: %d writes rejected because of a retry", a.Ledger.RejectedForRetry)
	check(a.Summary.RecoveredIn >= 0 && a.Summary.P95After <= 3*a.Summary.P95Healthy, "after: recovered in %v s, p95 %.1f ms, healthy %.1f ms",
		a.Summary.RecoveredIn, a.Summary.P95After, a.Summary.P95Healthy)
	for i := range b.Services {
		check(b.Services[i].Received == a.Services[i].Received, "the load of %s was not the same: %d and %d", b.Services[i].Name, b.Services[i].Received, a.Services[i].Received)
	}
	for _, side := range []*incident.Side{b, a} {
		l, s := &side.Ledger, both(side)
		check(l.Served+l.Failed+l.Rejected+l.Abandoned == l.Arrivals, "%s: the ledger does not know what became of every request: %+v", side.Name, l)
		check(s.OK+s.Failed == s.Received && s.OK == l.Served, "%s: %d payments made, %d answered of %d, the ledger served %d", side.Name, s.OK, s.OK+s.Failed, s.Received, l.Served)
		check(s.Received-s.Refused == l.FirstAttempts, "%s: %d payments, %d refused, %d first attempts", side.Name, s.Received, s.Refused, l.FirstAttempts)
	}
	return problems
}
