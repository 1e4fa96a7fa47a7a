package stormlab_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// A catalog whose services have hosts of their own means the same in the lab: tokens are lent to what it says is inside, and to
// nothing else.
func TestRun_hosts_are_those_of_the_catalog(t *testing.T) {
	for name, tt := range map[string]struct {
		more string
		want float64 // the load of the leaf: the middle can only repeat with tokens of its caller
	}{
		"single_labels_are_internal": {"", 2},
		"internal_hosts":             {`internal_hosts: ["*.corp.example.com"]`, 2},
		"hosts_of_the_dependency":    {`dependencies: {middle: {profile: lab, hosts: ["*.middle.example.com"], external: false}}`, 2},
		"hosts_outside":              {`dependencies: {middle: {profile: lab, hosts: ["middle.example.com"]}}`, 1},
		"external":                   {`dependencies: {middle: {profile: lab, external: true}}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := profiles.Load([]byte(`
version: 1
chain: {orphan_budget: 0}
profiles:
  lab: {extends: read-heavy, retry: {max_attempts: 2}, breaker: disabled, availability_floor: 0%, budget: disabled}
`+tt.more), "hosts")
			if err != nil {
				t.Fatal(err)
			}
			r := run(t, &stormlab.Scenario{
				Duration: time.Second,
				Services: []stormlab.Service{
					{Name: "entry", Calls: []stormlab.Call{{To: "middle", Write: true}}},
					{Name: "middle", Calls: []stormlab.Call{{To: "leaf"}}},
					{Name: "leaf", Failure: 1},
				},
				Traffic:  []stormlab.Traffic{{To: "entry", Rate: 100, Even: true}},
				Variants: []stormlab.Variant{{Name: "sdk", Catalog: c, Policy: stormlab.Policy{Profile: "lab"}}},
			})
			assert.InDelta(t, tt.want, loads(t, r, "sdk")["leaf"], .01)
		})
	}
}
