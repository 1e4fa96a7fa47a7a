package budgetredis

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// Connections break, replies are lost, Redis stands still and then does what it was told long ago: when all is quiet again,
// Redis has exactly what was finished, and each process knows which part is its own.
func TestSums_are_exact_after_trouble(t *testing.T) {
	s := startServer(t)
	catalog := strings.Replace(countedIn("1h"), "min_requests: 20", "min_requests: 1000000", 1)
	catalog = strings.Replace(catalog, "budget: disabled", "budget: {ratio: 10%, fund: successes, burst: 100000}", 1)
	fleet := make([]*instance, 3)
	for k := range fleet {
		fleet[k] = join(t, s, catalog)
	}
	syncs(t, 1, fleet...)

	stop := make(chan struct{})
	var load sync.WaitGroup
	for k, i := range fleet {
		load.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(k)))
			for {
				select {
				case <-stop:
					return
				case <-time.After(200 * time.Microsecond):
				}
				if r.IntN(3) == 0 {
					i.call(errDown)
				} else {
					i.call(nil)
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 6 {
		s.pause()
		// Long enough for a sync to be given up: what it sent is carried out when Redis goes on.
		<-time.After(time.Duration(200+r.IntN(200)) * time.Millisecond)
		s.resume()
		for range 5 {
			<-time.After(time.Duration(r.IntN(20)) * time.Millisecond)
			s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	}
	close(stop)
	load.Wait()
	failures := int64(0)
	for _, i := range fleet {
		failures += i.view.Stats().Failures
	}
	require.Positive(t, failures, "no trouble at all")
	syncs(t, 2, fleet...)

	var want [3]uint64
	for _, i := range fleet {
		n := (*engine.SDK)(i.sdk).Tallies()[0].Finished()
		for k := range want {
			want[k] += n[k]
		}
	}
	var got [3]uint64
	for field, n := range s.hash("finished:3600000") {
		got[strings.IndexByte("sfw", field[len(field)-1])] += uint64(n)
	}
	assert.Equal(t, want, got)
	t.Logf("%d failed syncs, %d successes and %d failures told", failures, got[0], got[1])
	for _, i := range fleet {
		require.NoError(t, i.view.Close())
		for _, j := range i.view.journals {
			var own [3]uint64
			for _, n := range j.own {
				for k := range n {
					own[k] += uint64(n[k])
				}
			}
			assert.Equal(t, j.known, own, "a process takes some of its own for others'")
		}
	}
}

// Two servers' clocks, or one that was set back: slices of the future count as now, and end like all others.
func TestSums_of_a_clock_that_was_ahead(t *testing.T) {
	s := startServer(t)
	a := join(t, s, countedIn("10s"))
	a.calls(1, nil)
	syncs(t, 2, a)
	key := "chainbudget:{checkout/payments}:finished:10000"
	var slice string
	for field := range s.hash("finished:10000") {
		slice = field[:len(field)-1]
	}
	ahead := func(n int) string { return itoa(atoi(t, slice)+n) + "f" }
	s.do("HSET", key, ahead(3), 12, ahead(1000), 1000, ahead(-1000), 1000, "not ours", 5)
	syncs(t, 2, a)
	assert.False(t, a.refuses(), "an hour ahead or behind is not in the window")
	a.calls(7, errDown)
	await(t, 5*time.Second, "what is a bit ahead does not count", a.refuses)
	syncs(t, 2, a)
	fields := s.hash("finished:10000") // the first failures began a field, and old ones went
	assert.Contains(t, fields, ahead(3))
	assert.NotContains(t, fields, ahead(1000))
	assert.NotContains(t, fields, ahead(-1000))
	assert.Contains(t, fields, "not ours")
}

// Processes come and go. Redis does not remember them for ever.
func TestSums_forget_processes(t *testing.T) {
	s := startServer(t)
	key := "chainbudget:{checkout/payments}:instances"
	long := itoa(int(time.Now().Add(-11 * time.Minute).UnixMicro()))
	for n := range 500 {
		s.do("HSET", key, "gone-"+itoa(n), "1 2 3 4 5 "+long)
	}
	for range 64 {
		a := newInstance(t, countedIn("10s")).share(s.other())
		require.NoError(t, a.view.Close()) // it tells before it goes
	}
	assert.LessOrEqual(t, len(s.admin.HKeys(t.Context(), key).Val()), 64)
}

// What is left of the fleet's sums is never negative, and adds up, whatever slices our own part is taken for.
func TestJournal_others(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		j := &journal{period: time.Second, own: map[int64][3]int64{}}
		fleet, own, sum := map[int64][3]int64{}, [3]int64{}, [3]int64{}
		for slice := int64(991); slice <= 1002; slice++ { // two of them ahead
			n := [3]int64{r.Int64N(50), r.Int64N(50), r.Int64N(50)}
			fleet[slice] = n
			for k := range n {
				sum[k] += n[k]
			}
		}
		fleet[990], fleet[1011] = [3]int64{7, 7, 7}, [3]int64{7, 7, 7} // outside
		for k := range 3 {
			for left := r.Int64N(sum[k] + 1); left > 0; {
				n := 1 + r.Int64N(left)
				j.note(1002-r.Int64N(parts+2), k, n)
				own[k] += n
				left -= n
			}
		}
		j.note(900, 1, 5) // long gone
		var left [3]int64
		for _, slice := range j.others(1000, fleet) {
			for k := range slice {
				left[k] += int64(slice[k])
			}
		}
		for k := range 3 {
			require.Equal(t, sum[k]-own[k], left[k])
		}
	}
}

// The breaker counts a short slice as long as its beginning is in the window: that is when ours began.
func TestSpread(t *testing.T) {
	slices := make([][3]uint64, parts)
	slices[0], slices[1], slices[9] = [3]uint64{1}, [3]uint64{2}, [3]uint64{3}
	grain := 100 * time.Millisecond
	for _, c := range []struct {
		elapsed time.Duration
		at      [3]int
	}{{0, [3]int{0, 10, 90}}, {99 * time.Millisecond, [3]int{0, 10, 90}}, {350 * time.Millisecond, [3]int{3, 13, 93}}, {999 * time.Millisecond, [3]int{9, 19, 99}}} {
		short := spread(slices, c.elapsed, grain)
		for k, i := range c.at {
			assert.Equal(t, uint64(k+1), short[i][0], "%v", c.elapsed)
		}
	}
	assert.NotPanics(t, func() { spread(slices, time.Hour, grain); spread(slices, -time.Hour, grain) })
}
