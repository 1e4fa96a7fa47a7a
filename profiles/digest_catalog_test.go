package profiles

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Other releases must get the same form: changing it makes every catalog look changed.
func TestCatalogDigest_golden(t *testing.T) {
	c := mustLoad(t, `
version: 1
chain: {budget: 5, mode: observe}
profiles: {ours: {extends: read-heavy, retry: {max_attempts: 3}}}
dependencies:
  payments: {profile: ours, owner: team-ledger, on_failure: closed, hosts: ["*.Pay.internal:443", "[FD00::1]:80", pay.internal.], mesh: envoy, mode: enforce}
  vendor: {profile: third-party, external: true, mode: observe}
services: {pay: {serves: [payments], idempotent: [/b, /a], routes: {"POST /": {budget: 1}}, failure_statuses: [503, 500]}, plain: {serves: [vendor, payments]}, self: {}}
internal_hosts: [b, 10.0.0.0/8]
overrides: {dependencies: {payments: {retries: disabled}}}
`)
	builtins := ""
	for _, n := range Builtin().ProfileNames() {
		if n == ReadHeavy {
			builtins += `profile "ours" ` + c.Profiles["ours"].Digest() + "\n"
		}
		builtins += `profile "` + string(n) + `" ` + Builtin().Profiles[n].Digest() + "\n"
	}
	require.Equal(t, "chainbudget catalog v1\nchain.budget=5\nchain.mode=observe\n"+builtins+
		`dependency "payments" hosts=["*.pay.internal:443","[fd00::1]:80","pay.internal"] mesh="envoy" mode=enforce on_failure=closed owner="team-ledger" profile="ours"
dependency "vendor" external="external" profile="third-party"
service "pay" failure_statuses=500,503 idempotent=["/a","/b"] route "POST /" budget=1 serves=["payments"]
service "plain" serves=["payments","vendor"]
service "self"
internal_hosts=["10.0.0.0/8","b"]
override "payments" retries=disabled
`, c.canonical())
	require.Regexp(t, "^[0-9a-f]{8}$", c.Digest())
	require.NotPanics(t, func() { (&Catalog{Profiles: map[Name]*Profile{"x": nil}}).Digest() })
}

// Every setting that changes what holds changes the digest; spelling does not.
func TestCatalogDigest_sees_meaning_only(t *testing.T) {
	const base = "version: 1\nprofiles: {p: {extends: read-heavy}}\ndependencies: {d: {profile: p}, e: {}}\nservices: {s: {}}\n"
	same := []string{
		"services: {s: {serves: [s]}}\ndependencies: {e: {}, s: {}, d: {profile: p}}\nprofiles: {p: {extends: read-heavy}}\nversion: 1\n",
		"version: 1\nprofiles: {p: {extends: read-heavy, retry: {max_attempts: 4}}}\ndependencies: {d: {profile: p, mode: enforce}, e: {}, s: {}}\nservices: {s: {}}\nchain: {budget: 3, grace: 60m}\noverrides: {}\n",
	}
	want := mustLoad(t, "version: 1\nprofiles: {p: {extends: read-heavy}}\ndependencies: {d: {profile: p}, e: {}, s: {}}\nservices: {s: {}}\n").Digest()
	for _, text := range same {
		require.Equal(t, want, mustLoad(t, text).Digest(), text)
	}
	all := mustLoad(t, base+"overrides: {retries: disabled}\n")
	require.Equal(t, all.Digest(), mustLoad(t, base+"overrides: {retries: disabled, dependencies: {d: {retries: disabled}}}\n").Digest())

	seen := map[string]string{mustLoad(t, base).Digest(): base}
	for _, text := range []string{
		base + "chain: {budget: 2}\n", base + "chain: {max_budget: 11}\n", base + "chain: {orphan_budget: 0}\n", base + "chain: {process_budget: 1}\n",
		base + "chain: {deadlines: ignore}\n", base + "chain: {mode: observe}\n", base + "chain: {unknown: claim}\n", base + "chain: {learn: enforce}\n",
		base + "chain: {holdout: 1%}\n", base + "chain: {grace: 2h}\n", base + "internal_hosts: []\n", base + "internal_hosts: [a]\n",
		base + "overrides: {retries: disabled}\n", base + "overrides: {dependencies: {d: {retries: disabled}}}\n", base + "overrides: {dependencies: {e: {retries: disabled}}}\n",
		"version: 1\nprofiles: {p: {extends: write-path}}\ndependencies: {d: {profile: p}, e: {}}\nservices: {s: {}}\n",
		"version: 1\nprofiles: {q: {extends: read-heavy}}\ndependencies: {d: {profile: q}, e: {}}\nservices: {s: {}}\n",
		"version: 1\nprofiles: {p: {extends: read-heavy}}\ndependencies: {d: {}, e: {}}\nservices: {s: {}}\n",
		"version: 1\nprofiles: {p: {extends: read-heavy}}\ndependencies: {d: {profile: p}}\nservices: {s: {}}\n",
		"version: 1\nprofiles: {p: {extends: read-heavy}}\ndependencies: {d: {profile: p}, e: {}}\n",
	} {
		digest := mustLoad(t, text).Digest()
		require.Empty(t, seen[digest], text)
		seen[digest] = text
	}
	for _, key := range []string{"profile: read-heavy", "owner: a", "on_failure: open", "on_failure: closed", "hosts: [a.internal]", "external: true", "external: false", "mesh: envoy", "mode: observe"} {
		digest := mustLoad(t, "version: 1\nprofiles: {p: {extends: read-heavy}}\ndependencies: {d: {profile: p}, e: {"+key+"}}\nservices: {s: {}}\n").Digest()
		require.Empty(t, seen[digest], key)
		seen[digest] = key
	}
	for _, key := range []string{"serves: [d]", "routes: {/a: {budget: 1}}", "routes: {/a: {budget: 2}}", "idempotent: [/a]", "failure_statuses: [500]"} {
		digest := mustLoad(t, "version: 1\nprofiles: {p: {extends: read-heavy}}\ndependencies: {d: {profile: p}, e: {}}\nservices: {s: {"+key+"}}\n").Digest()
		require.Empty(t, seen[digest], key)
		seen[digest] = key
	}
	require.Len(t, seen, 1+20+9+5)
}

// A key of the chain that the digest forgets could differ unseen.
func TestCatalogDigest_covers_the_chain(t *testing.T) {
	require.Len(t, Chain{}.settings(), reflect.TypeOf(Chain{}).NumField())
	require.Equal(t, 8, reflect.TypeOf(Dependency{}).NumField(), "Name, and what Dependency.settings writes")
	require.Equal(t, 7, reflect.TypeOf(Service{}).NumField(), "Name, what Service.settings writes, and two made from it")
	require.Equal(t, 1, reflect.TypeOf(Route{}).NumField())
	require.Equal(t, 2, reflect.TypeOf(Overrides{}).NumField())
	require.NotEqual(t, Chain{}.settings(), Chain{Grace: time.Hour}.settings())
}
