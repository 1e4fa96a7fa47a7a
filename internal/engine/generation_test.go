package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

func catalogOf(t *testing.T, yaml string) *profiles.Catalog {
	t.Helper()
	c, err := profiles.Load([]byte("version: 1\n"+yaml), "catalog")
	require.NoError(t, err)
	return c
}

const generationCatalog = `
chain: {budget: %d, mode: %s}
profiles:
  a-%[1]d: {extends: read-heavy, retry: {max_attempts: %[1]d}}
  b-%[1]d: {extends: read-heavy, retry: {max_attempts: %[1]d}}
dependencies:
  a: {profile: a-%[1]d, hosts: [a%[1]d]}
  b: {profile: b-%[1]d, hosts: [b]}
`

// TestSwap_requests_keep_their_catalog: all calls of a request are made by the catalog that it arrived under, also those
// to a dependency that it has not called before, and one that nobody has.
func TestSwap_requests_keep_their_catalog(t *testing.T) {
	s := new(SDK)
	s.Init(Config{Service: "checkout", Catalog: catalogOf(t, fmt.Sprintf(generationCatalog, 3, "budget"))})
	a, _, err := s.Dependency("a", "")
	require.NoError(t, err)
	old, oldCtx := s.Start(context.Background())
	require.NoError(t, s.Swap(catalogOf(t, fmt.Sprintf(generationCatalog, 4, "enforce"))))
	young, youngCtx := s.Start(context.Background())

	b, _, err := s.Dependency("b", "")
	require.NoError(t, err)
	policy := func(d *Dependency, ctx context.Context) *Policy {
		_, p := d.Enter(ctx)
		return p
	}
	assert.EqualValues(t, "a-3", policy(a, oldCtx).profile.Name)
	assert.EqualValues(t, "b-3", policy(b, oldCtx).profile.Name, "made after the catalog that the request has")
	assert.Same(t, policy(b, oldCtx), policy(b, oldCtx))
	assert.Equal(t, profiles.ModeBudget, policy(b, oldCtx).mode)
	assert.EqualValues(t, "a-4", policy(a, youngCtx).profile.Name)
	assert.EqualValues(t, "b-4", policy(b, youngCtx).profile.Name)
	assert.EqualValues(t, "a-4", policy(a, context.Background()).profile.Name, "without a request the newest holds")
	assert.Equal(t, 3, old.held())
	assert.Equal(t, 4, young.held())
	assert.Same(t, a, s.ForHost(oldCtx, "a3"))
	assert.Nil(t, s.ForHost(oldCtx, "a4"))
	assert.Same(t, a, s.ForHost(youngCtx, "a4"))
	assert.EqualValues(t, 2, s.Generation().Number())

	other := new(SDK)
	other.Init(Config{Service: "other", Catalog: profiles.Builtin()})
	foreign, _, err := other.Dependency("a", profiles.WritePath)
	require.NoError(t, err)
	assert.Equal(t, profiles.WritePath, policy(foreign, oldCtx).profile.Name, "another SDK's catalog is its own")
}

// TestSwap_keeps_state: what was counted about a dependency outlives its profile.
func TestSwap_keeps_state(t *testing.T) {
	r := newRig(t, "dependencies: {payments: {profile: plain}}", "", 3, can)
	for range 10 {
		require.True(t, r.dep.Policy().bucket.take(wholeToken))
	}
	r.dep.policy.Load().counters.calls.Add(41)
	breaker := r.dep.Policy().breaker
	const without = "profiles: {own: {extends: read-heavy, breaker: disabled, budget: {burst: 40}}}\ndependencies: {payments: {profile: own}}"
	require.NoError(t, r.sdk.Swap(catalogOf(t, without)))
	assert.False(t, r.dep.Policy().bucket.has(1), "an empty bucket is not filled by a larger one")
	assert.Nil(t, r.dep.Policy().breaker)
	assert.EqualValues(t, 42, r.dep.totals().Calls)
	require.NoError(t, r.sdk.Swap(catalogOf(t, "dependencies: {payments: {profile: read-heavy}}")))
	assert.Same(t, breaker, r.dep.Policy().breaker)
}

// TestSwap_refuses_what_leaves_a_dependency_without_a_profile, as a whole.
func TestSwap_refuses_what_leaves_a_dependency_without_a_profile(t *testing.T) {
	s := new(SDK)
	const has = "profiles: {own: {extends: read-heavy}, twin: {extends: read-heavy}}\n"
	s.Init(Config{Service: "checkout", Catalog: catalogOf(t, has+"dependencies: {pinned: {profile: twin}}")})
	for name, code := range map[string]profiles.Name{"plain": "own", "pinned": "own"} {
		_, _, err := s.Dependency(name, code)
		require.NoError(t, err)
	}
	_, _, err := s.Dependency("pinned", "twin")
	require.NoError(t, err, "the pin makes it harmless")
	_, _, err = s.Dependency("typo", "ownn")
	require.Error(t, err)

	right, _, err := s.Dependency("typo", "own")
	require.NoError(t, err, "a name that does not exist claims nothing")
	assert.EqualValues(t, "own", right.Policy().profile.Name)
	_, _, err = s.Dependency("lost", "ownn")
	require.Error(t, err)

	err = s.Swap(catalogOf(t, "dependencies: {pinned: {profile: read-heavy}}"))
	require.ErrorContains(t, err, `dependency "plain" uses the unknown profile "own"`)
	assert.NotContains(t, err.Error(), "lost", "it had none before")
	err = s.Swap(catalogOf(t, has))
	require.ErrorContains(t, err, `"pinned" is named with profile "own" and with profile "twin"`)
	assert.EqualValues(t, 1, s.Generation().Number())
	require.NoError(t, s.Swap(catalogOf(t, has+"dependencies: {pinned: {profile: own}}")))
}

// TestSwap_the_switch_is_everybodys: a request under way stops retrying too.
func TestSwap_the_switch_is_everybodys(t *testing.T) {
	r := newRig(t, "", "plain", 3, can)
	require.NoError(t, r.sdk.Swap(catalogOf(t, rigCatalog[len("\nversion: 1\n"):]+"overrides: {retries: disabled}")))
	assert.Equal(t, ownership.ReasonDisabled, r.again(claimed(ownership.ClaimClaimed, "payments", 0)))
}
