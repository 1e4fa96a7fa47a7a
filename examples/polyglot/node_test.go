package polyglot

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// automatic makes OpenTelemetry's auto-instrumentation work as it comes, and export nothing.
var automatic = []string{
	"OTEL_TRACES_SAMPLER=always_off", "OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none", "OTEL_NODE_RESOURCE_DETECTORS=none",
}

// TestNodeHopWithoutTheSDK puts a Node service between an entry and k callees, each of which calls a leaf that always fails.
func TestNodeHopWithoutTheSDK(t *testing.T) {
	packages := filepath.Join("node", "node_modules", "@opentelemetry", "auto-instrumentations-node")
	if !haveProgram(t, "node") || !have(t, packages, "Install it: make node, in the repository's top folder.", func() bool {
		_, err := os.Stat(packages)
		return err == nil
	}) {
		return
	}
	for _, k := range []int{1, 3} {
		t.Run(fmt.Sprintf("callees_%d", k), func(t *testing.T) {
			t.Parallel()
			leafURL, leaf := newFailing(t, "leaf")
			command := []string{"node", "--require", "@opentelemetry/auto-instrumentations-node/register", "service.js"}
			var callees []*chainbudgettest.Recorder
			var arrived []*journal
			for i := range k {
				url, j, rec := newCaller(t, fmt.Sprintf("callee-%d", i), "leaf", leafURL)
				command, callees, arrived = append(command, url), append(callees, rec), append(arrived, j)
			}
			node := listen(t, "node", automatic, command...)
			for chain, path := range []string{"/fetch", "/http"} { // the two clients of Node
				entryURL, _, entry := newCaller(t, "shop", "node", node+path, budgethttp.Entry())
				leafBefore := len(leaf.all())
				if status := ask(t, entryURL); status != http.StatusServiceUnavailable {
					t.Errorf("%s: status %d", path, status)
				}
				// One request of the entry is k at the callees and k at the leaf; all others are retries.
				d := of(entry, "node")
				retries := int(d.Retries) + len(leaf.all()) - leafBefore - k*int(d.Attempts)
				if want := 1 + k; retries != want {
					t.Errorf("%s: %d retries in the tree, want %d: one by the entry and one by each callee", path, retries, want)
				}
				if got := entry.SDK.Totals(); got.Minted != 3 || got.Lost != 2 || d.Lent != 2 || d.Home != 0 {
					t.Errorf("%s: minted %d, lent %d, home %d, lost %d; want 3, 2, 0 and the whole lease", path, got.Minted, d.Lent, d.Home, got.Lost)
				}
				for _, event := range entry.Events() {
					if event.Claim != ownership.ClaimMissing {
						t.Errorf("%s: attempt %d failed with claim %v, want a missing one", path, event.Attempt, event.Claim)
					}
				}
				for i, rec := range callees {
					got := rec.SDK.Totals()
					if got.Relayed != int64(2*(chain+1)) || got.Callees != 0 || got.Orphans != 0 || int(got.Dependencies["leaf"].Retries) != chain+1 {
						t.Errorf("%s: callee %d counts %d relayed, %d direct, %d orphans and %d retries; want %d, 0, 0, %d",
							path, i, got.Relayed, got.Callees, got.Orphans, got.Dependencies["leaf"].Retries, 2*(chain+1), chain+1)
					}
				}
			}
			for _, j := range arrived {
				for _, header := range j.all() {
					if w := wire(header); w.Direct || w.Grant > 1 || w.State != otelprop.Valid || w.Entry != "shop" || w.Hop != 1 || header.Get("traceparent") == "" {
						t.Errorf("a callee got %v, want the member of shop's first hop alone, worth one token at most, in a trace", header)
					}
				}
			}
		})
	}
}
