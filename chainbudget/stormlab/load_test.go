package stormlab_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// every key of the file, once.
const everyKey = `version: 1
name: all
seed: 5
duration: 1m
interval: 2s
cells: 2
network: {min: 1ms, max: 2ms}
services:
  - {name: a, work: 5ms, workers: 2, queue: 3, max_in_flight: 9, failure: 10%, fails_late: true, mesh_retries: 2, parallel: true, plain_errors: true,
     calls: [b, {to: c, times: 2, share: 0.5, optional: true, write: true}]}
  - {name: b, work: {mean: 3ms}}
  - {name: c, work: {p50: 3ms, p99: 9ms}}
traffic:
  - {to: a, rate: 10.5, even: true, from: 1s, until: 9s}
  - {to: b, clients: 7, every: 15m, retry_every: 1m}
faults:
  - {kind: error, service: b, from: 1s, until: 2s, share: 25%, status: 502}
  - {kind: slow, service: b, factor: 3}
  - {kind: cut, service: b, caller: a}
variants:
  - {name: x, policy: {kind: naive, attempts: 4, timeout: 1s, base: 2ms, cap: 4ms, fixed: true}, except: {c: {kind: sdk, profile: write-path}}}
  - {name: y, policy: {kind: down_only, budget: 3}}
  - {name: z, policy: {kind: ratio, ratio: 10%, burst: 4}}
expect:
  - {metric: load, service: b, variant: x, from: 1s, until: 3s, min: 1, max: 120%, shows: a word}
  - {metric: p95, max: 250ms}
`

func TestLoad_reads_every_key(t *testing.T) {
	got, err := stormlab.Load([]byte(everyKey), "all.yaml")
	require.NoError(t, err)
	ms, bound := time.Millisecond, func(v float64) *float64 { return &v }
	assert.Equal(t, &stormlab.Scenario{
		Name: "all", Seed: 5, Duration: time.Minute, Interval: 2 * time.Second, Cells: 2, Network: stormlab.Latency{Min: ms, Max: 2 * ms},
		Services: []stormlab.Service{
			{Name: "a", Work: stormlab.Latency{Min: 5 * ms, Max: 5 * ms}, Workers: 2, Queue: 3, MaxInFlight: 9, Failure: .1, FailsLate: true, MeshRetries: 2, Parallel: true, PlainErrors: true,
				Calls: []stormlab.Call{{To: "b"}, {To: "c", Times: 2, Share: .5, Optional: true, Write: true}}},
			{Name: "b", Work: stormlab.Latency{Mean: 3 * ms}},
			{Name: "c", Work: stormlab.Latency{P50: 3 * ms, P99: 9 * ms}},
		},
		Traffic: []stormlab.Traffic{
			{To: "a", Rate: 10.5, Even: true, From: time.Second, Until: 9 * time.Second},
			{To: "b", Clients: 7, Every: 15 * time.Minute, RetryEvery: time.Minute},
		},
		Faults: []stormlab.Fault{
			{Kind: stormlab.FaultError, Service: "b", From: time.Second, Until: 2 * time.Second, Share: .25, Status: 502},
			{Kind: stormlab.FaultSlow, Service: "b", Factor: 3},
			{Kind: stormlab.FaultCut, Service: "b", Caller: "a"},
		},
		Variants: []stormlab.Variant{
			{Name: "x", Policy: stormlab.Policy{Kind: stormlab.PolicyNaive, Attempts: 4, Timeout: time.Second, Base: 2 * ms, Cap: 4 * ms, Fixed: true},
				Except: map[string]stormlab.Policy{"c": {Profile: profiles.WritePath}}},
			{Name: "y", Policy: stormlab.Policy{Kind: stormlab.PolicyDownOnly, Budget: 3}},
			{Name: "z", Policy: stormlab.Policy{Kind: stormlab.PolicyRatio, Ratio: .1, Burst: 4}},
		},
		Expect: []stormlab.Threshold{
			{Metric: stormlab.MetricLoad, Service: "b", Variant: "x", From: time.Second, Until: 3 * time.Second, Min: bound(1), Max: bound(1.2), Shows: "a word"},
			{Metric: stormlab.MetricP95, Max: bound(.25)},
		},
	}, got)
}

