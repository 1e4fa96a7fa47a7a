package chainbudget_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

type seenKey struct{}

// seen is what the decisions of one request said.
type seen struct{ profiles []string }

// TestReload_ten_thousand_under_load: requests call two dependencies whose profiles change together in each catalog, and a
// third whose breaker is open. No request sees two catalogs, the breaker never closes, and nothing is left behind.
func TestReload_ten_thousand_under_load(t *testing.T) {
	const (
		swaps, versions, requesters = 10_000, 50, 16
		text                        = `
version: 1
chain: {budget: 10, max_budget: 10}
profiles:
  left-%[1]d: {extends: read-heavy, retry: {max_attempts: %[2]d}, breaker: disabled, availability_floor: 0%%}
  right-%[1]d: {extends: read-heavy, retry: {max_attempts: %[2]d}, budget: {burst: %[3]d}, breaker: disabled, availability_floor: 0%%}
  down-%[1]d: {extends: no-retry, breaker: {window: 10s, min_requests: %[2]d, failure_ratio: 10%%, open_for: 60m, probes: %[2]d}}
dependencies: {left: {profile: left-%[1]d}, right: {profile: right-%[1]d}, down: {profile: down-%[1]d}}
`
	)
	var catalogs [versions]*profiles.Catalog
	for i := range catalogs {
		c, err := profiles.Load(fmt.Appendf(nil, text, i, 2+i%3, 5+i), fmt.Sprint("catalog ", i))
		require.NoError(t, err)
		catalogs[i] = c
	}
	t.Setenv("CHAINBUDGET_MODE", "")
	sdk := new(engine.SDK)
	sdk.Init(engine.Config{
		Service: "checkout", Catalog: catalogs[0], NoSleep: true, Strict: true,
		Observe: func(e *engine.Event) {
			if s, _ := e.Context.Value(seenKey{}).(*seen); s != nil {
				s.profiles = append(s.profiles, e.Profile)
			}
		},
	})
	public := (*chainbudget.SDK)(sdk)
	dependency := func(name string) *chainbudget.Dependency {
		d, err := public.Dependency(name, "")
		require.NoError(t, err)
		return d
	}
	left, right, down := dependency("left"), dependency("right"), dependency("down")
	fails := errors.New("down")
	for range 10 {
		_ = chainbudget.Do(context.Background(), down, func(context.Context) error { return fails })
	}

	var (
		group                                    sync.WaitGroup
		begun                                    = make(chan struct{}) // before and in the middle of a request
		requests, mixed, let, decisions, crossed atomic.Int64
	)
	for range requesters {
		group.Go(func() {
			for range begun {
				mine := new(seen)
				ctx, end := chainbudget.Start(context.WithValue(context.Background(), seenKey{}, mine), public)
				generation := sdk.Generation()
				for i, dep := range []*chainbudget.Dependency{left, right, left} {
					if i == 1 {
						<-begun // after the next catalog
					}
					_ = chainbudget.Do(ctx, dep, func(context.Context) error { return context.DeadlineExceeded }, chainbudget.Idempotent())
				}
				var denied *chainbudget.DeniedError
				err := chainbudget.Do(ctx, down, func(context.Context) error { let.Add(1); return nil })
				if !errors.As(err, &denied) || denied.Reason != ownership.ReasonBreakerOpen {
					let.Add(1)
				}
				end()
				_, first, _ := strings.Cut(mine.profiles[0], "-")
				for _, p := range mine.profiles {
					if _, version, _ := strings.Cut(p, "-"); version != first {
						mixed.Add(1)
					}
				}
				decisions.Add(int64(len(mine.profiles)))
				requests.Add(1)
				if sdk.Generation() != generation {
					crossed.Add(1)
				}
			}
		})
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	begin, early := time.Now(), uint64(0)
	for i := range swaps {
		require.NoError(t, sdk.Swap(catalogs[(i+1)%versions]))
		if i == swaps/10 {
			early = heap()
		}
		begun <- struct{}{}
	}
	late := heap()
	close(begun)
	group.Wait()
	t.Logf("%d catalogs in %v under %d requests (%d overtaken) with %d decisions; heap %d KiB after a tenth, %d KiB at the end",
		swaps, time.Since(begin).Round(time.Millisecond), requests.Load(), crossed.Load(), decisions.Load(), early>>10, late>>10)
	assert.Zero(t, mixed.Load(), "decisions of a request by two catalogs")
	assert.Zero(t, let.Load(), "calls that an open breaker let through")
	assert.Equal(t, swaps+1, public.Catalog().Generation)
	assert.Greater(t, requests.Load(), int64(swaps/2-requesters))
	assert.Greater(t, crossed.Load(), int64(swaps/10), "requests that another catalog overtook")
	assert.Less(t, late, early+early/4+(1<<20), "memory")
	require.NoError(t, public.Close())
}
