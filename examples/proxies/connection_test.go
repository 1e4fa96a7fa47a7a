package proxies

import (
	"errors"
	"net/http"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// On a connection that has served a request before, HAProxy does not say that the callee failed: it closes the
// connection. The SDK takes that for an attempt without an answer, and net/http's own repetition never carries tokens.
func TestHAProxyEndsTheCallersConnection(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			callee := newInstances(t, 1, func(a arrival) error {
				if a.n > 1 {
					a.call()
					breakConnection(t, a.w)
				}
				return nil
			})
			e := newEntry(t, haproxy.start(t, haproxy.snippet(t, haproxy.http(t), turnedOff, callee.addresses...)))
			e.base.DisableKeepAlives = false
			if _, err := e.send(t, method); err != nil {
				t.Fatal(err)
			}
			e.begin(t)
			resp, err := e.send(t, method)

			worth := 0
			for _, saw := range callee.all()[1:] {
				worth += int(saw.wire.Grant)
			}
			if worth != lent {
				t.Errorf("%d tokens arrived with %d requests, want the one lease of %d", worth, len(callee.all())-1, lent)
			}
			switch first := e.Events()[0]; {
			case first.Err == nil || first.Status != 0:
				t.Errorf("the first attempt ended with status %d and %v, want no answer", first.Status, first.Err)
			case method == http.MethodPost:
				if denied, ok := errors.AsType[*chainbudget.DeniedError](err); !ok || denied.Reason != ownership.ReasonNotIdempotent {
					t.Errorf("the call ends with %v, %v; want an error: it may not be repeated", resp, err)
				}
			case err != nil || resp.StatusCode != http.StatusBadGateway:
				t.Errorf("the call ends with %v, %v; want 502 on the new connection", resp, err)
			}
			if got := callee.total(func(t chainbudget.Totals) int64 { return t.Dependencies["leaf"].Retries }); got != lent {
				t.Errorf("%d retries at the leaf, want %d", got, lent)
			}
			if got := e.SDK.Totals().Lost; got != lent {
				t.Errorf("%d tokens are lost, want %d", got, lent)
			}
		})
	}
}
