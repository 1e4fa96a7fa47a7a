package budgetredis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

func TestShare(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	var noClient *redis.Client

	t.Run("without_an_sdk_there_is_nothing_to_do", func(t *testing.T) {
		for _, sdk := range []*chainbudget.SDK{nil, new(chainbudget.SDK)} {
			view, err := Share(sdk, nil)
			require.NoError(t, err)
			assert.Equal(t, Stats{}, view.Stats())
			assert.NoError(t, view.Close())
		}
		var view *View
		assert.Equal(t, Stats{}, view.Stats())
		assert.NoError(t, view.Close())
	})
	for name, c := range map[string]struct {
		client redis.UniversalClient
		option Option
		says   string
	}{
		"no_client":      {nil, Option{}, "there is no Redis client"},
		"nil_client":     {noClient, Option{}, "there is no Redis client"},
		"short_interval": {client, Interval(49 * time.Millisecond), "49ms is out of range: use 50ms to 1m0s"},
		"long_interval":  {client, Interval(time.Minute + 1), "out of range"},
		"long_fleet":     {client, Fleet(strings.Repeat("f", 101)), "use at most 100 bytes"},
		"long_prefix":    {client, Prefix(strings.Repeat("p", 101)), "use at most 100 bytes"},
		"brace":          {client, Prefix("a{b"), "use none"},
	} {
		t.Run(name, func(t *testing.T) {
			view, err := Share(newInstance(t, countedIn("10s")).sdk, c.client, c.option)
			require.ErrorContains(t, err, c.says)
			assert.True(t, strings.HasPrefix(err.Error(), "chainbudget: budgetredis: "), err)
			assert.Nil(t, view)
		})
	}
	t.Run("once_for_each_sdk", func(t *testing.T) {
		i := newInstance(t, countedIn("10s"))
		view, err := Share(i.sdk, client)
		require.NoError(t, err)
		_, err = Share(i.sdk, client)
		require.ErrorContains(t, err, "shared already")
		require.NoError(t, view.Close())
		require.NoError(t, view.Close())
		view, err = Share(i.sdk, client)
		require.NoError(t, err)
		require.NoError(t, view.Close())
	})
}

func TestView_failures_of_others_open_the_breaker(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("10s")), join(t, s, countedIn("10s"))
	a.calls(12, errDown)
	b.calls(8, errDown)
	await(t, 5*time.Second, "a goes on", a.refuses)
	await(t, 5*time.Second, "b goes on", b.refuses)
	assert.False(t, b.call(nil))
}

func TestView_successes_of_others_keep_it_closed(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("10s")), join(t, s, countedIn("10s"))
	a.calls(30, nil)
	syncs(t, 1, a)
	syncs(t, 2, b)
	b.calls(20, errDown) // all of b's own, and 40 % of what the fleet sees
	syncs(t, 2, b, a)
	assert.False(t, b.refuses())
	assert.False(t, a.refuses())
}

// A process hears of its own failures, too, in the sums. Counted twice, 12 would be more than 20.
func TestView_own_counts_are_not_others(t *testing.T) {
	s := startServer(t)
	a := join(t, s, countedIn("10s"))
	for range 3 {
		a.calls(4, errDown)
		syncs(t, 3, a)
	}
	assert.False(t, a.refuses())
	a.calls(7, errDown)
	assert.False(t, a.refuses())
	a.calls(1, errDown)
	assert.True(t, a.refuses(), "20 of its own")
}

func TestView_slow_attempts_count(t *testing.T) {
	const slow = `
version: 1
profiles:
  p: {extends: read-heavy, budget: disabled, breaker: {min_requests: 20, slow_call: 1ms, slow_ratio: 50%, open_for: 1h}}
dependencies: {payments: {profile: p}}
`
	s := startServer(t)
	a, b := join(t, s, slow), join(t, s, slow)
	for range 20 {
		_ = chainbudget.Do(context.Background(), a.dep, func(context.Context) error {
			for begun := time.Now(); time.Since(begun) < 2*time.Millisecond; {
			}
			return nil
		})
	}
	await(t, 5*time.Second, "a's slow successes do not open b", b.refuses)
}

// What others counted leaves a breaker after the window, and so it does in Redis.
func TestView_the_window_ends(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("500ms")), join(t, s, countedIn("500ms"))
	a.calls(19, errDown)
	syncs(t, 2, a, b)
	await(t, 5*time.Second, "a's failures stay", func() bool {
		sum := 0
		for _, v := range s.hash("finished:500") {
			sum += v
		}
		return sum == 0
	})
	syncs(t, 2, b)
	b.calls(19, errDown)
	assert.False(t, b.refuses(), "19 and 19 are not of one window")
}

// Half of a fleet has the new catalog. Slices of another length must not be taken for ours.
func TestView_other_windows_are_apart(t *testing.T) {
	s := startServer(t)
	old, recent := join(t, s, countedIn("10s")), join(t, s, countedIn("20s"))
	old.calls(19, errDown)
	recent.calls(19, errDown)
	syncs(t, 2, old, recent)
	assert.False(t, old.refuses())
	assert.False(t, recent.refuses())

	old.swap(countedIn("20s"))
	await(t, 5*time.Second, "with the new catalog, 19 of its own and 19 of the other are one window's", old.refuses)
	syncs(t, 2, recent)
	assert.False(t, recent.refuses(), "what was told under the old window is not told again")
}