// small is a scenario that loads; tests break one line of it.
const small = `version: 1
duration: 10s
services:
  - {name: a, calls: [b]}
  - {name: b}
traffic:
  - {to: a, rate: 10}
variants:
  - {name: sdk}
`

// Each mistake is named with its place and the remedy.
func TestLoad_names_line_column_and_remedy(t *testing.T) {
	_, err := stormlab.Load([]byte(small), "s.yaml")
	require.NoError(t, err)
	for _, tt := range []struct{ name, old, new, want string }{
		{"unknown_key", "rate: 10", "rat: 10", "s.yaml:7:13: traffic[0].rat: is not a known key; known are to, rate, even, clients, every, retry_every, from, until"},
		{"wrong_type", "rate: 10", "rate: fast", `s.yaml:7:19: traffic[0].rate: expected a number, not "fast"; write it as 0.1, 10 or 10%`},
		{"no_unit", "10s", "10", `s.yaml:2:11: duration: expected a duration, not "10"; write a duration with its unit, such as 400ms, 5s or 1m30s`},
		{"range", "10s", "48h", "s.yaml:2:11: duration: 48h0m0s is out of range; use 1ms to 24h"},
		{"unknown_service", "[b]", "[c]", `s.yaml:4:23: services[0].calls[0].to: "c" is no service; name one of a, b`},
		{"cycle", "{name: b}", "{name: b, calls: [a]}", "s.yaml:5:23: services[1].calls[0].to: the calls go in a circle: a -> b -> a; remove one of them"},
		{"itself", "{name: b}", "{name: b, calls: [b]}", "s.yaml:5:23: services[1].calls[0].to: a service calls itself; call another one"},
		{"twice", "{name: b}", "{name: a}", `s.yaml:5:12: services[1].name: "a" is there already; give each service another name`},
		{"twice_a_key", "{name: b}", "{name: b, name: c}", "s.yaml:5:15: services[1].name: is there already; keep one of them"},
		{"missing", "{to: a, rate: 10}", "{to: a}", "s.yaml:7:5: traffic[0].rate: is missing; use requests a second, up to 1000000"},
		{"zero", "rate: 10", "rate: 0", "s.yaml:7:19: traffic[0].rate: 0 is out of range; use requests a second, up to 1000000"},
		{"no_services", "services:\n  - {name: a, calls: [b]}\n  - {name: b}\n", "", "s.yaml:1:1: services: there is none; describe at least one"},
		{"services_misspelt", "services", "servics", "s.yaml:3:1: servics: is not a known key; known are "},
		{"traffic_misspelt", "traffic", "trafic", "s.yaml:6:1: trafic: is not a known key; "},
		{"name_misspelt", "{name: b}", "{nam: b}", "s.yaml:5:6: services[1].nam: is not a known key; "},
		{"workers_misspelt", "{name: b}", "{name: b, wokers: 2, queue: 3}", "s.yaml:5:15: services[1].wokers: is not a known key; "},
		{"clients_misspelt", "rate: 10", "client: 3, every: 1s", "s.yaml:7:13: traffic[0].client: is not a known key; "},
		{"policy_misspelt", "{name: sdk}", "{name: x, policy: {knd: naive, attempts: 3}}", "s.yaml:9:24: variants[0].policy.knd: is not a known key; "},
		{"slow_without_factor", "variants:", "faults: [{kind: slow, service: a}]\nvariants:", "s.yaml:8:10: faults[0].factor: is missing: slow needs a factor; say how many times as long it takes"},
		{"fault_without_service", "variants:", "faults: [{kind: slow, factor: 2}]\nvariants:", "s.yaml:8:10: faults[0].service: is missing; name one of a, b"},
		{"fault_after_the_end", "variants:", "faults: [{kind: crash, service: a, from: 10s, until: 20s}]\nvariants:",
			"s.yaml:8:42: faults[0].from: 10s is not before the end of the traffic, 10s; use an earlier time, or a longer duration"},
		{"traffic_after_the_end", "rate: 10", "rate: 10, from: 11s", "s.yaml:7:29: traffic[0].from: 11s is not before the end of the traffic, 10s; use an earlier time, or a longer duration"},
		{"threshold_after_the_end", "variants:", "expect: [{metric: success, from: 60s, max: 20%}]\nvariants:",
			"s.yaml:8:34: expect[0].from: 1m0s is not before the end of the traffic, 10s; use an earlier time, or a longer duration"},
		{"threshold_within_an_interval", "variants:", "expect: [{metric: success, from: 1100ms, until: 1900ms, max: 20%}]\nvariants:",
			"s.yaml:8:49: expect[0].until: no interval of the timeline begins from 1.1s until 1.9s; use multiples of the interval, 1s"},
		{"threshold_within_the_last_interval", "variants:", "expect: [{metric: success, from: 9500ms, max: 20%}]\nvariants:",
			"s.yaml:8:34: expect[0].from: no interval of the timeline begins from 9.5s until 10s; use multiples of the interval, 1s"},
		{"more_than_all", "variants:", "expect: [{metric: success, max: 20}]\nvariants:",
			"s.yaml:8:33: expect[0].max: 20 is more than all requests, 2000 %; success is a share: use 0 to 1, or 0% to 100%, such as 20%"},
		{"min_above_max", "variants:", "expect: [{metric: retries, min: 3, max: 2}]\nvariants:", "s.yaml:8:33: expect[0].min: 3 is above max, 2; use a min up to max"},
		{"below_zero", "variants:", "expect: [{metric: retries, max: -1}]\nvariants:", "s.yaml:8:33: expect[0].max: -1 is out of range; no metric is below 0: use 0 or more"},
		{"load_without_service", "variants:", "expect: [{metric: load, max: 1}]\nvariants:", "s.yaml:8:10: expect[0].service: is missing: load needs a service; name one of a, b"},
		{"metric_misspelt", "variants:", "expect: [{metric: lod, service: b, max: 1}]\nvariants:", `s.yaml:8:19: expect[0].metric: "lod" is no metric; `},
		{"bound_misspelt", "variants:", "expect: [{metric: retries, mx: 1}]\nvariants:", "s.yaml:8:28: expect[0].mx: is not a known key; "},
		{"no_version", "version: 1\n", "", `s.yaml:1:1: version: is missing; begin the file with "version: 1"`},
		{"another_version", "version: 1", "version: 2", "s.yaml:1:10: version: 2 is not known here; write 1, or use a release that knows this version"},
		{"policy", "{name: sdk}", "{name: x, policy: {kind: nice}}", `s.yaml:9:30: variants[0].policy.kind: "nice" is no policy; write one of none, naive, ratio, down_only, chain_stop, finagle, grpc, aws, or leave it out for the SDK`},
		{"profile", "{name: sdk}", "{name: x, policy: {profile: nice}}", `s.yaml:9:33: variants[0].policy.profile: "nice" is no profile of the catalog; name one that it has`},
		{"hedge", "{name: sdk}", "name: sdk\n    catalog: |\n      version: 1\n      profiles: {h: {extends: read-heavy, hedge: {after: 10ms, max: 1}}}\n      dependencies: {b: {profile: h}}",
			`s.yaml:10:14: variants[0].catalog: dependency "b" has profile "h", which hedges, and the lab does not; pin a profile without hedge`},
		{"settings_of_another", "{name: sdk}", "{name: x, policy: {attempts: 3}}", "s.yaml:9:23: variants[0].policy: has settings of another policy; write the SDK's settings into the catalog"},
		{"anchor", "{name: b}", "&b {name: b}", "s.yaml:5:5: services[1]: anchors and aliases are not supported; write the value out"},
		{"tag", "10s", "!!str 10s", `s.yaml:2:11: duration: the tag "!!str" is not supported; remove it`},
		{"no_file", "{name: sdk}", "{name: sdk, catalog: none.yaml}", "s.yaml:9:26: variants[0].catalog: the catalog cannot be read: "},
		{"catalog", "{name: sdk}", "name: sdk\n    catalog: |\n      version: 1\n      chain: {bugdet: 3}", "s.yaml:12:15: chain.bugdet: "},
		{"fault", "variants:", "faults: [{kind: rain, service: a}]\nvariants:", `s.yaml:8:17: faults[0].kind: "rain" is no fault; write one of error, slow, hang, crash, cut, drop_context, no_sdk, no_baggage`},
		{"share_of_no_sdk", "variants:", "faults: [{kind: no_sdk, service: a, share: 50%}]\nvariants:", "s.yaml:8:44: faults[0].share: a service runs the SDK for all requests or for none; remove it"},
		{"metric", "variants:", "expect: [{metric: joy, max: 1}]\nvariants:", `s.yaml:8:19: expect[0].metric: "joy" is no metric; write one of success, load, retries, radius, mean_radius, p50, p95, p99`},
		{"no_bound", "variants:", "expect: [{metric: success}]\nvariants:", "s.yaml:8:10: expect[0]: has no bound; set min, max or both"},
		{"shows", "variants:", "expect: [{metric: success, max: 1, shows: \"two\\nlines\"}]\nvariants:", `s.yaml:8:43: expect[0].shows: is no line of text; write up to 200 bytes, without line breaks`},
		{"latency", "{name: b}", "{name: b, work: {mean: 1ms, p50: 1ms, p99: 2ms}}", "s.yaml:5:21: services[1].work: is more than one distribution; use min and max, or mean, or p50 and p99"},
		{"syntax", "{name: b}", "{name: b", "s.yaml:4:1: not valid YAML: "},
		{"not_a_mapping", small, "- a\n", "s.yaml:1:1: expected keys with values, not a list; "},
		{"empty", small, "", `s.yaml:1:1: the file is empty; begin it with "version: 1"`},
		{"second_document", "variants:", "---\nvariants:", "s.yaml:1:1: there is a second document; keep everything in one, without a line ---"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := stormlab.Load([]byte(strings.Replace(small, tt.old, tt.new, 1)), "s.yaml")
			bad := new(profiles.CatalogError)
			require.True(t, errors.As(err, &bad), "%v", err)
			assert.Contains(t, err.Error()+"\n", tt.want)
			if tt.name != "twice" { // that name is then missing, too
				assert.Len(t, bad.Problems, 1, "%v", err)
			}
		})
	}
}

