package chainbudgettest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
)

// hurried is the usual catalog, with less patience.
const hurried = `version: 1
chain: {budget: 3}
profiles:
  chain:
    extends: read-heavy
    retry: {max_attempts: 4, attempt_timeout: 250ms}
    budget: disabled
    breaker: disabled
    availability_floor: 0%
`

// TestChain_of_any_plan holds the checks of a run to the other half of their word: whatever goes wrong, services that run
// the SDK violate nothing, and every token is accounted for.
func TestChain_of_any_plan(t *testing.T) {
	kinds := []chainbudgettest.FaultKind{
		chainbudgettest.Nothing, chainbudgettest.Fails, chainbudgettest.Fails, chainbudgettest.Silent, chainbudgettest.Breaks,
		chainbudgettest.DropsContext, chainbudgettest.Hangs,
	}
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			chain := over(chainbudgettest.Chain{Depth: 1 + random.IntN(4), FanOut: 1 + random.IntN(3), Requests: 1 + random.IntN(2), Catalog: hurried})
			for range random.IntN(6) {
				f := chainbudgettest.Fault{Hop: 1 + random.IntN(chain.Depth), Kind: kinds[random.IntN(len(kinds))], Times: random.IntN(4)}
				if f.Kind == chainbudgettest.Hangs {
					f.Times = 1
				}
				chain.Faults = append(chain.Faults, f)
			}
			outcome, err := chain.Run(t.Context())
			if err != nil {
				t.Fatalf("%v: %v", chain.Faults, err)
			}
			// Tokens that a hop minted for a call without its context lapse there.
			if outcome.Minted == 3*len(outcome.Statuses) && outcome.Minted != outcome.Held+outcome.Retries+outcome.Lost {
				t.Errorf("%v: %d tokens minted, %d held, %d spent, %d lost\n%v",
					chain.Faults, outcome.Minted, outcome.Held, outcome.Retries, outcome.Lost, outcome)
			}
		})
	}
}
