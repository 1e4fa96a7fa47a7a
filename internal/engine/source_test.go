package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// TestSource_a_loader_that_panics is one more bad file.
func TestSource_a_loader_that_panics(t *testing.T) {
	s := new(SDK)
	var warned []any
	s.Init(Config{Service: "checkout", Catalog: profiles.Builtin(), Warn: func(_ string, a ...any) { warned = a }})
	s.source.path = "catalog.yaml"
	s.source.load = func(string) (*profiles.Catalog, error) { panic("no such luck") }
	s.reload()
	assert.ErrorContains(t, s.CatalogStatus().Err, "no such luck")
	assert.NotEmpty(t, warned)
	s.source.load = func(string) (*profiles.Catalog, error) { return profiles.Builtin(), nil }
	s.reload()
	assert.NoError(t, s.CatalogStatus().Err)
	assert.EqualValues(t, 1, s.CatalogStatus().Generation.Number())
}

// TestSource_remembers_few_warnings, whatever becomes of the file.
func TestSource_remembers_few_warnings(t *testing.T) {
	s := new(SDK)
	warnings := 0
	s.Init(Config{Service: "checkout", Catalog: profiles.Builtin(), Warn: func(string, ...any) { warnings++ }})
	n := 0
	s.source.load = func(string) (*profiles.Catalog, error) { return nil, fmt.Errorf("error %d", n) }
	for n = range 10 * maxTold {
		s.reload()
		s.reload()
		require.LessOrEqual(t, len(s.source.told), maxTold)
	}
	assert.Equal(t, 10*maxTold, warnings)
	assert.EqualValues(t, 10*maxTold, s.CatalogStatus().Rejected)
}

// TestSource_a_closed_one_changes_nothing: a look that began before the end finds it.
func TestSource_a_closed_one_changes_nothing(t *testing.T) {
	s := new(SDK)
	s.Init(Config{Service: "checkout", Catalog: profiles.Builtin()})
	s.source.load = func(string) (*profiles.Catalog, error) {
		go func() { assert.NoError(t, s.Close()) }()
		for {
			s.source.mu.Lock()
			closed := s.source.closed
			s.source.mu.Unlock()
			if closed {
				return catalogOf(t, "chain: {budget: 9}"), nil
			}
		}
	}
	s.reload()
	assert.EqualValues(t, 1, s.Generation().Number())
}