// A catalog that takes the breaker away, and one that brings it back.
func TestView_follows_a_catalog_without_a_breaker(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("10s")), join(t, s, countedIn("10s"))
	a.swap(strings.Replace(countedIn("10s"), "breaker: {window: 10s, failure_ratio: 50%, min_requests: 20, open_for: 1h}", "breaker: disabled", 1))
	a.calls(30, errDown)
	syncs(t, 2, a, b)
	assert.Zero(t, a.view.Stats().Failures, "%+v", a.view.Stats())
	a.swap(countedIn("10s"))
	syncs(t, 1, a)
	b.calls(20, errDown)
	await(t, 5*time.Second, "b's failures do not reach a", a.refuses)
}

// Catalogs come and go under load. Every sync finds one that it can tell of, and what holds in the end is shared.
func TestView_follows_catalogs_under_load(t *testing.T) {
	s := startServer(t)
	catalog := func(budget, breaker string) string {
		return fmt.Sprintf("version: 1\nprofiles:\n  p: {extends: read-heavy, retry: {max_attempts: 1}, availability_floor: 0%%, budget: %s, breaker: %s}\n"+
			"dependencies: {payments: {profile: p}}\n", budget, breaker)
	}
	catalogs := []string{
		catalog("{burst: 10}", "{window: 1s, min_requests: 100000}"),
		catalog("{kind: quota, burst: 500, cost: 14, throttled_cost: 5}", "{window: 10s, min_requests: 100000}"),
		catalog("{kind: reserve, ratio: 20%, min_per_second: 10, ttl: 10s}", "disabled"),
		catalog("disabled", "{window: 20s, min_requests: 100000}"),
		catalog("{kind: throttle, ratio: 10%, burst: 10}", "{window: 1h, min_requests: 100000}"),
	}
	a, b := join(t, s, catalogs[0]), join(t, s, catalogs[1])
	stop := make(chan struct{})
	var load sync.WaitGroup
	for _, i := range []*instance{a, b} {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					i.call(nil)
				}
			}
		})
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(7 * time.Millisecond):
					i.swap(catalogs[n%len(catalogs)])
				}
			}
		})
	}
	syncs(t, 15, a, b)
	close(stop)
	load.Wait()
	a.swap(countedIn("5s"))
	b.swap(countedIn("5s"))
	syncs(t, 1, a, b)
	for range 1000 { // far more than the successes of the load
		a.call(errDown)
	}
	await(t, 5*time.Second, "b does not hear of a", b.refuses)
	assert.Zero(t, a.view.Stats().Failures+b.view.Stats().Failures, "%v", a.view.Stats().LastErr)
}

// A dependency that is first used later is shared from then on.
func TestView_follows_new_dependencies(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("10s")), join(t, s, countedIn("10s"))
	syncs(t, 1, a, b)
	for _, i := range []*instance{a, b} {
		var err error
		i.dep, err = i.sdk.Dependency("ledger", "p")
		require.NoError(t, err)
	}
	a.calls(20, errDown)
	await(t, 5*time.Second, "ledger is not shared", b.refuses)
}

func TestView_fleets_are_apart(t *testing.T) {
	s := startServer(t)
	a := join(t, s, countedIn("10s"), Fleet("a{}/b"))
	same := join(t, s, countedIn("10s"), Fleet("a{}/b"))
	other := join(t, s, countedIn("10s"), Fleet("a"))
	prefixed := join(t, s, countedIn("10s"), Fleet("a{}/b"), Prefix("team:"))
	a.calls(20, errDown)
	await(t, 5*time.Second, "one fleet is two", same.refuses)
	syncs(t, 2, other, prefixed)
	assert.False(t, other.refuses())
	assert.False(t, prefixed.refuses())
}

// What was counted since the last sync is told as the process goes.
func TestView_Close_tells_the_rest(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("10s"), Interval(time.Minute)), join(t, s, countedIn("10s"))
	a.calls(20, errDown)
	begun := time.Now()
	require.NoError(t, a.view.Close())
	assert.Less(t, time.Since(begun), 2*time.Second)
	await(t, 5*time.Second, "a's last failures are lost", b.refuses)
}

// After Close the SDK goes on with its own counts, and nothing of it is counted for anybody.
func TestView_Close_forgets_the_others(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("10s")), join(t, s, countedIn("10s"))
	a.calls(19, errDown)
	syncs(t, 2, a, b)
	require.NoError(t, b.view.Close())
	b.calls(19, errDown)
	assert.False(t, b.refuses())
}

// A process that starts in an outage knows of it as soon as its fleet tells.
func TestView_a_new_process_sees_the_window(t *testing.T) {
	s := startServer(t)
	a := join(t, s, countedIn("10s"))
	a.calls(20, errDown)
	require.NoError(t, a.view.Close())
	b := join(t, s, countedIn("10s"))
	await(t, 5*time.Second, "b does not see what was counted before it", b.refuses)
}

// All that is left in Redis ends by itself.
func TestView_keys_expire(t *testing.T) {
	s := startServer(t)
	a := join(t, s, strings.Replace(countedIn("10s"), "budget: disabled", "budget: {burst: 10}", 1))
	a.calls(1, errDown)
	syncs(t, 3, a)
	keys := s.keys()
	assert.Len(t, keys, 3, "%q", keys)
	for _, key := range keys {
		ttl := s.admin.PTTL(context.Background(), key).Val()
		assert.Greater(t, ttl, time.Duration(0), key)
		assert.LessOrEqual(t, ttl, 10*time.Minute, key)
		assert.Contains(t, key, "{checkout/payments}")
	}
}
