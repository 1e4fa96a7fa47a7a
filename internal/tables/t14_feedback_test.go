//go:build !race

package tables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// TestT14 counts how the load grows on a server that is offered 1 % more than it can take, when clients repeat every second
// what failed: second by second with a policy for comparison, and with the SDK's clients in virtual time.
func TestT14_feedback_NoRace(t *testing.T) {
	const capacity, attempts, seconds, last = 10_000, 10, 400, 50
	tab := newTable(t, "T14", "requests a second at a server that serves 10,000, offered to 10 attempts a second apart", "400 s of each load, seed 14; with the SDK 60 s at a tenth of it")
	defer tab.print()
	for _, row := range []struct {
		load  int
		paper string
		fixed float64
	}{{10_100, "27,051", 27_051}, {11_000, "46,903", 46_903}, {9_900, "9,900", 9_900}} {
		came := crowd{capacity, row.load, attempts}.totals(seconds, rand.New(rand.NewPCG(14, uint64(row.load))))
		if row.load == 10_100 {
			tab.count("offered 10,100, the first seconds", "10,100, 10,200, 10,300", []int{10_100, 10_200, 10_300}, came[:3])
		}
		sum := 0
		for _, n := range came[seconds-last:] {
			sum += n
		}
		tab.near(fmt.Sprintf("offered %d, the last %d of %d s", row.load, last, seconds), row.paper, row.fixed, float64(sum)/last, .005*row.fixed)
	}

	tab.loose = true
	const tenth, length = capacity / 10, 60
	for _, load := range []int{1010, 1100} {
		sum := 0
		for _, n := range crowdOfSDKs(t, load, tenth, length)[length/2:] {
			sum += n
		}
		tab.below(fmt.Sprintf("offered %d of %d, the SDK's clients, the last %d of %d s, by what is offered", load, tenth, length/2, length), "-", 1.1,
			float64(sum)/float64(load*length/2))
	}
}

// crowdOfSDKs is such a crowd of requests, made by one client with the SDK, and returns what comes in each second.
func crowdOfSDKs(t *testing.T, load, capacity, seconds int) []int {
	server := &overloaded{capacity: capacity, came: make([]int, seconds+100), atRandom: rand.New(rand.NewPCG(14, uint64(load)))}
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, "extends: read-heavy, retry: {max_attempts: 10, attempt_timeout: 0s}, backoff: {base: 1s, throttled_base: 1s, cap: 1s}", 14,
			func(c *engine.Config) { c.NoSleep, c.Random = false, largest })
		server.start = time.Now()
		var calls sync.WaitGroup
		for i := range load * seconds {
			time.Sleep(time.Until(server.start.Add(time.Duration(i) * time.Second / time.Duration(load))))
			calls.Go(func() {
				// Whether it succeeds is the server's to say: what comes is counted there.
				_ = chainbudget.Do(context.Background(), c.dep, server.serve, chainbudget.Idempotent())
			})
		}
		calls.Wait()
	})
	return server.came[:seconds]
}
