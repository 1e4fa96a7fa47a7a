package stormlab_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

// tiny is a scenario of two variants that is over at once.
func tiny() *stormlab.Scenario {
	return &stormlab.Scenario{
		Name: "tiny", Duration: 2 * time.Second,
		Services: []stormlab.Service{{Name: "shop"}},
		Traffic:  []stormlab.Traffic{{To: "shop", Rate: 10}},
		Variants: []stormlab.Variant{{Name: "one"}, {Name: "two"}},
	}
}

// A scenario made in Go is checked as one in a file is, and says everything at once.
func TestRun_refuses_a_scenario_with_problems(t *testing.T) {
	s := tiny()
	s.Traffic[0].To, s.Variants[1].Name = "nowhere", "one"
	_, err := s.Run(context.Background(), nil)
	assert.EqualError(t, err, `stormlab: traffic[0].to: "nowhere" is no service; name one of shop
stormlab: variants[1].name: "one" is there already; give each variant another name`)
}

func TestRun_tells_how_far_it_is(t *testing.T) {
	var last float64
	var told atomic.Int64
	_, err := tiny().Run(context.Background(), func(share float64) { last = share; told.Add(1) })
	require.NoError(t, err)
	assert.NotZero(t, told.Load())
	assert.EqualValues(t, 1, last)
}

// Where nothing succeeded, no threshold of a latency is kept: nothing was fast.
func TestRun_misses_latencies_of_nothing(t *testing.T) {
	s := tiny()
	s.Services[0].Failure = 1
	most := 1.0
	s.Expect = []stormlab.Threshold{{Metric: stormlab.MetricP95, Max: &most}}
	r, err := s.Run(context.Background(), nil)
	require.NoError(t, err)
	assert.False(t, r.Pass())
	s.Services[0].Failure = 0
	r, err = s.Run(context.Background(), nil)
	require.NoError(t, err)
	assert.True(t, r.Pass(), "%+v", r.Verdicts)
}

// A context that ends makes the result partial, and a partial result passes no threshold.
func TestRun_ends_with_its_context(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := tiny()
	s.Duration, s.Interval = 24*time.Hour, time.Minute
	least := 0.0
	s.Expect = []stormlab.Threshold{{Metric: stormlab.MetricSuccess, Min: &least}}
	r, err := s.Run(ctx, func(share float64) {
		if share > 0 {
			cancel()
		}
	})
	cancel()
	require.NoError(t, err)
	assert.True(t, r.Partial)
	assert.False(t, r.Pass())
	require.NotEmpty(t, r.Variants)
	assert.Less(t, r.Variants[0].Sent, int64(860_000), "a day has ten times so many seconds")
}

// One scenario may run several times at once.
func TestRun_side_by_side(t *testing.T) {
	s := tiny()
	results := make(chan *stormlab.Result)
	for range 4 {
		go func() {
			r, err := s.Run(context.Background(), nil)
			assert.NoError(t, err)
			results <- r
		}()
	}
	first := <-results
	for range 3 {
		assert.Equal(t, first, <-results)
	}
}
