package budgethttp_test

import (
	"net/http"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const routed = `
version: 1
dependencies:
  payments: {profile: write-path, hosts: ["payments.internal", "*.pay.internal"]}
  ledger: {profile: read-heavy, hosts: ["ledger.pay.internal", "10.0.0.7:8080"]}
  mails: {profile: third-party, hosts: ["api.mails.test"]}
`

func TestRouterPicksTheDependencyByHost(t *testing.T) {
	for _, tt := range []struct {
		address    string
		dependency string
		carries    bool
	}{
		{"http://payments.internal/x", "payments", true},
		{"http://PAYMENTS.internal:8443/x", "payments", true},
		{"http://a.pay.internal/x", "payments", true},
		{"http://ledger.pay.internal/x", "ledger", true},
		{"http://10.0.0.7:8080/x", "ledger", true},
		{"http://10.0.0.7:8081/x", "", false},
		{"http://api.mails.test/x", "mails", false},
		{"http://other.test/x", "", false},
		{"http://xpayments.internal/x", "", false},
	} {
		t.Run(tt.address, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(routed))
			arrived := new(tap)
			router := budgethttp.NewRouter(inProcess(arrived.watch(answer(200, ""))), rec.SDK)
			if _, err := get(t.Context(), router, tt.address); err != nil {
				t.Fatal(err)
			}
			calls := map[string]int64{}
			for name, d := range rec.SDK.Totals().Dependencies {
				calls[name] = d.Calls
			}
			want := 0
			if tt.dependency != "" {
				want = 1
			}
			if len(calls) != want || want == 1 && calls[tt.dependency] != 1 {
				t.Errorf("calls %v, want one to %q", calls, tt.dependency)
			}
			if carries := arrived.all()[0].header.Get("Chainbudget") != ""; carries != tt.carries {
				t.Errorf("carries a wire: %v, want %v", carries, tt.carries)
			}
		})
	}
}

func TestRouterSharesADependencyWithCode(t *testing.T) {
	// A pinned profile, and one that only code knows: a platform's router may see the host before code names it.
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(`
version: 1
dependencies:
  pinned: {profile: read-heavy, hosts: [pinned]}
  coded: {hosts: [coded]}
`))
	router := budgethttp.NewRouter(answering(200), rec.SDK)
	for _, name := range []string{"pinned", "coded"} {
		if _, err := get(t.Context(), router, "http://"+name+"/"); err != nil {
			t.Fatal(err)
		}
		dep := rec.Dependency(name, profiles.ReadHeavy)
		if dep.Profile().Name != profiles.ReadHeavy {
			t.Errorf("%s has profile %q, want the one that code names", name, dep.Profile().Name)
		}
		if again := rec.Dependency(name, profiles.ReadHeavy); again != dep {
			t.Errorf("%s: named twice alike, two dependencies", name)
		}
		if _, err := get(t.Context(), budgethttp.NewTransport(answering(200), dep), "http://"+name+"/"); err != nil {
			t.Fatal(err)
		}
		if n := rec.SDK.Totals().Dependencies[name].Calls; n != 2 {
			t.Errorf("%s: %d calls counted, want both", name, n)
		}
	}
}

func TestClosingIdleConnectionsReachesTheBase(t *testing.T) {
	rec := chainbudgettest.New(t)
	dep := rec.Dependency("callee", profiles.ReadHeavy)
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"transport": func(b http.RoundTripper) http.RoundTripper { return budgethttp.NewTransport(b, dep) },
		"router":    func(b http.RoundTripper) http.RoundTripper { return budgethttp.NewRouter(b, rec.SDK) },
		"annotator": budgethttp.AnnotateSpan,
	} {
		base := &closable{}
		(&http.Client{Transport: wrap(base)}).CloseIdleConnections()
		if base.closed != 1 {
			t.Errorf("%s: the base was asked %d times", name, base.closed)
		}
		(&http.Client{Transport: wrap(answering(200))}).CloseIdleConnections() // a base without the method is fine
	}
}

type closable struct {
	http.RoundTripper
	closed int
}

func (c *closable) CloseIdleConnections() { c.closed++ }
