package rpctest

import (
	"context"
	"fmt"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
)

// Catalog is for tests of one mechanism: all other gates are off.
const Catalog = `
version: 1
chain: {budget: 3, max_budget: 99, orphan_budget: 1}
profiles:
  test:
    extends: read-heavy
    retry: {max_attempts: 4, attempt_timeout: 5s}
    backoff: {base: 1ms, throttled_base: 1ms, cap: 1s}
    budget: disabled
    breaker: disabled
    availability_floor: 0%
  twice: {extends: test, retry: {max_attempts: 2}}
  brittle: {extends: test, retry: {max_attempts: 1}, breaker: {window: 10s, failure_ratio: 50%, min_requests: 3, open_for: 5s, probes: 1}}
  endless: {extends: test, retry: {attempt_timeout: 0s}}
  single: {extends: test, retry: {max_attempts: 1}}
  hasty: {extends: test, retry: {attempt_timeout: 200ms}}
`

// SDK makes the SDK of a service, with profiles for tests of one mechanism.
func SDK(t testing.TB, service string, options ...chainbudgettest.Option) *chainbudgettest.Recorder {
	return chainbudgettest.New(t, append([]chainbudgettest.Option{chainbudgettest.Catalog(Catalog), chainbudgettest.Service(service)}, options...)...)
}

// Begin starts a chain with the catalog's budget until the test ends.
func Begin(t testing.TB, rec *chainbudgettest.Recorder) context.Context {
	ctx, end := chainbudget.Start(context.Background(), rec.SDK)
	t.Cleanup(end)
	return ctx
}

// Rules are the settings of a chain. Mode is enforce if it is empty.
type Rules struct {
	Budget, OrphanBudget, MaxAttempts int
	Mode                              string
}

// SDK makes the SDK of one service of a chain. The profile of its dependencies is table.
func (r Rules) SDK(t testing.TB, service string) *chainbudgettest.Recorder {
	mode := "enforce"
	if r.Mode != "" {
		mode = r.Mode
	}
	return chainbudgettest.New(t, chainbudgettest.Service(service), chainbudgettest.Catalog(fmt.Sprintf(`
version: 1
chain: {budget: %d, max_budget: 99, orphan_budget: %d, deadlines: ignore, mode: %s}
profiles:
  table:
    extends: read-heavy
    retry: {max_attempts: %d, attempt_timeout: 0s}
    backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}
    budget: disabled
    breaker: disabled
    availability_floor: 0%%
`, r.Budget, r.OrphanBudget, mode, r.MaxAttempts)))
}
