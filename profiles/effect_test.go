package profiles_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// What a comparison says about the worst case is measured here on the SDK itself.

var errDown = errors.New("down")

// told finds what Diff says about a catalog, against one in which nothing is repeated: the part of the sentence that
// begins with what, behind the arrow.
func told(t *testing.T, catalog *profiles.Catalog, what, pattern string) string {
	t.Helper()
	nothing, err := profiles.Load([]byte("version: 1\nchain: {budget: 0}\nprofiles: {p: {extends: no-retry, retry: {attempt_timeout: 1ms}, breaker: {min_requests: 1}}}\n"+
		"dependencies: {d: {profile: p}}\n"), "nothing")
	require.NoError(t, err)
	find := regexp.MustCompile(regexp.QuoteMeta(what) + `.*: .* -> ` + pattern)
	for _, c := range profiles.Diff(nothing, catalog) {
		for _, m := range c.Means {
			if found := find.FindStringSubmatch(m); found != nil {
				return found[1]
			}
		}
	}
	t.Fatalf("nothing begins with %q in %+v", what, profiles.Diff(nothing, catalog))
	return ""
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// process is one process with the catalog, which draws the longest waits, or random ones.
func process(t *testing.T, catalog *profiles.Catalog, longest bool) (*chainbudget.SDK, *chainbudget.Dependency) {
	t.Helper()
	config := engine.Config{Service: "test", Catalog: catalog, NoSleep: !longest}
	if longest {
		config.Random = func(n int64) int64 { return n - 1 }
	}
	e := new(engine.SDK)
	e.Init(config)
	sdk := (*chainbudget.SDK)(e)
	dep, err := sdk.Dependency("d", "")
	require.NoError(t, err)
	return sdk, dep
}

func catalogOf(t *testing.T, chain, profile string) *profiles.Catalog {
	t.Helper()
	c, err := profiles.Load([]byte("version: 1\nchain: {"+chain+"}\nprofiles: {p: {extends: read-heavy, "+profile+"}}\ndependencies: {d: {profile: p}}\n"), "catalog")
	require.NoError(t, err)
	return c
}

// failing makes one call in a chain of its own, whose attempts all fail, and returns how many there were.
func failing(t *testing.T, sdk *chainbudget.SDK, dep *chainbudget.Dependency) int {
	t.Helper()
	ctx, end := chainbudget.Start(t.Context(), sdk)
	defer end()
	return failingIn(ctx, t, dep)
}

// failingIn makes one such call in the chain of ctx; without one, it is an orphan.
func failingIn(ctx context.Context, t *testing.T, dep *chainbudget.Dependency) (attempts int) {
	t.Helper()
	err := chainbudget.Do(ctx, dep, func(context.Context) error {
		attempts++
		return chainbudget.Retryable(errDown)
	}, chainbudget.Idempotent())
	require.Error(t, err)
	return attempts
}

func TestDiff_attempts_are_those_of_the_sdk(t *testing.T) {
	for range 40 {
		mode := []string{"bypass", "observe", "budget", "enforce"}[rand.IntN(4)]
		chain := fmt.Sprintf("budget: %d, orphan_budget: %d, mode: %s", rand.IntN(6), rand.IntN(6), mode)
		profile := fmt.Sprintf("retry: {max_attempts: %d}, breaker: disabled, availability_floor: 0%%, budget: disabled", 2+rand.IntN(7))
		c := catalogOf(t, chain, profile)
		sdk, dep := process(t, c, false)
		worst := max(failing(t, sdk, dep), failingIn(t.Context(), t, dep))
		assert.Equal(t, attemptsTold(t, c), worst, "%s; %s", chain, profile)
	}
}

// attemptsTold reads the worst case, against a catalog in which it is 99.
func attemptsTold(t *testing.T, c *profiles.Catalog) int {
	t.Helper()
	nothing := catalogOf(t, "budget: 99, max_budget: 99", "retry: {max_attempts: 99}")
	find := regexp.MustCompile(`^worst case at d, of one call: 99 attempts -> (\d+) attempt`)
	for _, change := range profiles.Diff(nothing, c) {
		for _, m := range change.Means {
			if found := find.FindStringSubmatch(m); found != nil {
				return number(t, found[1])
			}
		}
	}
	t.Fatalf("no worst case in %+v", profiles.Diff(nothing, c))
	return 0
}

func TestDiff_longest_call_is_that_of_the_sdk(t *testing.T) {
	for _, profile := range []string{
		"retry: {max_attempts: 4, attempt_timeout: 300ms}, backoff: {base: 50ms, cap: 5s}",
		"retry: {max_attempts: 4, attempt_timeout: 300ms}, backoff: {base: 700ms, throttled_base: 1s, cap: 1s}",
		"retry: {max_attempts: 9, attempt_timeout: 2s}, backoff: {base: 1s, cap: 20s}",
		"retry: {max_attempts: 2, attempt_timeout: 250ms}",
		"retry: {max_attempts: 3, attempt_timeout: 1s, timeout: 2500ms}",
		"retry: {max_attempts: 1, attempt_timeout: 70ms}",
	} {
		c := catalogOf(t, "budget: 3", profile+", breaker: disabled, availability_floor: 0%, budget: disabled")
		want, err := time.ParseDuration(told(t, c, "a call whose every attempt times out takes at most", `(\S+)$`))
		require.NoError(t, err)
		synctest.Test(t, func(t *testing.T) {
			sdk, dep := process(t, c, true)
			ctx, end := chainbudget.Start(t.Context(), sdk)
			defer end()
			begun := time.Now()
			err := chainbudget.Do(ctx, dep, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}, chainbudget.Idempotent())
			require.Error(t, err)
			took := time.Since(begun)
			assert.LessOrEqual(t, took, want, profile)
			// A wait that cannot end before the limit of the whole call is not begun.
			if c.Profiles["p"].Retry.Timeout == 0 {
				assert.Equal(t, want, took, profile)
			}
		})
	}
}

