package proxies

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// each runs a test for every proxy in every setting.
func each(t *testing.T, test func(t *testing.T, p proxy, s setting)) {
	for _, p := range allProxies {
		for _, s := range settings {
			t.Run(p.name+"/"+s.String(), func(t *testing.T) {
				t.Parallel()
				test(t, p, s)
			})
		}
	}
}

// The header, the member and the user's baggage cross every proxy byte for byte, and the return comes back: what the callee
// did not need comes home, what it spent does not.
func TestBudgetCrossesProxies(t *testing.T) {
	each(t, func(t *testing.T, p proxy, s setting) {
		callee := newInstances(t, 1, func(a arrival) error {
			a.call() // spends the whole lease on a leaf that fails
			return nil
		})
		e := newEntry(t, p.start(t, p.snippet(t, p.http(t), s, callee.addresses...)))
		resp, err := e.send(t, http.MethodGet, otelprop.BaggageHeader, "tenant=acme,region=eu;ttl=1")
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK || resp.Header.Get(otelprop.ReturnHeader) != "" {
			t.Errorf("the caller gets status %d and return %q", resp.StatusCode, resp.Header.Get(otelprop.ReturnHeader))
		}
		seen := callee.all()
		if len(seen) != 1 || len(seen[0].header) != 1 || len(seen[0].baggage) != 1 {
			t.Fatalf("arrived: %+v; want one request with one line of each header", seen)
		}
		core, params, _ := strings.Cut(seen[0].header[0], ";")
		if want := otelprop.MemberKey + "=" + core + ",tenant=acme,region=eu;ttl=1"; seen[0].baggage[0] != want {
			t.Errorf("baggage %q, want %q", seen[0].baggage[0], want)
		}
		if w := seen[0].wire; !w.Direct || w.Grant != 2 || w.Caller != "shop" || w.Attempt != 1 || !strings.HasPrefix(params, "caller=shop;attempt=1;profile=steady@") {
			t.Errorf("header %q", seen[0].header[0])
		}
		if got := callee.sdks[0].SDK.Totals(); got.Callees != 1 || got.Relayed != 0 || got.Dependencies["leaf"].Retries != 2 {
			t.Errorf("the callee counts %d direct, %d relayed, %d retries; want 1, 0, 2", got.Callees, got.Relayed, got.Dependencies["leaf"].Retries)
		}

		// Another chain, whose callee needs nothing.
		e.begin(t)
		idle := newInstances(t, 1, func(arrival) error { return nil })
		e.url = "http://" + p.start(t, p.snippet(t, p.http(t), s, idle.addresses...))
		if _, err := e.send(t, http.MethodGet); err != nil {
			t.Fatal(err)
		}
		if got := e.SDK.Totals(); got.Lost != 0 || got.Dependencies["ledger"].Lent != 4 || got.Dependencies["ledger"].Home != 2 {
			t.Errorf("the entry lost %d, lent %d and got back %d; want 0, 4 and the second lease of 2", got.Lost, got.Dependencies["ledger"].Lent, got.Dependencies["ledger"].Home)
		}
	})
}

// A callee that answers with a failure of its own claims it, and the claim arrives with its owner: the entry retries next
// to the cause.
func TestClaimsCrossProxies(t *testing.T) {
	for _, p := range allProxies {
		for _, s := range []setting{byDefault, turnedOff} {
			t.Run(p.name+"/"+s.String(), func(t *testing.T) {
				t.Parallel()
				callee := newInstances(t, 1, func(a arrival) error {
					a.w.WriteHeader(http.StatusServiceUnavailable)
					return nil
				})
				e := newEntry(t, p.start(t, p.snippet(t, p.http(t), s, callee.addresses...)))
				resp, err := e.send(t, http.MethodGet)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("status %d", resp.StatusCode)
				}
				if got, want := callee.sent(), []int{1, 1, 1, 1}; !slices.Equal(got, want) {
					t.Errorf("the attempts arrived %v times, want %v", got, want)
				}
				for _, event := range e.Events() {
					if event.Claim != ownership.ClaimClaimed || event.Owner != "ledger" {
						t.Errorf("attempt %d failed with claim %v of %q, want claimed by ledger", event.Attempt, event.Claim, event.Owner)
					}
				}
				if got := e.SDK.Totals(); got.Lost != 0 {
					t.Errorf("%d tokens are lost", got.Lost)
				}
			})
		}
	}
}
