package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// Code that leaves the profile to the catalog has one to lose as well: a catalog without its pin would quietly make one
// attempt of each call.
func TestRegression_a_pinned_dependency_keeps_its_profile(t *testing.T) {
	pinned := catalogOf(t, "dependencies: {ledger: {profile: write-path, hosts: [ledger.internal]}}")
	bare := catalogOf(t, "chain: {budget: 2}")
	for _, first := range []*profiles.Catalog{pinned, bare} { // where it is bare, code got an error and no-retry
		s := new(SDK)
		s.Init(Config{Service: "checkout", Catalog: first})
		d, _, err := s.Dependency("ledger", "")
		assert.Equal(t, first == bare, err != nil)
		require.NoError(t, s.Swap(pinned))
		err = s.Swap(bare)
		require.ErrorContains(t, err, `dependency "ledger" has no profile`)
		assert.Equal(t, profiles.WritePath, d.Policy().Profile().Name)
	}

	// A router has nobody who named it: where the catalog forgets the host, calls to it are of no dependency.
	s := new(SDK)
	s.Init(Config{Service: "checkout", Catalog: pinned})
	require.NotNil(t, s.ForHost(context.Background(), "ledger.internal"))
	require.NoError(t, s.Swap(bare))
	assert.Nil(t, s.ForHost(context.Background(), "ledger.internal"))
}
