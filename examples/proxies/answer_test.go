package proxies

import (
	"net/http"
	"slices"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// An answer that the proxy makes itself has no return: the lease is lost, the claim is missing, and the token that the
// entry had kept pays one more attempt.
func TestAnswersOfProxiesCostTheLease(t *testing.T) {
	unreachable := map[string]int{nginx.name: http.StatusBadGateway, haproxy.name: http.StatusServiceUnavailable, caddy.name: http.StatusBadGateway}
	each(t, func(t *testing.T, p proxy, s setting) {
		t.Run("nobody_listens", func(t *testing.T) {
			e := newEntry(t, p.start(t, p.snippet(t, p.http(t), s, freeAddress(t))))
			resp, err := e.send(t, http.MethodGet)
			if err != nil {
				t.Fatal(err)
			}
			if want := unreachable[p.name]; resp.StatusCode != want {
				t.Errorf("status %d, want %d", resp.StatusCode, want)
			}
			checkLeaseLost(t, e)
		})
		t.Run("callee_hangs", func(t *testing.T) {
			released := make(chan struct{})
			callee := newInstances(t, 1, func(a arrival) error {
				select {
				case <-a.r.Context().Done():
				case <-released:
				}
				return nil
			})
			t.Cleanup(func() { close(released) })
			e := newEntry(t, p.start(t, p.hasty(t, p.snippet(t, p.http(t), s, callee.addresses...))))
			resp, err := e.send(t, http.MethodGet)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusGatewayTimeout {
				t.Errorf("status %d, want 504", resp.StatusCode)
			}
			if got, want := callee.sent(), []int{1, 1}; s != retrying && !slices.Equal(got, want) {
				t.Errorf("the attempts arrived %v times, want %v", got, want)
			}
			checkLeaseLost(t, e)
		})
	})
}

func checkLeaseLost(t *testing.T, e *entry) {
	t.Helper()
	if got := e.SDK.Totals(); got.Lost != 2 || got.Dependencies["ledger"].Lent != 2 || got.Dependencies["ledger"].Attempts != 2 {
		t.Errorf("lost %d of %d lent in %d attempts; want 2 of 2 in 2", got.Lost, got.Dependencies["ledger"].Lent, got.Dependencies["ledger"].Attempts)
	}
	checkClaims(t, e.Recorder, ownership.ClaimMissing)
}

// checkClaims checks what came with every failure of the calls so far.
func checkClaims(t *testing.T, rec *chainbudgettest.Recorder, want ownership.Claim) {
	t.Helper()
	for _, event := range rec.Events() {
		if event.Claim != want {
			t.Errorf("attempt %d failed with claim %v, want %v", event.Attempt, event.Claim, want)
		}
	}
}
