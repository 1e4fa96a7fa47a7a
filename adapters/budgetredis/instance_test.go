package budgetredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// instance is one process of a fleet: an SDK with one dependency and a view.
type instance struct {
	t    testing.TB
	sdk  *chainbudget.SDK
	dep  *chainbudget.Dependency
	view *View

	mu       sync.Mutex
	warnings []string // kinds
}

// counted is a catalog in which only the breaker decides: it opens at half of 20.
const counted = `
version: 1
profiles:
  p:
    extends: read-heavy
    retry: {max_attempts: 1}
    budget: disabled
    availability_floor: 0%%
    breaker: {window: %s, failure_ratio: 50%%, min_requests: 20, open_for: 1h}
dependencies:
  payments: {profile: p}
`

func countedIn(window string) string { return fmt.Sprintf(counted, window) }

func load(t testing.TB, yaml string) *profiles.Catalog {
	t.Helper()
	c, err := profiles.Load([]byte(yaml), "catalog")
	require.NoError(t, err)
	return c
}

// newInstance makes a process that is not shared yet.
func newInstance(t testing.TB, yaml string) *instance {
	t.Helper()
	i := &instance{t: t}
	e := new(engine.SDK)
	e.Init(engine.Config{Service: "checkout", Catalog: load(t, yaml), NoSleep: true, Warn: func(_ string, attributes ...any) {
		i.mu.Lock()
		defer i.mu.Unlock()
		for k := 0; k+1 < len(attributes); k += 2 {
			if attributes[k] == "kind" {
				i.warnings = append(i.warnings, attributes[k+1].(string))
			}
		}
	}})
	i.sdk = (*chainbudget.SDK)(e)
	var err error
	i.dep, err = i.sdk.Dependency("payments", "")
	require.NoError(t, err)
	return i
}

// share lets it join the fleet.
func (i *instance) share(client redis.UniversalClient, options ...Option) *instance {
	i.t.Helper()
	view, err := Share(i.sdk, client, append([]Option{Interval(50 * time.Millisecond)}, options...)...)
	require.NoError(i.t, err)
	i.view = view
	i.t.Cleanup(func() {
		_ = view.Close()
		if i.t.Failed() {
			i.t.Logf("%+v", view.Stats())
		}
	})
	return i
}

// join starts a process that shares with a server.
func join(t testing.TB, s *server, yaml string, options ...Option) *instance {
	t.Helper()
	client := s.client()
	t.Cleanup(func() { _ = client.Close() })
	return newInstance(t, yaml).share(client, options...)
}

var errDown = errors.New("down")

// call makes one call that succeeds or fails, and reports whether it ran.
func (i *instance) call(err error) (ran bool) {
	_ = chainbudget.Do(context.Background(), i.dep, func(context.Context) error {
		ran = true
		return err
	})
	return ran
}

func (i *instance) calls(n int, err error) {
	i.t.Helper()
	for range n {
		require.True(i.t, i.call(err), "the breaker is open")
	}
}

// refuses reports whether its breaker is open, without a call.
func (i *instance) refuses() bool {
	d := (*engine.Dependency)(i.dep)
	return d.Policy().Refusal(context.Background(), nil, false) != nil
}

func (i *instance) swap(yaml string) {
	i.t.Helper()
	require.NoError(i.t, (*engine.SDK)(i.sdk).Swap(load(i.t, yaml)))
}

// level is the bucket's.
func (i *instance) level() int64 {
	for _, t := range (*engine.SDK)(i.sdk).Tallies() {
		return t.Bucket().Level()
	}
	return 0
}

// syncs waits until each view has brought news n more times.
func syncs(t testing.TB, n int64, instances ...*instance) {
	t.Helper()
	want := make([]int64, len(instances))
	for k, i := range instances {
		want[k] = i.view.Stats().Syncs + n
	}
	for k, i := range instances {
		await(t, 10*time.Second, fmt.Sprintf("no %d syncs", n), func() bool { return i.view.Stats().Syncs >= want[k] })
	}
}

func (i *instance) warned() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.warnings...)
}
