package budgetredis

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// Fault 52: processes whose clocks disagree, here by decades (the clock of a synctest bubble begins in the year 2000), see
// each other's counts at their true age.
func TestRegression_P052_clocks_of_processes_do_not_matter(t *testing.T) {
	s := startServer(t)
	today := join(t, s, countedIn("10s"))
	today.calls(8, errDown)
	syncs(t, 2, today)
	synctest.Test(t, func(t *testing.T) {
		client := s.client()
		defer client.Close()
		old := newInstance(t, countedIn("10s")).share(client)
		require.Less(t, time.Now().Year(), 2001)
		old.calls(12, errDown)
		for range 100 { // each step of this clock is a sync, or none
			if old.refuses() {
				break
			}
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
		}
		assert.True(t, old.refuses(), "today's 8 are not in the window of the year 2000")
		require.NoError(t, old.view.Close())
	})
	await(t, 5*time.Second, "the 12 of the year 2000 are not in today's window", today.refuses)
}

// Fault 53: a breaker that many share must not make calls wait for each other or for the store: three calls of 50 ms at once
// took 1.05 s elsewhere, and one of three was counted.
func TestRegression_P053_calls_at_once_stay_at_once(t *testing.T) {
	for _, state := range []string{"redis_well", "redis_stopped", "redis_gone"} {
		t.Run(state, func(t *testing.T) {
			s := startServer(t)
			a := join(t, s, countedIn("10s"))
			syncs(t, 1, a)
			switch state {
			case "redis_stopped":
				s.pause()
			case "redis_gone":
				s.kill()
			}
			var ran atomic.Int32
			var calls sync.WaitGroup
			begun := time.Now()
			for range 3 {
				calls.Go(func() {
					err := chainbudget.Do(t.Context(), a.dep, func(context.Context) error {
						ran.Add(1)
						<-time.After(50 * time.Millisecond)
						return nil
					})
					assert.NoError(t, err, "not refused, and a success stays one")
				})
			}
			calls.Wait()
			assert.Less(t, time.Since(begun), 150*time.Millisecond)
			assert.Equal(t, int32(3), ran.Load())
			if state != "redis_well" {
				return
			}
			syncs(t, 2, a)
			sum := 0
			for _, n := range s.hash("finished:10000") {
				sum += n
			}
			assert.Equal(t, 3, sum, "each of them is counted")
		})
	}
}

// Fault 53: a store that does not take what is written makes no error of a success, and hides none of the dependency's.
func TestRegression_P053_errors_of_the_store_are_not_the_calls(t *testing.T) {
	s := startServer(t)
	a := join(t, s, countedIn("10s"))
	s.do("REPLICAOF", "127.0.0.1", "1")
	a.calls(1, nil)
	await(t, 5*time.Second, "no failure", func() bool { return a.view.Stats().ByKind[failedReadOnly] > 0 })
	for range 5 {
		require.NoError(t, chainbudget.Do(t.Context(), a.dep, func(context.Context) error { return nil }))
		err := chainbudget.Do(t.Context(), a.dep, func(context.Context) error { return errDown })
		require.ErrorIs(t, err, errDown)
	}
}
