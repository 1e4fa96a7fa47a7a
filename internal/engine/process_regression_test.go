package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// processCatalog has two profiles whose only gate is a limit of 60 retries a minute: the process's, or their own.
const processCatalog = `
version: 1
chain: {budget: 99, max_budget: 99, orphan_budget: 99%s}
profiles:
  one: {extends: read-heavy, retry: {max_attempts: 2, attempt_timeout: 0s}, budget: disabled, breaker: disabled, availability_floor: 0%%, backoff: {base: %[2]s, throttled_base: %[2]s, cap: %[2]s}%[3]s}
  two: {extends: one}
`

// retriesSent calls two dependencies that always fail, ten times a second each for four minutes, and returns the moments
// at which retries went out.
func retriesSent(t *testing.T, chain, profile, backoff string, used ...profiles.Name) (sent []time.Duration) {
	catalog, err := profiles.Load(fmt.Appendf(nil, processCatalog, chain, backoff, profile), "process")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		sdk := new(engine.SDK)
		sdk.Init(engine.Config{Service: "caller", Catalog: catalog})
		start := time.Now()
		var mu sync.Mutex
		var calls sync.WaitGroup
		for i, name := range used {
			dep, err := (*chainbudget.SDK)(sdk).Dependency(fmt.Sprint("callee", i), name)
			require.NoError(t, err)
			for n := range 2400 {
				calls.Go(func() {
					time.Sleep(time.Duration(n) * 100 * time.Millisecond)
					made := 0
					chainbudget.Do(context.Background(), dep, func(context.Context) error {
						if made++; made > 1 {
							mu.Lock()
							defer mu.Unlock()
							sent = append(sent, time.Since(start))
						}
						return chainbudget.Retryable(context.DeadlineExceeded)
					}, chainbudget.Idempotent())
				})
			}
		}
		calls.Wait()
	})
	return sent
}

// mostInAMinute returns the most moments in any 60 s.
func mostInAMinute(sent []time.Duration) (most int) {
	first := 0
	for i, at := range sent { // in order: virtual time does not go back
		for at-sent[first] >= time.Minute {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// A full allowance at the start and another that flows back meanwhile were 119 retries in the first minute of a limit of 60.
func TestRegression_process_budget_holds_in_any_minute(t *testing.T) {
	for _, tt := range []struct {
		name, chain, profile, backoff string
		used                          []profiles.Name
		limit, total                  int // in any minute, and in four minutes
	}{
		{"process", ", process_budget: 60", "", "1ms", []profiles.Name{"one", "two"}, 60, 240},
		{"profile", "", ", process_budget: 60", "1ms", []profiles.Name{"one", "one"}, 60, 240},
		{"each_profile_its_own", "", ", process_budget: 60", "1ms", []profiles.Name{"one", "two"}, 120, 480},
		{"both_must_allow", ", process_budget: 30", ", process_budget: 60", "1ms", []profiles.Name{"one", "two"}, 30, 120},
		{"both_must_allow_either", ", process_budget: 100", ", process_budget: 30", "1ms", []profiles.Name{"one", "one"}, 30, 120},
		{"process_with_long_waits", ", process_budget: 60", "", "20s", []profiles.Name{"one", "two"}, 60, 240},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sent := retriesSent(t, tt.chain, tt.profile, tt.backoff, tt.used...)
			if most := mostInAMinute(sent); most > tt.limit {
				t.Errorf("%d retries went out within 60 s, the limit is %d", most, tt.limit)
			}
			// A window of whole seconds gives up to one second of each minute away, waits what they hold.
			if len(sent) > tt.total || len(sent) < tt.total*3/4 {
				t.Errorf("%d retries in four minutes, want up to %d and not much fewer", len(sent), tt.total)
			}
		})
	}
}

// TestProcess_budgets_follow_the_catalog: limits change while the process runs, and what went out before counts.
func TestProcess_budgets_follow_the_catalog(t *testing.T) {
	load := func(chain, profile string) *profiles.Catalog {
		c, err := profiles.Load(fmt.Appendf(nil, processCatalog, chain, "1ms", profile), "process")
		require.NoError(t, err)
		return c
	}
	for name, with := range map[string]func(limit int) *profiles.Catalog{
		"process": func(limit int) *profiles.Catalog { return load(fmt.Sprintf(", process_budget: %d", limit), "") },
		"profile": func(limit int) *profiles.Catalog { return load("", fmt.Sprintf(", process_budget: %d", limit)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sdk := new(engine.SDK)
				sdk.Init(engine.Config{Service: "caller", Catalog: with(5)})
				dep, err := (*chainbudget.SDK)(sdk).Dependency("callee", "one")
				require.NoError(t, err)
				retries := func() (n int64) {
					totals := func() int64 { return (*chainbudget.SDK)(sdk).Totals().Dependencies["callee"].Retries }
					before := totals()
					for range 20 {
						chainbudget.Do(t.Context(), dep, func(context.Context) error {
							return chainbudget.Retryable(context.DeadlineExceeded)
						}, chainbudget.Idempotent())
					}
					return totals() - before
				}
				require.EqualValues(t, 5, retries())
				require.NoError(t, sdk.Swap(with(8)))
				require.EqualValues(t, 3, retries())
				require.NoError(t, sdk.Swap(with(2)))
				require.Zero(t, retries())
				time.Sleep(62 * time.Second)
				require.EqualValues(t, 2, retries())
				require.NoError(t, sdk.Swap(with(0)))
				require.EqualValues(t, 20, retries())
				require.NoError(t, sdk.Swap(with(2)))
				time.Sleep(62 * time.Second)
				require.EqualValues(t, 2, retries())
			})
		})
	}
}