func TestDiff_outage_is_that_of_the_sdk(t *testing.T) {
	const calls = 1000
	for _, budget := range []string{
		"{ratio: 10%, burst: 10}", "{ratio: 100%, burst: 1}", "{burst: 250}", "{ratio: 10%, fund: requests, burst: 10}", "{ratio: 2.5%, fund: requests, burst: 1}",
		"{kind: quota, burst: 500, cost: 14, throttled_cost: 5}", "{kind: quota, burst: 10, cost: 3, throttled_cost: 1}",
		"{kind: throttle, burst: 10, ratio: 10%}", "{kind: throttle, burst: 7, ratio: 10%}", "{kind: throttle, burst: 100, ratio: 10%}",
		"{kind: reserve, ratio: 20%, ttl: 60s}", "disabled",
	} {
		// One call could make all of them: nothing but the bucket ends it.
		c := catalogOf(t, "budget: 99, max_budget: 99", "retry: {max_attempts: 99}, breaker: disabled, availability_floor: 0%, budget: "+budget)
		sdk, dep := process(t, c, false)
		retries := 0
		for range calls {
			retries += failing(t, sdk, dep) - 1
		}
		const what = "retries of each process in a full outage"
		b := c.Profiles["p"].Budget
		switch {
		case !b.Enabled():
			assert.Equal(t, calls*number(t, told(t, c, what, `(\d+) for each call, so they go on$`)), retries, budget)
		case b.Kind == profiles.BudgetReserve, b.Kind == profiles.BudgetRatio && b.Fund == profiles.FundRequests:
			percent, err := strconv.ParseFloat(told(t, c, what, `(\S+) % of requests, so they go on$`), 64)
			require.NoError(t, err)
			assert.InDelta(t, calls*percent/100, retries, float64(b.Burst)+1, budget)
		default:
			assert.Equal(t, number(t, told(t, c, what, `at most (\d+)(?:, \d+ where the answers ask for less load)?, so they end$`)), retries, budget)
		}
	}
}

func TestDiff_breaker_opens_as_the_sdk_does(t *testing.T) {
	for _, settings := range []string{"{min_requests: 20}", "{min_requests: 7, failure_ratio: 100%}", "{consecutive_failures: 3}", "{min_requests: 4, consecutive_failures: 9}"} {
		c := catalogOf(t, "budget: 3", "retry: {max_attempts: 2}, breaker: "+settings)
		b := breaker.New("d", c.Profiles["p"].Breaker, nil)
		n := 0
		for ; n < 1000; n++ {
			permit, err := b.Allow()
			if err != nil {
				break
			}
			b.Done(&permit, breaker.Failure)
		}
		assert.Equal(t, number(t, told(t, c, "when every attempt fails the breaker opens", `after (\d+) in a process`)), n, settings)
	}
}
