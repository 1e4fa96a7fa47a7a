package stormlab

import (
	"context"
	"encoding/json"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// overrunning is a fleet with a rate that somebody mistyped: its database takes whatever comes into its queue, and is never done.
func overrunning(cells int) *Scenario {
	return &Scenario{
		Duration: time.Minute, Seed: 3, Cells: cells,
		Services: []Service{
			{Name: "shop", Calls: []Call{{To: "search"}, {To: "page", Optional: true}}},
			{Name: "search", Work: Latency{Mean: time.Millisecond}},
			{Name: "page", Parallel: true, Calls: []Call{{To: "database", Times: 5}}},
			{Name: "database", Work: Latency{Mean: 10 * time.Millisecond}, Workers: 3, Queue: 1_000_000},
		},
		Traffic:  []Traffic{{To: "shop", Rate: 1000}, {To: "search", Clients: 20, Every: time.Second}},
		Variants: []Variant{{Name: "naive", Policy: Policy{Kind: PolicyNaive}}, {Name: "sdk"}},
	}
}

// A run that has more under way than the lab holds ends with what had happened by then, says where it waits, and is as repeatable as
// any other.
func TestRun_ends_where_too_much_is_under_way(t *testing.T) {
	const most = 2000
	for name, tt := range map[string]struct {
		variant, cells int
		want           string
	}{
		"naive": {0, 0, `variant "naive": more than 2000 requests and calls were under way at once after 2`},
		"sdk":   {1, 0, `variant "sdk": more than 2000 requests and calls were under way at once after `},
		"cells": {0, 4, `variant "naive": more than 500 requests and calls were under way at once in one of 4 cells after 2`},
	} {
		t.Run(name, func(t *testing.T) {
			s := overrunning(tt.cells)
			s.Variants = append(s.Variants[tt.variant:tt.variant+1:tt.variant+1], Variant{Name: "never"})
			r, err := s.run(context.Background(), nil, most)
			require.NotNil(t, r)
			require.EqualError(t, err, "stormlab: "+r.Ended)
			assert.Contains(t, r.Ended, tt.want)
			assert.Regexp(t, `ms of traffic, \d+ of them waiting at "database": lower the rate, let its queue hold fewer, or give its callers a timeout$`, r.Ended)
			assert.True(t, r.Partial)
			require.Len(t, r.Variants, 1, "the run ends")
			v := r.Variants[0]
			assert.Positive(t, v.Sent)
			assert.Less(t, v.Sent, int64(4000), "no more come")
			assert.Less(t, v.Good+v.Failed, v.Sent/2, "what is sent home then does not count")
			assert.Empty(t, v.Timeline, "not one interval was over")

			first, err := json.Marshal(r)
			require.NoError(t, err)
			for _, processors := range []int{1, 8} {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
				again, _ := s.run(context.Background(), nil, most)
				text, err := json.Marshal(again)
				require.NoError(t, err)
				require.Equal(t, string(first), string(text), "%d processors", processors)
			}
		})
	}
	t.Run("who_waits_for_calls_waits_there", func(t *testing.T) {
		s := overrunning(0)
		s.Services = []Service{{Name: "shop", Calls: []Call{{To: "database"}}}, {Name: "database", Work: Latency{Min: time.Minute, Max: time.Minute}}}
		s.Traffic = []Traffic{{To: "shop", Rate: 100, Even: true}}
		_, err := s.run(context.Background(), nil, 100)
		assert.ErrorContains(t, err, `after 500ms of traffic, 50 of them waiting at "database"`)
	})
	t.Run("no_more_come", func(t *testing.T) {
		s := overrunning(0)
		bubble(func() {
			c := newCell(s, &s.Variants[0], 0, most, new(atomic.Bool), new(atomic.Int64))
			c.run()
			sent := int64(0)
			for i := range c.ledger.windows { // of after the overrun
				sent += c.ledger.windows[i].sent
			}
			assert.LessOrEqual(t, sent, int64(21), "but one that has begun to come, and what each client has begun")
			assert.Zero(t, c.underWay)
		})
	})
	t.Run("not_before", func(t *testing.T) {
		s := overrunning(0)
		s.Duration, s.Traffic = time.Second, []Traffic{{To: "database", Rate: 100, Even: true}}
		s.Services[3] = Service{Name: "database", Work: Latency{Min: time.Minute, Max: time.Minute}}
		r, err := s.run(context.Background(), nil, 100)
		require.NoError(t, err)
		assert.EqualValues(t, 100, r.Variants[0].Good)
		_, err = s.run(context.Background(), nil, 99)
		assert.ErrorContains(t, err, `more than 99 requests and calls were under way at once after 990ms of traffic, 100 of them waiting at "database"`)
	})
}

// What a run is expected to come to is what it comes to where nothing fails.
func TestExpected(t *testing.T) {
	s := &Scenario{
		Duration: 10 * time.Second,
		Services: []Service{
			{Name: "shop", Calls: []Call{{To: "cart", Times: 2}, {To: "stock", Share: .5}}},
			{Name: "cart", Calls: []Call{{To: "stock"}}},
			{Name: "stock"},
		},
		Traffic: []Traffic{
			{To: "shop", Rate: 100, Even: true, From: time.Second, Until: time.Minute},
			{To: "cart", Clients: 100, Every: time.Second, Until: 5 * time.Second},
		},
		Variants: []Variant{{Name: "none", Policy: Policy{Kind: PolicyNone}}},
	}
	requests, calls := s.Expected()
	assert.InDelta(t, 900+500, requests, .1)
	assert.InDelta(t, 900*4.5+500, calls, .1)
	r, err := s.Run(context.Background(), nil)
	require.NoError(t, err)
	assert.InEpsilon(t, requests, float64(r.Variants[0].Sent), .05)
	assert.InEpsilon(t, calls, float64(r.Variants[0].Attempts), .05)
}
