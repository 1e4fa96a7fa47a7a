package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// TestExternal_is_judged_per_host: a declaration without hosts is about wherever the dependency is called, one with hosts
// about those; elsewhere, after a redirect, the host decides.
func TestExternal_is_judged_per_host(t *testing.T) {
	catalog, err := profiles.Load([]byte(rigCatalog+`
dependencies:
  anywhere: {profile: plain, external: false}
  hosted: {profile: plain, external: false, hosts: ["api.example.com"]}
  outside: {profile: plain, external: true, hosts: ["ours.internal"]}
  undeclared: {profile: plain}
`), "external")
	require.NoError(t, err)
	sdk := new(SDK)
	sdk.Init(Config{Service: "checkout", Catalog: catalog})
	for _, c := range []struct {
		dependency, host string
		external         bool
	}{
		{"anywhere", "api.example.com", false},
		{"anywhere", "evil.example.net", false},
		{"hosted", "api.example.com", false},
		{"hosted", "api.example.com:8443", false},
		{"hosted", "other.internal", false},
		{"hosted", "evil.example.net", true},
		{"hosted", "api.example.com", false},
		{"outside", "ours.internal", true},
		{"undeclared", "payments", false},
		{"undeclared", "payments.example.com", true},
		{"undeclared", "10.1.2.3:80", false},
	} {
		d, _, err := sdk.Dependency(c.dependency, "")
		require.NoError(t, err)
		assert.Equal(t, c.external, d.Policy().External(c.host), "%s at %s", c.dependency, c.host)
	}
}
