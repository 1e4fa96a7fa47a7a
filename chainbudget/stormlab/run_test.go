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

// A storm ends, and counts, where an attempt succeeds, where a call is optional, and at the entry; a failure that nobody retried is none.
func TestRun_counts_storms(t *testing.T) {
	naive, none := stormlab.Policy{Kind: stormlab.PolicyNaive, Attempts: 2}, stormlab.Policy{Kind: stormlab.PolicyNone}
	for name, tt := range map[string]struct {
		change func(s *stormlab.Scenario)
		except map[string]stormlab.Policy
		want   [4]float64 // storms for each request, radius, mean radius, farthest
	}{
		"to_the_entry": {func(*stormlab.Scenario) {}, nil, [4]float64{1, 3, 3, 3}},
		"with_a_gap":   {func(*stormlab.Scenario) {}, map[string]stormlab.Policy{"b": none}, [4]float64{1, 2, 2, 3}},
		"near_only":    {func(*stormlab.Scenario) {}, map[string]stormlab.Policy{"a": none, "b": none}, [4]float64{1, 1, 1, 1}},
		"nobody":       {func(*stormlab.Scenario) {}, map[string]stormlab.Policy{"a": none, "b": none, "c": none}, [4]float64{}},
		"cause_above": {func(s *stormlab.Scenario) {
			s.Services[2].Failure, s.Services[2].FailsLate, s.Services[3].Failure = 1, true, 0
		}, nil, [4]float64{1, 2, 2, 2}},
		"optional":      {func(s *stormlab.Scenario) { s.Services[1].Calls[0].Optional = true }, nil, [4]float64{1, 2, 2, 2}},
		"at_once":       {func(s *stormlab.Scenario) { s.Services[0].Parallel, s.Services[2].Parallel = true, true }, nil, [4]float64{1, 3, 3, 3}},
		"both_at_once":  {func(s *stormlab.Scenario) { s.Services[0].Calls[0].Times, s.Services[0].Parallel = 2, true }, nil, [4]float64{1, 3, 3, 3}},
		"refused_conns": {func(s *stormlab.Scenario) { s.Faults = []stormlab.Fault{{Kind: stormlab.FaultCrash, Service: "d"}} }, nil, [4]float64{1, 3, 3, 3}},
		"nothing_fails": {func(s *stormlab.Scenario) { s.Services[3].Failure = 0 }, nil, [4]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stormlab.Scenario{
				Duration: time.Second, Traffic: []stormlab.Traffic{{To: "a", Rate: 50, Even: true}},
				Services: []stormlab.Service{
					{Name: "a", Calls: []stormlab.Call{{To: "b"}}}, {Name: "b", Calls: []stormlab.Call{{To: "c"}}}, {Name: "c", Calls: []stormlab.Call{{To: "d"}}},
					{Name: "d", Failure: 1},
				},
				Variants: []stormlab.Variant{{Name: "naive", Policy: naive, Except: tt.except}},
			}
			tt.change(s)
			v := run(t, s).Variants[0]
			assert.Equal(t, tt.want, [4]float64{float64(v.Storms) / float64(v.Sent), float64(v.Radius), v.MeanRadius, float64(v.Farthest)})
		})
	}
	s := tiny() // an attempt that succeeds
	s.Services = []stormlab.Service{{Name: "shop", Calls: []stormlab.Call{{To: "ledger"}}}, {Name: "ledger", Failure: .3}}
	s.Traffic[0].Rate = 200
	s.Variants = []stormlab.Variant{{Name: "naive", Policy: stormlab.Policy{Kind: stormlab.PolicyNaive, Attempts: 2}}}
	v := run(t, s).Variants[0]
	assert.Equal(t, v.Retries, v.Storms)
	assert.Greater(t, v.Storms, v.Failed)
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
	assert.InDelta(t, float64(r.Variants[0].Sent), 10*60*float64(len(r.Variants[0].Timeline)), float64(r.Variants[0].Sent)/5+2000, "and the timeline ends with it")
}

// The usual load of clients is that of the time that was reached, not of a scenario that was ended before its time.
func TestRun_ended_early_knows_the_usual_load(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := tiny()
	s.Duration, s.Interval, s.Variants = 24*time.Hour, time.Minute, s.Variants[:1]
	s.Traffic = []stormlab.Traffic{{To: "shop", Clients: 100, Every: time.Second}}
	r, err := s.Run(ctx, func(share float64) {
		if share > 0 {
			cancel()
		}
	})
	require.NoError(t, err)
	require.True(t, r.Partial)
	assert.InDelta(t, 1, r.Variants[0].Services[0].Load, .5)
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
