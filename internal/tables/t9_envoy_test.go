//go:build !race

package tables

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestT9 counts how many retries Envoy's budget lets be under way at once: first while a number of requests is there that have
// no part in it, then when all of a number of requests fail at one moment.
func TestT9_envoys_retry_budget_NoRace(t *testing.T) {
	tab := newTable(t, "T9", "retries that Envoy's budget lets be under way at once, max(3, floor(20 % of active and pending))", "")
	defer tab.print()
	for _, row := range []struct{ active, paper int }{{0, 3}, {2, 3}, {10, 3}, {16, 3}, {20, 4}, {25, 5}, {100, 20}} {
		budget, allowed := new(concurrent), 0
		for range row.active {
			budget.begin()
		}
		for budget.retry() {
			allowed++
		}
		tab.count(fmt.Sprintf("%d active, until one is refused", row.active), strconv.Itoa(row.paper), []int{row.paper}, []int{allowed})
		budget.settle()
		if !budget.retry() || budget.retry() {
			t.Errorf("%d active: a retry that ended must make room for one other", row.active)
		}
		if row.active == 0 {
			continue
		}
		expected := min(row.active, row.paper)
		tab.count(fmt.Sprintf("%d fail at once, retried at once", row.active), strconv.Itoa(row.paper), []int{expected}, []int{retriedAtOnce(t, row.active)})
	}
}

// retriedAtOnce sends n requests at one moment, which all take a second and fail, and returns how many were repeated.
func retriedAtOnce(t *testing.T, n int) (repeated int) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		attempts := 0
		client := new(concurrent).transport(pipe{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			attempts++
			mu.Unlock()
			time.Sleep(time.Second)
			w.WriteHeader(http.StatusServiceUnavailable)
		})})
		ask := forwarder(client, "callee")
		var calls sync.WaitGroup
		for range n {
			calls.Go(func() {
				if ask(t.Context()) == nil {
					t.Error("a request succeeded")
				}
			})
		}
		calls.Wait()
		repeated = attempts - n
	})
	return repeated
}
