package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play runs the command with -json and reads what it wrote.
func play(ctx context.Context, t *testing.T, stderr *watched, args ...string) (n numbers, code int, report string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "report.html")
	var stdout bytes.Buffer
	code = run(ctx, append(args, "-json", "-out", out), &stdout, stderr)
	if err := json.Unmarshal(stdout.Bytes(), &n); err != nil {
		t.Fatalf("exit %d, stdout is not JSON: %v\n%s", code, err, stderr)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stderr.String(), "report: "+out) {
		t.Errorf("stderr does not say where the report is: %q", stderr)
	}
	return n, code, string(text)
}

// watched is a standard error that calls seen once it contains a word.
type watched struct {
	mu   sync.Mutex
	text strings.Builder
	word string
	seen func()
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.seen != nil && strings.Contains(w.text.String(), w.word) {
		w.seen()
		w.seen = nil
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// The shortest run there is: its totals are recounted from the counters of the single servers and from the timeline,
// which is made of their records. All of it holds however busy the machine is.
func TestStorm(t *testing.T) {
	n, code, report := play(t.Context(), t, &watched{}, "-duration", "10s", "-depth", "3", "-rate", "160")
	if code != exitOK || !n.Complete || n.Incident == nil || !n.Incident.Complete {
		t.Fatalf("exit %d, complete %t, want a whole run", code, n.Complete)
	}
	if len(n.Chains) != 2 {
		t.Fatalf("%d chains, want the published and the deep one", len(n.Chains))
	}
	for i := range n.Chains {
		recountChain(t, &n.Chains[i])
	}
	for _, side := range []*incident.Side{&n.Incident.Before, &n.Incident.After} {
		t.Run(side.Name, func(t *testing.T) { recount(t, side) })
	}
	pins := 0
	for _, warning := range n.Warnings {
		if strings.Contains(warning, "pinned=ledger-payment") {
			pins++
		}
	}
	if pins != 2 {
		t.Errorf("%d warnings of the pinned profile, want one from each service: %q", pins, n.Warnings)
	}
	if said := slices.Compact(slices.Sorted(slices.Values(n.Warnings))); len(said) != len(n.Warnings) {
		t.Errorf("%d warnings, %d of them different: the reader looks for the one that matters: %q", len(n.Warnings), len(said), n.Warnings)
	}
	for _, want := range []string{"Grab and Go", "Seven services, D fails", "Deep chain, the last of 3 calls fails", n.Incident.Targets[0].Got} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not have %q", want)
		}
	}
	var tables strings.Builder
	if err := n.writeTables(&tables); err != nil {
		t.Fatal(err)
	}
	for _, row := range n.Incident.Rows() {
		if !strings.Contains(tables.String(), row.What) {
			t.Errorf("the tables do not have %q", row.What)
		}
	}
}

func recountChain(t *testing.T, r *chain.Result) {
	t.Helper()
	if len(r.Counts) != 6 {
		t.Errorf("%s: %d policies, want 6", r.Title, len(r.Counts))
	}
	for _, c := range r.Counts {
		total := int64(0)
		for _, requests := range c.Requests {
			total += requests
		}
		if total != c.Total || c.Requests[0] != c.Roots || len(c.Requests) != len(r.Nodes) {
			t.Errorf("%s, %s: the total is %d, the servers received %v for %d roots", r.Title, c.Policy, c.Total, c.Requests, c.Roots)
		}
	}
}

// both adds the counters of the two services.
func both(side *incident.Side) (sum incident.ServiceCounts) {
	for _, s := range side.Services {
		sum.Received += s.Received
		sum.OK += s.OK
		sum.Failed += s.Failed
		sum.Refused += s.Refused
	}
	return sum
}

func recount(t *testing.T, side *incident.Side) {
	t.Helper()
	var sum struct{ offered, load, retries, served, rejected int64 }
	queue := 0
	for _, tick := range side.Ticks {
		sum.offered += int64(tick.Offered)
		sum.load += int64(tick.Load)
		sum.retries += int64(tick.Retries)
		sum.served += int64(tick.Served)
		sum.rejected += int64(tick.Rejected)
		queue = max(queue, tick.Queue)
	}
	l := side.Ledger
	byCaller := int64(0)
	for _, n := range l.ByCaller {
		byCaller += n
	}
	services := both(side)
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"arrivals, from the timeline", sum.load, l.Arrivals},
		{"arrivals, by caller", byCaller, l.Arrivals},
		{"arrivals, first and repeated", l.FirstAttempts + l.Retries, l.Arrivals},
		{"retries, from the timeline", sum.retries, l.Retries},
		{"served, from the timeline", sum.served, l.Served},
		{"rejected, from the timeline", sum.rejected, l.Rejected},
		{"longest queue, from the timeline", int64(queue), int64(l.QueueMax)},
		{"payments, from the timeline", sum.offered, services.Received},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, counted %d", c.what, c.got, c.want)
		}
	}
	// These are equal when no user lost patience: see the test of the bounds.
	for _, c := range []struct {
		what      string
		got, most int64
	}{
		{"arrivals, by what became of them", l.Served + l.Failed + l.Rejected + l.Abandoned, l.Arrivals},
		{"payments, by how they were answered", services.OK + services.Failed, services.Received},
		{"payments made, from the ledger", services.OK, l.Served},
		{"first attempts, from the services", l.FirstAttempts, services.Received - services.Refused},
	} {
		if c.got > c.most {
			t.Errorf("%s: %d, counted only %d", c.what, c.got, c.most)
		}
	}
}

// An interrupt ends the run at once, with the numbers so far.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, code, report := play(ctx, t, &watched{word: "naive, 2 per hop", seen: cancel}, "-duration", "40s")
	if code != exitInterrupted || n.Complete || n.Incident != nil {
		t.Errorf("exit %d, complete %t, incident %v: want %d and no whole run", code, n.Complete, n.Incident, exitInterrupted)
	}
	if len(n.Chains) != 1 || len(n.Chains[0].Counts) != 1 || n.Chains[0].Counts[0].Total != 5*39 {
		t.Errorf("the policy that was complete is not there: %+v", n.Chains)
	}
	if !strings.Contains(report, "The run was interrupted") {
		t.Error("the report does not say that the run was interrupted")
	}
}
