package engine

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

func fleetSDK(t *testing.T, yaml string) *SDK {
	t.Helper()
	s := new(SDK)
	s.Init(Config{Service: "checkout", Catalog: catalogOf(t, yaml)})
	return s
}

// finish makes an attempt of its own call that took so long.
func finish(t *testing.T, d *Dependency, r Result, took time.Duration) {
	t.Helper()
	c := new(Call)
	begin(c, context.Background(), d, CallOptions{})
	now := time.Now()
	_, err := c.Admit(now)
	require.NoError(t, err)
	c.Result = r
	c.Done(now.Add(took))
}

func TestTally_counts_what_the_breaker_sees(t *testing.T) {
	s := fleetSDK(t, `
profiles:
  p: {extends: read-heavy, breaker: {slow_call: 900ms}}
`)
	d, _, err := s.Dependency("payments", "p")
	require.NoError(t, err)
	finish(t, d, Result{Failed: true}, 0)
	assert.Empty(t, s.Tallies(), "nobody shares")

	require.True(t, s.Share())
	assert.False(t, s.Share(), "somebody shares already")
	late, _, err := s.Dependency("ledger", "p")
	require.NoError(t, err)
	finish(t, d, Result{}, 0)
	finish(t, d, Result{Failed: true}, 0)
	finish(t, d, Result{Failed: true}, time.Second)
	finish(t, d, Result{}, time.Second)
	finish(t, d, Result{Canceled: true}, time.Second)
	finish(t, d, Result{Excluded: true, Status: 404}, time.Second)
	finish(t, late, Result{}, 0)

	list := s.Tallies()
	require.Len(t, list, 2)
	assert.Equal(t, "ledger", list[0].Name())
	assert.Equal(t, [3]uint64{1, 0, 0}, list[0].Finished())
	assert.Equal(t, [3]uint64{2, 2, 2}, list[1].Finished())

	s.Unshare()
	assert.Empty(t, s.Tallies())
	finish(t, d, Result{}, 0)
	assert.Equal(t, [3]uint64{2, 2, 2}, list[1].Finished(), "nobody shares any more")
	require.True(t, s.Share())
	s.Unshare()
}

func TestTally_Bucket(t *testing.T) {
	for name, c := range map[string]struct {
		budget string
		want   Bucket
	}{
		"ratio":    {"{burst: 7}", Bucket{Kind: profiles.BudgetRatio, Full: 7000, Debt: 7000}},
		"quota":    {"{kind: quota, burst: 500, cost: 14, throttled_cost: 5}", Bucket{Kind: profiles.BudgetQuota, Full: 500_000, Debt: 500_000}},
		"throttle": {"{kind: throttle, ratio: 10%, burst: 10}", Bucket{Kind: profiles.BudgetThrottle, Full: 10_000}},
		"reserve":  {"{kind: reserve, ratio: 20%, min_per_second: 10, ttl: 10s}", Bucket{}},
		"disabled": {"disabled", Bucket{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := fleetSDK(t, "profiles:\n  p: {extends: read-heavy, budget: "+c.budget+"}\n")
			_, _, err := s.Dependency("payments", "p")
			require.NoError(t, err)
			require.True(t, s.Share())
			got := s.Tallies()[0].Bucket()
			got.bucket = nil
			assert.Equal(t, c.want, got)
		})
	}
}

// While requests take and pay in, the level is moved to and fro. What they did must be told exactly once: the changes that
// Move's bases give add up to what was taken.
func TestTally_Move_tells_everything_once(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	s := fleetSDK(t, "profiles:\n  p: {extends: read-heavy, budget: {burst: 1000}}\n")
	_, _, err := s.Dependency("payments", "p")
	require.NoError(t, err)
	require.True(t, s.Share())
	bucket := s.Tallies()[0].Bucket()
	bucket.bucket.level.Store(500_000)

	const goroutines, each = 8, 20_000
	var work sync.WaitGroup
	for range goroutines {
		work.Go(func() {
			for range each {
				if !bucket.bucket.take(3) {
					t.Error("the bucket is empty: the fleet's level is far above")
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	base, told := int64(500_000), int64(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		level := bucket.Level()
		told += level - base
		base = bucket.Move(level, 500_000+told%100_000)
	}
	assert.Equal(t, int64(-3*goroutines*each), told)
}

func TestTally_Move_stays_within_the_bucket(t *testing.T) {
	s := fleetSDK(t, "profiles:\n  p: {extends: read-heavy, budget: {burst: 10}}\n")
	_, _, err := s.Dependency("payments", "p")
	require.NoError(t, err)
	require.True(t, s.Share())
	bucket := s.Tallies()[0].Bucket()
	for _, c := range []struct{ to, want int64 }{{1 << 60, 10_000}, {-1 << 60, -10_000}, {0, 0}, {5000, 5000}} {
		bucket.Move(bucket.Level(), c.to)
		assert.Equal(t, c.want, bucket.Level())
	}
	bucket.bucket.level.Store(-100)
	assert.False(t, bucket.bucket.take(1))
	assert.False(t, bucket.bucket.has(1))
}

// A fleet's debt is not one process's.
func TestTally_Unshare_forgets_what_is_owed(t *testing.T) {
	s := fleetSDK(t, "profiles:\n  p: {extends: read-heavy, budget: {burst: 10}}\n")
	_, _, err := s.Dependency("payments", "p")
	require.NoError(t, err)
	require.True(t, s.Share())
	bucket := s.Tallies()[0].Bucket()
	bucket.Move(bucket.Level(), -5000)
	s.Unshare()
	assert.Zero(t, bucket.Level())
}
