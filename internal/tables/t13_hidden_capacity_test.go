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

// overloaded is the database of the HotOS example, idealized: it serves what comes in a second, up to its capacity; of a
// second in which more comes nobody gets an answer that is of use, or with atRandom as many as it can serve, whoever they
// are. Answers come as the second ends.
type overloaded struct {
	capacity int
	atRandom *rand.Rand
	start    time.Time
	down     [2]int // the seconds of an outage: from, to

	mu   sync.Mutex
	came []int // by second
	room int   // of the present second's capacity, and how many wait for it: with atRandom
	left int
}

func (o *overloaded) serve(context.Context) error {
	second := int(time.Since(o.start) / time.Second)
	o.mu.Lock()
	o.came[second]++
	o.mu.Unlock()
	time.Sleep(time.Until(o.start.Add(time.Duration(second+1) * time.Second)))
	o.mu.Lock()
	defer o.mu.Unlock()
	if second >= o.down[0] && second < o.down[1] {
		return errFault
	}
	if o.atRandom != nil {
		return o.choose(second)
	}
	if o.came[second] > o.capacity {
		return errFault
	}
	return nil
}

// choose serves as many of a second's requests as there is capacity for; it is called once for each of them.
func (o *overloaded) choose(second int) error {
	if o.left == 0 {
		o.left, o.room = o.came[second], min(o.capacity, o.came[second])
	}
	served := o.atRandom.IntN(o.left) < o.room
	o.left--
	if !served {
		return errFault
	}
	o.room--
	return nil
}

// retryOnce repeats everything that fails, one second later.
func retryOnce(ctx context.Context, attempt func(context.Context) error) error {
	err := attempt(ctx)
	if err != nil {
		time.Sleep(time.Second)
		err = attempt(ctx)
	}
	return err
}

// TestT13 has the HotOS example of a metastable failure: 280 requests a second on a database that serves 300, and an outage
// of ten seconds. Whoever has come back in the last seconds of the minute after it, has; the others never do.
func TestT13_hidden_capacity_NoRace(t *testing.T) {
	const capacity, outage, end, last = 300, 10, 70, 20
	const more = 4 // seconds that the load goes on, so that the retries of the last ones meet it
	tab := newTable(t, "T13", fmt.Sprintf("requests at a database that serves %d a second, in the last %d of 50 s after an outage of 10 s", capacity, last), "")
	defer tab.print()

	// run returns the requests that came in the last seconds, and the share of calls made then that succeeded.
	run := func(load int, budget string) (came, succeeded int) {
		synctest.Test(t, func(t *testing.T) {
			o := &overloaded{capacity: capacity, start: time.Now(), down: [2]int{10, 10 + outage}, came: make([]int, end+2*more)}
			ask := retryOnce
			if budget != "" {
				c := newClient(t, "extends: read-heavy, retry: {max_attempts: 2, attempt_timeout: 0s}, backoff: {base: 1s, throttled_base: 1s, cap: 1s}, "+budget, 13,
					func(c *engine.Config) { c.NoSleep, c.Random = false, largest })
				ask = func(ctx context.Context, attempt func(context.Context) error) error {
					return chainbudget.Do(ctx, c.dep, attempt, chainbudget.Idempotent())
				}
			}
			var mu sync.Mutex
			var calls sync.WaitGroup
			for i := range load * (end + more) {
				calls.Go(func() {
					at := time.Duration(i) * time.Second / time.Duration(load)
					time.Sleep(at)
					if ask(context.Background(), o.serve) == nil && at >= (end-last)*time.Second && at < end*time.Second {
						mu.Lock()
						defer mu.Unlock()
						succeeded++
					}
				})
			}
			calls.Wait()
			for _, n := range o.came[end-last : end] {
				came += n
			}
		})
		return came, succeeded
	}
	row := func(what string, load int, budget string, paper string, total int, recovers bool) {
		t.Helper()
		came, succeeded := run(load, budget)
		good := 0
		if recovers {
			good = load * last
		}
		tab.count(fmt.Sprintf("%s: load %d, came and succeeded", what, load), paper, []int{total, good}, []int{came, succeeded})
	}
	ratio := func(percent float64, fund string) string {
		return fmt.Sprintf("budget: {ratio: %v%%, fund: %s, burst: 100}, %s", percent, fund, gatesOff)
	}
	row("everybody retries once", 280, "", "560 a second, for ever", 560*last, false)
	row("everybody retries once", 150, "", "hidden capacity 150", 150*last, true)
	row("everybody retries once", 151, "", "hidden capacity 150", 302*last, false)
	row("10 % of requests", 280, ratio(10, "requests"), "308 > 300: not safe", 308*last, false)
	row("10 % of requests", 270, ratio(10, "requests"), "272.7", 270*last, true)
	row("7.1 % of requests", 280, ratio(7.1, "requests"), "7.14 % is safe", 280*last, true)
	row("7.5 % of requests", 280, ratio(7.5, "requests"), "7.14 % is safe", 301*last, false)
	row("20 % of requests", 250, ratio(20, "requests"), "250", 250*last, true)
	row("20 % of requests", 255, ratio(20, "requests"), "250", 306*last, false)
	row("10 % of successes", 280, ratio(10, "successes"), "-", 280*last, true)
	row("10 % of successes", 299, ratio(10, "successes"), "-", 299*last, true)
	row("breaker and floor alone", 280, "budget: disabled", "-", 280*last, true)
	row("all of read-heavy's gates", 280, "external: false", "-", 280*last, true)
}
