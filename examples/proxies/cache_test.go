package proxies

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// An answer from a proxy's cache has the return of the request that filled it. Nobody takes it for its own: the lease is
// lost, as with an answer that the proxy made.
func TestCachedAnswersReturnNothing(t *testing.T) {
	callee := newInstances(t, 1, func(a arrival) error {
		a.w.Header().Set("Cache-Control", "max-age=60")
		return nil
	})
	snippet := nginx.snippet(t, nginx.http(t), turnedOff, callee.addresses...)
	snippet = "proxy_cache_path " + filepath.Join(t.TempDir(), "cache") + " keys_zone=answers:1m;\n" +
		strings.Replace(snippet, "location / {", "location / {\nproxy_cache answers;", 1)
	e := newEntry(t, nginx.start(t, snippet))
	for range 2 {
		resp, err := e.send(t, http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK || resp.Header.Get(otelprop.ReturnHeader) != "" {
			t.Errorf("the caller gets status %d and return %q", resp.StatusCode, resp.Header.Get(otelprop.ReturnHeader))
		}
		e.begin(t)
	}
	if n := len(callee.all()); n != 1 {
		t.Fatalf("%d requests arrived, want 1: nginx does not cache", n)
	}
	got := e.SDK.Totals()
	if d := got.Dependencies["ledger"]; d.Lent != 4 || d.Home != 2 || got.Lost != 2 || got.Rejects["relayed"] != 1 {
		t.Errorf("lent %d, home %d, lost %d, relayed returns %d; want 4, 2, 2 and 1", d.Lent, d.Home, got.Lost, got.Rejects["relayed"])
	}
}
