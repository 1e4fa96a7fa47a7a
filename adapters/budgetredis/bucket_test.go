package budgetredis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// budgeted is a catalog in which only the dependency budget decides.
func budgeted(burst int) string {
	return fmt.Sprintf(`
version: 1
chain: {orphan_budget: 1}
profiles:
  p:
    extends: read-heavy
    retry: {max_attempts: 2}
    budget: {ratio: 10%%, fund: requests, burst: %d}
    availability_floor: 0%%
    breaker: disabled
dependencies:
  payments: {profile: p}
`, burst)
}

// retry makes a call that fails twice if it may, and returns how many retries it made.
func (i *instance) retry() (retries int) {
	attempts := 0
	_ = chainbudget.Do(context.Background(), i.dep, func(context.Context) error {
		attempts++
		return chainbudget.Retryable(errDown)
	}, chainbudget.Idempotent())
	return attempts - 1
}

// retries makes n such calls.
func (i *instance) retries(n int) (sum int) {
	for range n {
		sum += i.retry()
	}
	return sum
}

// fleetLevel is what Redis has under the one key of a level.
func (s *server) fleetLevel() int64 {
	s.t.Helper()
	var level int64
	for _, key := range s.keys() {
		if strings.Contains(key, ":level:") {
			n, err := strconv.ParseInt(s.admin.Get(context.Background(), key).Val(), 10, 64)
			require.NoError(s.t, err)
			level = n
		}
	}
	return level
}

// Ten processes, each of which calls four times between two syncs. One bucket allows the burst and a tenth of the
// requests. A process sees what others took after two syncs, so that it may take eight more than there are, and
// that of nine processes. Ten buckets would allow ten bursts.
func TestBucket_ten_processes_live_on_one(t *testing.T) {
	const processes, rounds, each, burst = 10, 40, 4, 100
	s := startServer(t)
	fleet := make([]*instance, processes)
	for k := range fleet {
		fleet[k] = join(t, s, budgeted(burst))
	}
	requests, retries := 0, 0
	for range rounds {
		for _, i := range fleet {
			retries += i.retries(each)
			requests += each
		}
		syncs(t, 1, fleet...)
	}
	one := burst + requests/10
	overshoot := (processes - 1) * 2 * each
	t.Logf("%d requests, %d retries; one bucket allows %d, and the overshoot is at most %d; ten would have allowed %d",
		requests, retries, one, overshoot, processes*burst+requests/10)
	assert.LessOrEqual(t, retries, one+overshoot)
	assert.Greater(t, retries, one*8/10, "what the fleet pays in is there for the fleet")

	// Redis goes: each process has its own tenth, and no debt.
	s.kill()
	for _, i := range fleet {
		await(t, 5*time.Second, "a process alone waits for the fleet to repay", func() bool { return i.level() >= 0 })
		before := i.level()
		n := i.retries(200)
		assert.InDelta(t, float64(before)/1000+20, n, 2, "a process alone retries on its own level and its own requests")
	}
}

// What several processes took too much is owed: nobody retries before it is paid in.
func TestBucket_too_much_is_owed(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, budgeted(10)), join(t, s, budgeted(10))
	syncs(t, 2, a, b)
	s.pause() // so that neither hears of the other
	taken := a.retries(10) + b.retries(10)
	assert.GreaterOrEqual(t, taken, 20, "each has seen a full bucket")
	s.resume()
	await(t, 5*time.Second, "what was taken does not arrive", func() bool { return s.fleetLevel() <= -8000 })
	syncs(t, 2, a, b)
	assert.Negative(t, a.level())
	assert.Negative(t, b.level())
	owed := int(-s.fleetLevel() / 100) // requests that pay it in, at a tenth of a token each
	assert.Zero(t, a.retries(owed), "a repays")
}

