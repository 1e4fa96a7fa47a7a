package chainbudget_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// probing calls a dependency with the background profile ten times a second for a minute, after it has opened the
// breaker.
func probing(t *testing.T, work func(ctx context.Context) error) (calls, sent int) {
	t.Helper()
	t.Setenv("CHAINBUDGET_MODE", "")
	synctest.Test(t, func(t *testing.T) {
		sdk, err := chainbudget.New("batch", chainbudget.WithStrict(), chainbudget.WithCatalogFS(
			fstest.MapFS{"c.yaml": {Data: []byte("version: 1\n")}}, "c.yaml"))
		require.NoError(t, err)
		defer sdk.Close()
		dep, err := sdk.Dependency("reports", profiles.Background)
		require.NoError(t, err)
		for range 20 {
			_ = chainbudget.Do(t.Context(), dep, func(context.Context) error { return errors.New("down") })
		}
		var group sync.WaitGroup
		var mu sync.Mutex
		for range 600 {
			group.Go(func() {
				_ = chainbudget.Do(t.Context(), dep, func(ctx context.Context) error {
					mu.Lock()
					sent++
					mu.Unlock()
					return work(ctx)
				})
			})
			calls++
			time.Sleep(100 * time.Millisecond)
		}
		group.Wait()
	})
	return calls, sent
}

// A batch service whose good answers take 6 s, longer than the breaker is open and well within the 10 s of an attempt, is
// back when its probes succeed, however many calls are waiting for that.
func TestRegression_probes_that_answer_in_time_close_the_breaker(t *testing.T) {
	calls, sent := probing(t, func(context.Context) error {
		time.Sleep(6 * time.Second)
		return nil
	})
	assert.Greater(t, sent, calls/2, "calls that got through within a minute of health")
}

// One that hangs is found to be down by its probes: they do not go on forever, a handful each few seconds.
func TestRegression_probes_that_run_out_of_time_open_the_breaker_again(t *testing.T) {
	_, sent := probing(t, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	assert.LessOrEqual(t, sent, 3*5, "probes in a minute, three for each time that it was open and half-open")
}
