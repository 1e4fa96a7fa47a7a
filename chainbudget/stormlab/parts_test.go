package stormlab

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reference is a station that remembers every request: slow, and obvious.
type reference struct {
	workers, queue int
	starts, ends   []int64
}

func (r *reference) accept(now, work int64) (int64, bool) {
	waiting := 0
	for _, s := range r.starts {
		if s > now {
			waiting++
		}
	}
	// A request begins as soon as fewer are at work, or waiting before it, than there are workers.
	ends := slices.Clone(r.ends)
	slices.Sort(ends)
	start := now
	if n := len(ends); n >= r.workers {
		start = max(now, ends[n-r.workers])
	}
	if start > now && waiting >= r.queue {
		return 0, false
	}
	r.starts, r.ends = append(r.starts, start), append(r.ends, start+work)
	return start + work, true
}

// Times are whole, so that workers get free together and requests come just then.
func TestStation_is_first_come_first_served(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		workers, queue := 1+random.IntN(4), random.IntN(5)
		s, r := newStation(workers, queue), &reference{workers: workers, queue: queue}
		now := int64(0)
		for n := range 200 {
			now += random.Int64N(6)
			work := 1 + random.Int64N(12)
			done, ok := s.accept(now, work)
			wantDone, wantOK := r.accept(now, work)
			require.Equal(t, wantOK, ok, "seed %d, request %d", seed, n)
			require.Equal(t, wantDone, done, "seed %d, request %d", seed, n)
		}
	}
}

func TestStation_without_workers_has_no_limit(t *testing.T) {
	s := newStation(0, 0)
	for range 100 {
		done, ok := s.accept(5, 10)
		assert.True(t, ok)
		assert.EqualValues(t, 15, done)
	}
}

// The queue of a station is bounded in memory, too, however long it is never empty.
func TestStation_forgets_what_has_begun(t *testing.T) {
	s := newStation(1, 10)
	for now := range int64(1_000_000) {
		s.accept(now, 1)
		s.accept(now, 1)
	}
	assert.Less(t, cap(s.starts), 20_000)
}

func TestHistogram_is_at_most_a_thirtieth_too_long(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	h := new(histogram)
	var all []int64
	for range 20_000 {
		d := int64(math.Exp(random.Float64() * 28))
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, share := range []float64{.01, .5, .95, .99, 1} {
		exact := time.Duration(all[int(math.Ceil(share*float64(len(all))))-1])
		got := h.percentile(share)
		assert.GreaterOrEqual(t, got, exact, "%v", share)
		assert.LessOrEqual(t, float64(got), max(float64(exact)*(1+1./31), 1<<histogramFirst), "%v", share)
	}
	assert.Zero(t, new(histogram).percentile(.5))
	h.add(int64(100 * time.Hour))
	assert.Equal(t, upper(histogramSize-1), h.percentile(1), "what is longer than the last is in the last")
}

func TestLatency_draws_its_distribution(t *testing.T) {
	const n = 200_000
	source := streamOf(1, 0, "test", "latency")
	for _, tt := range []struct {
		of            Latency
		p50, p99, tol float64 // in milliseconds
	}{
		{Latency{Min: 10 * time.Millisecond, Max: 20 * time.Millisecond}, 15, 19.9, .01},
		{Latency{Mean: 10 * time.Millisecond}, 10 * math.Ln2, 10 * math.Log(100), .02},
		{Latency{P50: 10 * time.Millisecond, P99: 80 * time.Millisecond}, 10, 80, .02},
	} {
		var all []int64
		for i := range uint64(n) {
			all = append(all, tt.of.draw(source.share(i, drawWork)))
		}
		slices.Sort(all)
		assert.InEpsilon(t, tt.p50, float64(all[n/2])/1e6, tt.tol, "%+v", tt.of)
		assert.InEpsilon(t, tt.p99, float64(all[n/100*99])/1e6, tt.tol, "%+v", tt.of)
	}
	assert.LessOrEqual(t, Latency{P50: time.Second, P99: time.Hour}.draw(1), int64(maxLatency))
}

// Published rules of others' budgets: what is allowed, and from when on nothing is.
func TestRivals_keep_the_published_rules(t *testing.T) {
	t.Run("grpc_stops_after_5_failures_and_resumes_after_51_successes", func(t *testing.T) {
		b := &throttle{level: throttleMax}
		failures := 0
		for ; b.retry(0); failures++ {
			b.attempted(1, false)
		}
		assert.Equal(t, 5, failures)
		b.level = 0
		successes := 0
		for ; !b.retry(0); successes++ {
			b.attempted(1, true)
		}
		assert.Equal(t, 51, successes)
	})
	t.Run("aws_makes_35_retries_of_a_full_quota", func(t *testing.T) {
		b := &quota{level: quotaMax}
		retries := 0
		for ; b.retry(0); retries++ {
			b.attempted(2, false)
		}
		assert.Equal(t, 35, retries)
		b.level = 100
		b.retry(0)
		b.retry(0)
		b.attempted(3, true)
		assert.Equal(t, 86, b.level, "only the last retry's cost comes back")
		b.attempted(1, true)
		assert.Equal(t, 87, b.level)
	})
	for rps, want := range map[int]float64{1: 10.2, 10: 12, 50: 20, 100: 30, 1000: 210} {
		b := new(finagle)
		retries, seconds := 0, int64(200)
		for second := range seconds {
			for range rps {
				b.called(second * int64(time.Second))
			}
			for b.retry(second * int64(time.Second)) {
				if second >= 100 { // sustained
					retries++
				}
			}
		}
		assert.InDelta(t, want, float64(retries)/100, .11, "finagle at %d requests a second", rps)
	}
}

// What would come without a retry follows from the calls alone: by their number, their share, and on every path.
func TestScenario_visits(t *testing.T) {
	s := Scenario{Services: []Service{
		{Name: "a", Calls: []Call{{To: "b", Times: 2}, {To: "c", Share: .5}}},
		{Name: "b", Calls: []Call{{To: "c", Times: 3}}},
		{Name: "c"},
	}}
	assert.Equal(t, [][]float64{{1, 2, 6.5}, {0, 1, 3}, {0, 0, 1}}, s.visitsOf())
}
