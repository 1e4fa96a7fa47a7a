package profiles

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOutage(t *testing.T) {
	c, err := Load([]byte(`version: 1
chain: {budget: 3, process_budget: 100}
profiles:
  endless: {extends: read-heavy, budget: disabled}
  reserve: {extends: read-heavy, process_budget: 60, budget: {kind: reserve, ratio: 100%, ttl: 10s, min_per_second: 5}}
  reserve-two: {extends: reserve, retry: {max_attempts: 2}}
  roomy: {extends: endless, process_budget: 200}
  requests: {extends: read-heavy, budget: {fund: requests, ratio: 20%}}
  throttle: {extends: read-heavy, budget: {kind: throttle, ratio: 10%, burst: 10}}
  ten: {extends: endless, retry: {max_attempts: 10}}
  two: {extends: endless, retry: {max_attempts: 2}}
dependencies:
  off: {profile: ten, mode: bypass}
  seen: {profile: ten, mode: observe}
  pinned: {profile: two}
overrides: {retries: disabled}
`), "c.yaml")
	require.NoError(t, err)
	for _, x := range []struct {
		dependency string
		inCode     Name
		want       Outage
		text       string
	}{
		{"db", ReadHeavy, Outage{PerCall: 3, Ends: true, AtMost: 10, AtMostThrottled: 10}, "at most 10, so they end"},
		{"db", AWSStandard, Outage{PerCall: 2, Ends: true, AtMost: 35, AtMostThrottled: 100}, "at most 35, 100 where the answers ask for less load, so they end"},
		{"db", "throttle", Outage{PerCall: 3, Ends: true, AtMost: 4, AtMostThrottled: 4}, "at most 4, so they end"},
		{"db", "endless", Outage{PerCall: 3, Share: 3, PerMinute: 100}, "3 for each call, so they go on, up to 100 a minute"},
		{"db", "requests", Outage{PerCall: 3, Share: 0.2, PerMinute: 100}, "20 % of requests, so they go on, up to 100 a minute"},
		{"db", "reserve", Outage{PerCall: 3, Share: 1, PerSecond: 5, PerMinute: 60}, "100 % of requests and 5 a second, so they go on, up to 60 a minute"},
		{"db", "reserve-two", Outage{PerCall: 1, Share: 1, PerSecond: 5, PerMinute: 60}, "100 % of requests and 5 a second, so they go on, up to 60 a minute"},
		{"db", "roomy", Outage{PerCall: 3, Share: 3, PerMinute: 100}, "3 for each call, so they go on, up to 100 a minute"},
		{"db", "ten", Outage{PerCall: 3, Share: 3, PerMinute: 100}, "3 for each call, so they go on, up to 100 a minute"},
		{"seen", "", Outage{PerCall: 9, Share: 9, PerMinute: 100}, "9 for each call, so they go on, up to 100 a minute"},
		{"pinned", "ten", Outage{PerCall: 1, Share: 1, PerMinute: 100}, "1 for each call, so they go on, up to 100 a minute"},
		{"off", "", Outage{Ends: true}, "no retries"},
		{"db", NoRetry, Outage{Ends: true}, "no retries"},
		{"db", "unknown", Outage{Ends: true}, "no retries"},
	} {
		got := c.Outage(x.dependency, x.inCode)
		assert.Equal(t, x.want, got, "%s by %s", x.dependency, x.inCode)
		assert.Equal(t, x.text, got.String(), "%s by %s", x.dependency, x.inCode)
	}
	assert.Equal(t, "at most 10, so they end", (*Catalog)(nil).Outage("db", ReadHeavy).String())
}
