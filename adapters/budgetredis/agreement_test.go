package budgetredis

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ten processes with a tenth of the calls each open within two sync intervals of one process that makes all of them: the
// same calls fail, by the same draw. Alone, each of the ten would see a tenth of what the rule asks for.
func TestAgreement_ten_processes_and_one(t *testing.T) {
	const processes, interval, pace = 10, 250 * time.Millisecond, 2 * time.Millisecond
	for _, c := range []struct {
		name          string
		minRequests   int
		before, after float64 // share of failures
		calls         int     // before the outage
	}{
		{"outage_from_the_start", 200, 0, 0.7, 0},
		{"outage_after_good_times", 200, 0.05, 0.9, 500},
		{"slow_decline", 400, 0.3, 0.6, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			catalog := fmt.Sprintf(`
version: 1
profiles:
  p:
    extends: read-heavy
    retry: {max_attempts: 1}
    budget: disabled
    availability_floor: 0%%
    breaker: {window: 2s, failure_ratio: 50%%, min_requests: %d, open_for: 1h}
dependencies:
  payments: {profile: p}
`, c.minRequests)
			one := newInstance(t, catalog)
			fleet := make([]*instance, processes)
			for k := range fleet {
				fleet[k] = join(t, s, catalog, Interval(interval))
			}
			syncs(t, 1, fleet...)
			r := rand.New(rand.NewPCG(11, uint64(c.calls)))
			begun := time.Now()
			var opened [processes + 1]time.Duration
			all := append([]*instance{one}, fleet...)
			for n, open := 0, 0; open < len(all); n++ {
				require.Less(t, time.Since(begun), 10*time.Second, "not all open: %v", opened)
				share := c.after
				if n < c.calls {
					share = c.before
				}
				var err error
				if r.Float64() < share {
					err = errDown
				}
				one.call(err)
				fleet[n%processes].call(err)
				for k, i := range all {
					if opened[k] == 0 && i.refuses() {
						opened[k] = time.Since(begun)
						open++
					}
				}
				<-time.After(time.Until(begun.Add(time.Duration(n+1) * pace)))
			}
			first, last := opened[1], opened[1]
			for _, at := range opened[1:] {
				first, last = min(first, at), max(last, at)
			}
			t.Logf("one process opened after %v, the ten between %v and %v: %+v to %+v intervals",
				opened[0], first, last, float64(first-opened[0])/float64(interval), float64(last-opened[0])/float64(interval))
			assert.LessOrEqual(t, opened[0]-first, 2*interval)
			assert.LessOrEqual(t, last-opened[0], 2*interval)
		})
	}
}
