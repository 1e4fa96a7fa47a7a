package otelstack

import (
	"fmt"
	"net/http"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// TestHopWithoutTheSDK puts a service that has otelhttp and no SDK between an entry and k callees that do have it, each
// of which calls a leaf that always fails. The hop passes the member on to all of its callees; each of them may make one
// retry with it, whatever it says, and none owes a return.
func TestHopWithoutTheSDK(t *testing.T) {
	const minted = 3
	for _, k := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("callees_%d", k), func(t *testing.T) {
			base := newBase(t)
			traced := otelhttp.NewTransport(base, otelhttp.WithPropagators(usual))

			var urls []string
			var callees []*chainbudget.SDK
			var arrived []*journal
			leafURL, leaf, _ := newCallee(t, "leaf", 1000)
			for i := range k {
				rec := newSDK(t, fmt.Sprintf("callee-%d", i))
				client := budgethttp.NewTransport(base, rec.Dependency("leaf", steady))
				h := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(send(t, client, newRequest(t, r.Context(), leafURL, "", "")).StatusCode)
				}), rec.SDK)
				j := new(journal)
				urls = append(urls, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					j.note(r)
					h.ServeHTTP(w, r)
				})))
				callees, arrived = append(callees, rec.SDK), append(arrived, j)
			}

			middle := otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status := http.StatusOK
				for _, url := range urls {
					resp := send(t, traced, newRequest(t, r.Context(), url, "", ""))
					status = max(status, resp.StatusCode)
					if ret := resp.Header.Get("chainbudget-return"); ret != "" {
						t.Errorf("a callee answers a hop that cannot read it: %q", ret)
					}
				}
				w.WriteHeader(status)
			}), "middle", otelhttp.WithPropagators(usual))
			middleURL := serve(t, middle)

			entry := newSDK(t, "shop")
			client := budgethttp.NewTransport(base, entry.Dependency("middle", steady))
			entryURL := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(send(t, client, newRequest(t, r.Context(), middleURL, "", "")).StatusCode)
			}), entry.SDK, budgethttp.Entry()))
			send(t, base, newRequest(t, t.Context(), entryURL, "", ""))

			// Requests that one attempt of the entry causes are k at the callees and k at the leaf. All others are retries.
			entryTotals := entry.SDK.Totals()
			attempts := int(entryTotals.Dependencies["middle"].Attempts)
			retries := int(entryTotals.Dependencies["middle"].Retries) + len(leaf.all()) - k*attempts
			if k == 1 && retries > minted {
				t.Errorf("%d retries in the tree, want at most the %d minted", retries, minted)
			}
			// The entry lent 2, of which each callee could use 1, and kept 1 for itself.
			if want := 1 + k; retries != want {
				t.Errorf("%d retries in the tree, want %d: one by the entry and one by each callee", retries, want)
			}
			if entryTotals.Minted != minted || entryTotals.Lost != 2 {
				t.Errorf("the entry minted %d and lost %d, want %d and its lease of 2", entryTotals.Minted, entryTotals.Lost, minted)
			}
			for i, sdk := range callees {
				got := sdk.Totals()
				if int(got.Relayed) != attempts || got.Callees != 0 || got.Orphans != 0 || got.Dependencies["leaf"].Retries != 1 {
					t.Errorf("callee %d counts %d relayed, %d direct, %d orphans and %d retries; want %d, 0, 0, 1",
						i, got.Relayed, got.Callees, got.Orphans, got.Dependencies["leaf"].Retries, attempts)
				}
				for _, s := range arrived[i].all() {
					if len(s.members) != 1 || s.lines != 0 {
						t.Errorf("callee %d got members %q and %d header lines, want the member alone", i, s.members, s.lines)
					}
				}
			}
		})
	}
}

// Below a hop without the SDK the chain's limit and entry are still known, and a second call with the same member to one
// instance brings nothing.
func TestHopWithoutTheSDKRepeatsItsCall(t *testing.T) {
	base := newBase(t)
	traced := otelhttp.NewTransport(base, otelhttp.WithPropagators(usual))
	calleeURL, callee, sdk := newCallee(t, "callee", 0)
	middleURL := serve(t, otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 { // its own retry loop, or three calls
			send(t, traced, newRequest(t, r.Context(), calleeURL, "", ""))
		}
	}), "middle", otelhttp.WithPropagators(usual)))

	rec := newSDK(t, "shop")
	ctx, end := chainbudget.Start(t.Context(), rec.SDK)
	defer end()
	send(t, budgethttp.NewTransport(base, rec.Dependency("middle", steady)), newRequest(t, ctx, middleURL, "", ""))

	if n := len(callee.all()); n != 3 {
		t.Fatalf("%d requests arrived, want 3", n)
	}
	if got := sdk.Totals(); got.Relayed != 3 || got.RepeatedGrants != 2 {
		t.Errorf("counted %d relayed and %d repeated grants, want 3 and 2", got.Relayed, got.RepeatedGrants)
	}
}