// A flush must not fill the bucket: the fleet goes on from the level of whoever syncs first.
func TestBucket_a_flush_is_no_gift(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, budgeted(10)), join(t, s, budgeted(10))
	a.retries(12)
	syncs(t, 2, a, b)
	assert.Less(t, b.level(), int64(1000))
	for range 3 {
		s.do("FLUSHALL")
		syncs(t, 2, a, b)
		assert.Less(t, a.level(), int64(1000))
		assert.Less(t, b.level(), int64(1000))
	}
	assert.Zero(t, a.view.Stats().Failures+b.view.Stats().Failures, "a flush is no failure")
}

// A process that starts does not bring a burst of its own.
func TestBucket_a_new_process_joins(t *testing.T) {
	s := startServer(t)
	a := join(t, s, budgeted(10))
	a.retries(12)
	syncs(t, 2, a)
	b := join(t, s, budgeted(10))
	syncs(t, 2, b)
	assert.Less(t, b.level(), int64(1000))
}

// Half of a fleet has another burst: its bucket is another one until all have.
func TestBucket_other_bursts_are_apart(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, budgeted(10)), join(t, s, budgeted(100))
	syncs(t, 2, a, b)
	assert.Equal(t, int64(100_000), b.level(), "clamped by the smaller one")
	a.retries(12)
	syncs(t, 2, a, b)
	assert.Equal(t, int64(100_000), b.level())
	a.swap(budgeted(100))
	syncs(t, 2, a, b)
	assert.Equal(t, int64(100_000), a.level(), "a is of b's bucket now")
	b.retries(50)
	syncs(t, 2, a, b)
	assert.Less(t, a.level(), int64(60_000))
}

// A catalog with a smaller burst moves a process's level. That is nothing it took, and the fleet's bucket must not pay for it.
func TestBucket_a_new_size_is_not_spent(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, budgeted(100)), join(t, s, budgeted(10))
	syncs(t, 2, a, b)
	a.swap(budgeted(10))
	assert.Equal(t, int64(10_000), a.level())
	syncs(t, 2, a, b)
	assert.Equal(t, int64(10_000), a.level())
	assert.Equal(t, int64(10_000), b.level())
}

// What is paid in at one process is there for another, and nothing is told twice: the fleet's level is what one bucket's
// would be, whatever syncs come between.
func TestBucket_levels_add_up(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, budgeted(100)), join(t, s, budgeted(100))
	syncs(t, 1, a, b)
	want := int64(100_000)
	for range 15 {
		// Away from the full bucket, where what comes in is lost.
		want += int64(3*100-1000*a.retries(3)) + int64(2*100-1000*b.retries(2))
		syncs(t, 1, a, b)
	}
	syncs(t, 2, a, b)
	// The first request of all found it full: what it paid in was lost, in one process or in both.
	assert.InDelta(t, want, s.fleetLevel(), 200)
	assert.Equal(t, s.fleetLevel(), a.level())
	assert.Equal(t, s.fleetLevel(), b.level())
}

// reserve counts over time and has no level to share; throttle has no debt.
func TestBucket_kinds(t *testing.T) {
	s := startServer(t)
	of := func(budget string) string {
		return strings.Replace(budgeted(10), "budget: {ratio: 10%, fund: requests, burst: 10}", budget, 1)
	}
	a := join(t, s, of("budget: {kind: reserve, ratio: 20%, min_per_second: 10, ttl: 10s}"))
	syncs(t, 2, a)
	for _, key := range s.keys() {
		assert.NotContains(t, key, "level")
	}
	b := join(t, s, of("budget: {kind: throttle, ratio: 10%, burst: 10}"))
	c := join(t, s, of("budget: {kind: throttle, ratio: 10%, burst: 10}"))
	d := join(t, s, of("budget: {kind: quota, burst: 500, cost: 14, throttled_cost: 5}"))
	syncs(t, 2, b, c, d)
	d.retries(10)
	b.retries(50)
	syncs(t, 2, b, c, d)
	assert.Equal(t, b.level(), c.level())
	assert.Equal(t, int64(500_000-10*14_000), d.level())
}
