package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A caller that keeps the old catalog is late first and divergent when the grace is over. That is when somebody has to
// know: the warning must not have been used up by a request that was only late.
func TestRegression_a_caller_that_stays_late_is_warned_of_when_the_grace_is_over(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warnings []string
		s := new(SDK)
		first := catalogOf(t, fmt.Sprintf(servedCatalog, 2))
		s.Init(Config{Service: "ledger-api", Catalog: first, Warn: func(m string, _ ...any) { warnings = append(warnings, m) }})
		require.NoError(t, s.Swap(catalogOf(t, fmt.Sprintf(servedCatalog, 3))))
		arrives(s, "grab", first.Profiles["old"])
		assert.Empty(t, warnings)

		time.Sleep(time.Hour + time.Second)
		arrives(s, "grab", first.Profiles["old"])
		arrives(s, "grab", first.Profiles["old"])
		require.Len(t, warnings, 1)
		assert.Contains(t, warnings[0], `"grab"`)
		assert.Contains(t, warnings[0], "retry.max_attempts: 2, pinned 3")
	})
}

// Of many catalogs within the grace, callers have the latest ones: those count as late, not the ones of an hour ago, and a
// catalog that comes back takes no more room each time.
func TestRegression_the_latest_catalogs_are_the_late_ones(t *testing.T) {
	s := new(SDK)
	s.Init(Config{Service: "ledger-api", Catalog: catalogOf(t, fmt.Sprintf(servedCatalog, 2))})
	const swaps = 3 * maxLate / 2
	for i := range swaps {
		require.NoError(t, s.Swap(catalogOf(t, fmt.Sprintf(servedCatalog, 3+i))))
	}
	for i := range maxLate {
		arrives(s, "grab", catalogOf(t, fmt.Sprintf(servedCatalog, 1+swaps-i)).Profiles["old"])
		assert.EqualValues(t, i+1, s.Totals().Older, "%d catalogs ago", i+1)
	}

	b, c := catalogOf(t, fmt.Sprintf(servedCatalog, 98)), catalogOf(t, fmt.Sprintf(servedCatalog, 99))
	for range swaps {
		require.NoError(t, s.Swap(b))
		require.NoError(t, s.Swap(c))
	}
	older := s.Totals().Older
	arrives(s, "grab", catalogOf(t, fmt.Sprintf(servedCatalog, 2+swaps)).Profiles["old"])
	assert.Equal(t, older+1, s.Totals().Older, "what was before the two that took turns is late, too")
}