// All problems are listed at once, by their lines, and no more than fifty.
func TestLoad_lists_all_problems(t *testing.T) {
	_, err := stormlab.Load([]byte(strings.NewReplacer("10s", "0s", "[b]", "[c]", "rate: 10", "rate: -1").Replace(small)), "s.yaml")
	bad := new(profiles.CatalogError)
	require.True(t, errors.As(err, &bad))
	var lines []int
	for _, p := range bad.Problems {
		lines = append(lines, p.Line)
		assert.NotEmpty(t, p.Fix)
	}
	assert.Equal(t, []int{2, 4, 7}, lines, "%v", err)

	_, err = stormlab.Load([]byte(small+strings.Repeat("x: 1\n", 60)), "s.yaml")
	require.True(t, errors.As(err, &bad))
	assert.Len(t, bad.Problems, 50)
	assert.Equal(t, 10, bad.More)
}

// A catalog can be a file beside the scenario.
func TestLoadFile_finds_the_catalog_beside_it(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("catalog.yaml", "version: 1\nprofiles: {own: {extends: read-heavy}}\n")
	s, err := stormlab.LoadFile(write("s.yaml", strings.Replace(small, "{name: sdk}", "{name: sdk, catalog: catalog.yaml, policy: {profile: own}}", 1)))
	require.NoError(t, err)
	assert.Equal(t, "s", s.Name, "the file's name where it says none")
	assert.Contains(t, s.Variants[0].Catalog.Profiles, profiles.Name("own"))

	_, err = stormlab.LoadFile(filepath.Join(dir, "none.yaml"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
