package budgetredis

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// While Redis is stopped, flushed, killed and started, a call of a process that shares takes as long as one of a process that
// does not. Three processes take turns call by call, so that whatever else the machine does hits all: one shares, two do
// not. How far these two are apart is the noise. The bound is the p99 of the slower one, half as much again, and
// 20 µs; of the calls of the process that shares, 1 % should be above. The test allows 2 %: on a busy machine about
// 1 % of all calls lose their processor for milliseconds, and then the p99 itself falls on this side or that by chance. A
// call that waited for Redis once in fifty would fail the test.
func TestPace_p99_of_calls_under_trouble(t *testing.T) {
	s := startServer(t)
	catalog := strings.Replace(countedIn("10s"), "budget: disabled", "budget: {burst: 100}", 1)
	shared := join(t, s, catalog)
	subjects := [3]*instance{shared, newInstance(t, catalog), newInstance(t, catalog)}
	const goroutines = 2
	var took [goroutines][3][]time.Duration
	var trouble atomic.Bool
	stop := make(chan struct{})
	var load sync.WaitGroup
	for g := range goroutines {
		for k := range subjects {
			took[g][k] = make([]time.Duration, 0, 1<<20)
		}
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				record := trouble.Load() && len(took[g][2]) < 1<<20
				for k := range subjects {
					k = (k + n) % len(subjects) // nobody is always first
					begun := time.Now()
					subjects[k].call(nil)
					if d := time.Since(begun); record {
						took[g][k] = append(took[g][k], d)
					}
				}
			}
		})
	}
	for range 2 {
		syncs(t, 2, shared)
		trouble.Store(true)
		s.pause()
		<-time.After(400 * time.Millisecond)
		s.resume()
		s.do("FLUSHALL")
		<-time.After(100 * time.Millisecond)
		s.kill()
		<-time.After(400 * time.Millisecond)
		s.start()
		await(t, 10*time.Second, "it does not come back", func() bool { return shared.view.Stats().Age < 100*time.Millisecond })
		trouble.Store(false)
	}
	close(stop)
	load.Wait()
	stats := shared.view.Stats()
	assert.Positive(t, stats.ByKind[failedTimeout], "never stopped")
	assert.Positive(t, stats.ByKind[failedConnection], "never gone")

	var p99 [3]time.Duration
	var all [3][]time.Duration
	for k := range subjects {
		all[k] = slices.Concat(took[0][k], took[1][k])
		slices.Sort(all[k])
		p99[k] = all[k][len(all[k])*99/100]
	}
	bound := max(p99[1], p99[2])*3/2 + 20*time.Microsecond
	within, _ := slices.BinarySearch(all[0], bound)
	above := 1 - float64(within)/float64(len(all[0]))
	t.Logf("p99 of %d calls each: shared %v, not shared %v and %v; %.2f %% of the shared ones take longer than %v; %d syncs, %d failed",
		len(all[0]), p99[0], p99[1], p99[2], 100*above, bound, stats.Syncs, stats.Failures)
	assert.LessOrEqual(t, above, 0.02)
}
