package profiles

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One problem, one line, with its place, what is wrong and how to mend it.
func TestLoad_problems(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", `1:1: the file is empty; begin it with "version: 1"`},
		{"comment_only", "# nothing\n", `1:1: the file is empty; begin it with "version: 1"`},
		{"list", "- 1\n", `1:1: expected keys with values, not a list; write them as "key: value"`},
		{"null", "version: 1\nchain:\n", `2:7: chain: expected keys with values, not nothing; write them as "key: value"`},
		{"no_version", "chain: {}\n", `1:1: version: is missing; begin the file with "version: 1"`},
		{"newer_version", "version: 2\n", "1:10: version: 2 is not known here; write 1, or use a release that knows this version"},
		{"quoted_version", "version: \"1\"\n", "1:10: version: expected a number, not text; remove the quotes"},
		{"syntax", "version: 1\nchain: {budget: 3\n", "not valid YAML: did not find expected ',' or '}'; check indentation, colons and quotes there"},
		{"tab", "version: 1\nchain:\n\tbudget: 3\n", "3:1: not valid YAML: found character that cannot start any token; check"},
		{"two_documents", "version: 1\n---\nversion: 1\n", "there is a second document; keep everything in one, without a line ---"},
		{"anchor", "version: 1\nchain: &a {budget: 3}\n", "2:8: anchors and aliases are not supported; write the value out, or use extends"},
		{"tag", "version: 1\nchain: !!map {budget: 3}\n", "the tag \"!!map\" is not supported; remove it"},
		{"merge", "version: 1\nchain: {<<: {budget: 3}}\n", "2:9: chain: merge keys are not supported; use extends"},
		{"deep", "version: 1\nchain: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n", "is nested more than 16 deep; no setting is that deep"},
		{"duplicate", "version: 1\nchain: {budget: 3, budget: 4}\n", "2:20: chain.budget: is there already, in line 2; keep one of them"},
		{"duplicate_top", "version: 1\nchain: {}\nchain: {}\n", "3:1: chain: is there already, in line 2; keep one of them"},
		{"unknown_key", "version: 1\nchain: {bugdet: 3}\n", `2:9: chain.bugdet: unknown key; known are budget, deadlines, grace, holdout, learn, max_budget, mode, orphan_budget, process_budget, unknown; did you mean "budget"?`},
		{"key_is_list", "version: 1\n? [a]\n: b\n", "2:3: a key is a list; use plain text as the key"},
		{"empty_key", "version: 1\ndependencies: {\"\": {}}\n", "dependencies: a key is empty; give it a name or remove it"},
		{"long_name", "version: 1\ndependencies: {" + strings.Repeat("n", 101) + ": {}}\n", "the name is too long; use 1 to 100 printable bytes"},
		{"control_character", "version: 1\nservices: {\"a\\tb\": {}}\n", "the name has characters that cannot be printed; use 1 to 100 printable bytes"},
		{"profile_name", "version: 1\nprofiles: {Mine: {}}\n", `2:12: profiles.Mine: "Mine" is not a profile name; use 1 to 40 of a-z, 0-9, _ and -`},
		{"builtin_again", "version: 1\nprofiles: {read-heavy: {}}\n", "2:12: profiles.read-heavy: is a built-in profile; choose another name, and write extends: read-heavy to start from it"},
		{"unknown_parent", "version: 1\nprofiles: {a: {extends: red-heavy}}\n", `profiles.a.extends: unknown profile "red-heavy"; known are a, aws-standard, background, google-sre, latency-critical, no-retry, read-heavy, third-party, write-path; did you mean "read-heavy"?`},
		{"circle", "version: 1\nprofiles: {a: {extends: b}, b: {extends: c}, c: {extends: a}}\n", "profiles.c.extends: goes round in a circle: c > a > b > c; let one of them extend something else"},
		{"own_parent", "version: 1\nprofiles: {a: {extends: a}}\n", "profiles.a.extends: goes round in a circle: a > a; let one of them extend something else"},
		{"bare_on", "version: 1\ndependencies: {a: {on_failure: on}}\n", "2:32: dependencies.a.on_failure: a bare on does not say what is meant; write one of closed, open"},
		{"bare_off", "version: 1\nprofiles: {a: {extends: no-retry, breaker: off}}\n", "profiles.a.breaker: a bare off does not say what is meant; write disabled, or remove the key"},
		{"bare_yes_as_name", "version: 1\ndependencies: {a: {owner: yes}}\n", "dependencies.a.owner: a bare yes is a boolean to other readers of YAML; put it in quotes"},
		{"yes_as_flag", "version: 1\ndependencies: {a: {external: yes}}\n", `dependencies.a.external: expected true or false, not "yes"; write true or false`},
		{"word_typo", "version: 1\ndependencies: {a: {mode: obsrve}}\n", `dependencies.a.mode: "obsrve" is not known here; write one of bypass, observe, budget, enforce; did you mean "observe"?`},
		{"mesh", "version: 1\ndependencies: {a: {mesh: \"\"}}\n", `dependencies.a.mesh: "" is not known here; write envoy, or remove the key`},
		{"number_as_text", "version: 1\ndependencies: {a: {owner: 7}}\n", `dependencies.a.owner: expected text, not "7"; put it in quotes`},
		{"duration_without_unit", "version: 1\nprofiles: {a: {extends: no-retry, retry: {attempt_timeout: 400}}}\n", `"400" has no unit; write a duration with its unit, such as 400ms, 5s or 1m30s`},
		{"zero_without_unit", "version: 1\nprofiles: {a: {extends: no-retry, retry: {attempt_timeout: \"0\"}}}\n", `"0" is not a duration; write a duration`},
		{"ratio_above_one", "version: 1\nprofiles: {a: {extends: no-retry, budget: {ratio: 10}}}\n", `profiles.a.budget.ratio: "10" is above 1; write a percentage as 10%, or a share of 1 such as 0.1`},
		{"ratio_nan", "version: 1\nprofiles: {a: {extends: no-retry, budget: {ratio: .nan}}}\n", `".nan" is not a ratio; write it as 10% or as 0.1`},
		{"ratio_negative", "version: 1\nprofiles: {a: {extends: no-retry, budget: {ratio: -5%}}}\n", "-5% is out of range; use 0.01% to 100%"},
		{"ratio_list", "version: 1\nchain: {holdout: [1%]}\n", "chain.holdout: expected a ratio, not a list; write it as 10% or as 0.1"},
		{"statuses_twice", "version: 1\nprofiles: {a: {extends: no-retry, retry: {statuses: [503, x, 503]}}}\n", "2:62: profiles.a.retry.statuses[2]: 503 is listed twice; list it once"},
		{"base_above_cap", "version: 1\nprofiles: {a: {extends: no-retry, backoff: {base: 30s}}}\n", "profiles.a.backoff.base: base 30s is above cap 20s; lower base or raise cap"},
		{"cap_below_inherited_base", "version: 1\nprofiles: {a: {extends: background, backoff: {throttled_base: 10ms, cap: 500ms}}}\n", "profiles.a.backoff.cap: base 1s is above cap 500ms; lower base or raise cap"},
		{"cap_below_throttled", "version: 1\nprofiles: {a: {extends: no-retry, backoff: {cap: 500ms}}}\n", "profiles.a.backoff.cap: throttled_base 1s is above cap 500ms; lower throttled_base or raise cap"},
		{"hedge_without_after", "version: 1\nprofiles: {a: {extends: read-heavy, hedge: {max: 1}}}\n", "profiles.a.hedge.after: 0s is out of range; use 1ms to 1m0s"},
		{"too_many_hedges", "version: 1\nprofiles: {a: {extends: write-path, hedge: {max: 2, after: 5ms}}}\n", "profiles.a.hedge.max: 2 hedges and the first attempt are more than max_attempts 2; lower max or raise retry.max_attempts"},
		{"hedge_too_late", "version: 1\nprofiles: {a: {extends: read-heavy, hedge: {max: 1, after: 1s}}}\n", "profiles.a.hedge.after: after 1s never comes before attempt_timeout 1s"},
		{"quota_with_ratio", "version: 1\nprofiles: {a: {extends: aws-standard, budget: {ratio: 10%}}}\n", "profiles.a.budget.ratio: ratio belongs to kind: ratio, throttle or reserve; remove it, or set kind: ratio, throttle or reserve"},
		{"quota_with_fund", "version: 1\nprofiles: {a: {extends: aws-standard, budget: {fund: requests}}}\n", "profiles.a.budget.fund: fund belongs to kind: ratio"},
		{"ratio_with_cost", "version: 1\nprofiles: {a: {extends: no-retry, budget: {cost: 1}}}\n", "profiles.a.budget.cost: cost belongs to kind: quota"},
		{"ratio_with_throttled_cost", "version: 1\nprofiles: {a: {extends: no-retry, budget: {throttled_cost: 1}}}\n", "profiles.a.budget.throttled_cost: throttled_cost belongs to kind: quota"},
		{"quota_without_burst", "version: 1\nprofiles: {a: {extends: no-retry, budget: {kind: quota, cost: 1, throttled_cost: 1}}}\n", "profiles.a.budget.burst: 0 is out of range; use 1 to 100000"},
		{"quota_never_enough", "version: 1\nprofiles: {a: {extends: aws-standard, budget: {burst: 4}}}\n", "profiles.a.budget.burst: throttled_cost 5 is above burst 4: no such retry would ever pass"},
		{"throttle_with_fund", "version: 1\nprofiles: {a: {extends: no-retry, budget: {kind: throttle, ratio: 10%, burst: 10, fund: requests}}}\n", "2:89: profiles.a.budget.fund: fund belongs to kind: ratio; remove it, or set kind: ratio"},
		{"throttle_without_ratio", "version: 1\nprofiles: {a: {extends: no-retry, budget: {kind: throttle, burst: 10}}}\n", "profiles.a.budget.ratio: 0% is out of range; use 0.01% to 100%"},
		{"reserve_with_burst", "version: 1\nprofiles: {a: {extends: no-retry, budget: {kind: reserve, ratio: 20%, ttl: 10s, burst: 10}}}\n", "profiles.a.budget.burst: burst belongs to kind: ratio, quota or throttle; remove it, or set kind: ratio, quota or throttle"},
		{"reserve_with_cost", "version: 1\nprofiles: {a: {extends: no-retry, budget: {kind: reserve, ratio: 20%, ttl: 10s, cost: 1}}}\n", "profiles.a.budget.cost: cost belongs to kind: quota"},
		{"reserve_without_ttl", "version: 1\nprofiles: {a: {extends: no-retry, budget: {kind: reserve, ratio: 20%}}}\n", "profiles.a.budget.ttl: 0s is out of range; use 1s to 1m0s"},
		{"ratio_with_ttl", "version: 1\nprofiles: {a: {extends: no-retry, budget: {ttl: 10s}}}\n", "profiles.a.budget.ttl: ttl belongs to kind: reserve; remove it, or set kind: reserve"},
		{"ratio_with_min_per_second", "version: 1\nprofiles: {a: {extends: no-retry, budget: {min_per_second: 10}}}\n", "profiles.a.budget.min_per_second: min_per_second belongs to kind: reserve"},
		{"slow_ratio_alone", "version: 1\nprofiles: {a: {extends: no-retry, breaker: {slow_ratio: 50%}}}\n", "2:57: profiles.a.breaker.slow_ratio: slow_ratio means nothing without slow_call; set slow_call, or remove slow_ratio"},
		{"slow_ratio_left", "version: 1\nprofiles: {a: {extends: no-retry, breaker: {slow_call: 0s, slow_ratio: 50%}}}\n", "profiles.a.breaker.slow_ratio: slow_ratio means nothing without slow_call"},
		{"slow_ratio_zero", "version: 1\nprofiles: {a: {extends: no-retry, breaker: {slow_ratio: 0%, slow_call: 1s}}}\n", "profiles.a.breaker.slow_ratio: 0% is out of range; use 1% to 100%"},
		{"throttle_without_k", "version: 1\nprofiles: {a: {extends: no-retry, adaptive_throttle: {window: 1m}}}\n", "profiles.a.adaptive_throttle.k: 0 is out of range; use 1.01 to 100"},
		{"throttle_percent", "version: 1\nprofiles: {a: {extends: no-retry, adaptive_throttle: {k: 200%}}}\n", `profiles.a.adaptive_throttle.k: "200%" is not a plain number; write a plain number such as 2 or 1.5`},
		{"throttle_quoted", "version: 1\nprofiles: {a: {extends: no-retry, adaptive_throttle: {k: \"2\"}}}\n", "profiles.a.adaptive_throttle.k: expected a number, not text; remove the quotes"},
		{"throttle_off", "version: 1\nprofiles: {a: {extends: no-retry, adaptive_throttle: off}}\n", "profiles.a.adaptive_throttle: a bare off does not say what is meant; write disabled, or remove the key"},
		{"attempt_timeout_above_timeout", "version: 1\nprofiles: {a: {extends: read-heavy, retry: {timeout: 3s, attempt_timeout: 3s}}}\n", "2:75: profiles.a.retry.attempt_timeout: attempt_timeout 3s is not below timeout 3s: it never acts; lower attempt_timeout or raise timeout, which spans all attempts"},
		{"timeout_below_inherited", "version: 1\nprofiles: {a: {extends: read-heavy, retry: {timeout: 500ms}}}\n", "2:54: profiles.a.retry.timeout: attempt_timeout 1s is not below timeout 500ms"},
		{"slow_call_too_long", "version: 1\nprofiles: {a: {extends: read-heavy, breaker: {slow_call: 1s}}}\n", "2:58: profiles.a.breaker.slow_call: slow_call 1s is not below attempt_timeout 1s: no attempt is ever seen as slow; lower slow_call or raise retry.attempt_timeout"},
		{"slow_call_above_timeout", "version: 1\nprofiles: {a: {extends: aws-standard, breaker: {slow_call: 2s}, retry: {timeout: 2s}}}\n", "profiles.a.breaker.slow_call: slow_call 2s is not below timeout 2s"},
		{"attempt_timeout_below_slow_call", "version: 1\nprofiles: {b: {extends: aws-standard, breaker: {slow_call: 2s}}, a: {extends: b, retry: {attempt_timeout: 1s}}}\n", "profiles.a.retry.attempt_timeout: slow_call 2s is not below attempt_timeout 1s"},
		{"hedge_after_timeout", "version: 1\nprofiles: {a: {extends: aws-standard, retry: {timeout: 2s}, hedge: {max: 1, after: 2s}}}\n", "profiles.a.hedge.after: after 2s never comes before timeout 2s; lower after or raise retry.timeout"},
		{"unknown_pin", "version: 1\ndependencies: {a: {profile: write-pat}}\n", `dependencies.a.profile: unknown profile "write-pat"; known are aws-standard,`},
		{"never_external", "version: 1\ndependencies: {a: {external: false, profile: third-party}}\n", `2:30: dependencies.a.external: contradicts profile "third-party", which is always external; remove it, or use another profile`},
		{"host_with_scheme", "version: 1\ndependencies: {a: {hosts: [\"http://x\"]}}\n", `dependencies.a.hosts[0]: "http://x": a host has no scheme and no path; write a host such as`},
		{"host_star", "version: 1\ndependencies: {a: {hosts: [\"a.*.b\"]}}\n", "a star can only be the whole first part"},
		{"host_port", "version: 1\ndependencies: {a: {hosts: [\"a:0\"]}}\n", "the port is not 1 to 65535"},
		{"host_twice", "version: 1\ndependencies: {a: {hosts: [x.internal]}, b: {hosts: [X.internal.]}}\n", `dependencies.b.hosts[0]: "X.internal." belongs to "a" already, in line 2; keep one of them`},
		{"network_bits", "version: 1\ninternal_hosts: [10.1.0.0/8]\n", `internal_hosts[0]: "10.1.0.0/8" is not a network; write it as 10.0.0.0/8, with zeros behind the prefix`},
		{"serves_unknown", "version: 1\ndependencies: {payments: {}}\nservices: {a: {serves: [paymnts]}}\n", `services.a.serves[0]: "paymnts" is not under dependencies; declare it there, or correct the name; did you mean "payments"?`},
		{"serves_twice", "version: 1\ndependencies: {p: {}}\nservices: {a: {serves: [p, p]}}\n", `services.a.serves[1]: "p" is listed twice; list it once`},
		{"serves_nothing", "version: 1\nservices: {a: {serves: []}}\n", "services.a.serves: is empty; remove it"},
		{"route_pattern", "version: 1\nservices: {a: {routes: {\"POST /{\": {budget: 1}}}}\n", `services.a.routes["POST /{"]: parsing "POST /{": at offset 6: bad wildcard segment (must end with '}'); write a pattern of net/http.ServeMux`},
		{"route_conflict", "version: 1\nservices: {a: {routes: {\"/a/{x}\": {budget: 1}, \"/a/{y}\": {budget: 1}}}}\n", `pattern "/a/{y}" conflicts with pattern "/a/{x}": /a/{y} matches the same requests as /a/{x}; write`},
		{"route_budget", "version: 1\nservices: {a: {routes: {/a: {budget: 11}}}}\n", `services.a.routes["/a"].budget: 11 is out of range; use at most chain.max_budget 10`},
		{"route_empty", "version: 1\nservices: {a: {routes: {/a: {}}}}\n", `services.a.routes["/a"]: has no budget; write it as {budget: 2}`},
		{"idempotent_twice", "version: 1\nservices: {a: {idempotent: [/a, /a]}}\n", `pattern "/a" conflicts with pattern "/a"`},
		{"failure_statuses", "version: 1\nservices: {a: {failure_statuses: [200]}}\n", "services.a.failure_statuses[0]: 200 is out of range; use 400 to 599"},
		{"no_failure_statuses", "version: 1\nservices: {a: {failure_statuses: []}}\n", "services.a.failure_statuses: is empty; remove it for the default: every 5xx, and 429"},
		{"orphans_above_max", "version: 1\nchain: {max_budget: 0, budget: 0}\n", "chain.orphan_budget: 1 is above max_budget 0; lower it or raise max_budget"},
		{"override_word", "version: 1\noverrides: {retries: no}\n", "overrides.retries: a bare no does not say what is meant; write disabled, or remove the key"},
		{"override_empty", "version: 1\noverrides: {dependencies: {a: {}}}\n", "overrides.dependencies.a: says nothing; write it as {retries: disabled}, or remove it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load([]byte(tt.text), "test.yaml")
			require.Nil(t, c)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), ".go:", "no lines of our own code")
			var list *CatalogError
			require.ErrorAs(t, err, &list)
			for _, p := range list.Problems {
				require.Equal(t, "test.yaml", p.File)
				require.Positive(t, p.Line)
				require.NotEmpty(t, p.What)
				require.NotEmpty(t, p.Fix)
			}
		})
	}
}

// TestLoad_zeros_are_not_off: the word for off is disabled. A group of zeros used to switch itself off.
func TestLoad_zeros_are_not_off(t *testing.T) {
	for group, keys := range map[string][]string{
		"hedge: {max: 0}":                       {"hedge.max"},
		"hedge: {max: 0, after: 0s}":            {"hedge.max", "hedge.after"},
		"adaptive_throttle: {k: 0, window: 0s}": {"adaptive_throttle.k", "adaptive_throttle.window"},
		"budget: {ratio: 0%, burst: 0}":         {"budget.ratio", "budget.burst"},
		"breaker: {window: 0s, failure_ratio: 0%, min_requests: 0, open_for: 0s, probes: 0}": {"breaker.window", "breaker.failure_ratio", "breaker.min_requests", "breaker.open_for", "breaker.probes"},
	} {
		_, err := Load([]byte("version: 1\nprofiles:\n  p:\n    retry: {max_attempts: 3}\n    "+group+"\n"), "zeros")
		for _, key := range keys {
			require.ErrorContains(t, err, "profiles.p."+key+": 0", group)
		}
	}
	for _, off := range []string{"hedge: disabled", "hedge: {}", "budget: disabled", "breaker: disabled", "adaptive_throttle: disabled"} {
		_, err := Load([]byte("version: 1\nprofiles:\n  p:\n    retry: {max_attempts: 3}\n    "+off+"\n"), "off")
		require.NoError(t, err, off)
	}
}

func TestLoad_lists_all_problems_in_order(t *testing.T) {
	_, err := Load([]byte("version: 1\nchain: {budget: 100}\nprofiles:\n  a: {extends: nope, retry: {max_attempts: 0}}\nunknown: 1\ndependencies: {d: {profile: q}}\n"), "c.yaml")
	var list *CatalogError
	require.ErrorAs(t, err, &list)
	var places []string
	for _, p := range list.Problems {
		places = append(places, fmt.Sprint(p.Line, ":", p.Column, " ", p.Path))
	}
	require.Equal(t, []string{"2:17 chain.budget", "4:16 profiles.a.extends", "4:44 profiles.a.retry.max_attempts", "5:1 unknown",
		"6:29 dependencies.d.profile"}, places)
	require.True(t, strings.HasPrefix(err.Error(), "chainbudget: catalog c.yaml: 5 problems\nc.yaml:2:17: "), err.Error())
	require.Equal(t, 5, strings.Count(err.Error(), "\n"))
}

// A fault of a parent is told once, at the parent.
func TestLoad_inherited_faults_are_told_once(t *testing.T) {
	_, err := Load([]byte("version: 1\nprofiles:\n  b: {extends: a}\n  c: {extends: b, retry: {reserve: 1}}\n  a: {extends: no-retry, backoff: {base: 1us}, breaker: {probes: 0}}\n"), "c.yaml")
	var list *CatalogError
	require.ErrorAs(t, err, &list)
	require.Len(t, list.Problems, 2)
	_, err = Load([]byte("version: 1\nprofiles:\n  a: {extends: read-heavy, breaker: {slow_call: 2s}}\n  b: {extends: a, breaker: {slow_ratio: 30%}}\n"), "c.yaml")
	var pairs *CatalogError
	require.ErrorAs(t, err, &pairs)
	require.Len(t, pairs.Problems, 1, "nor is a contradiction told where its group is only added to: %v", err)
	for _, p := range list.Problems {
		require.Equal(t, 5, p.Line)
	}
}

// Of a value that cannot be read, nothing else is said.
func TestLoad_unreadable_values_are_told_once(t *testing.T) {
	for _, text := range []string{
		"budget: {kind: quota, burst: many, cost: 1, throttled_cost: 1}", "budget: {kind: quota, burst: 10, cost: 1, throttled_cost: 1.5}",
		"budget: {kind: throttle, burst: 10, ratio: half}", "budget: {kind: reserve, ratio: 10%, ttl: 10}", "breaker: {slow_call: 1ms, slow_ratio: 150}",
		"adaptive_throttle: {k: two}", "hedge: {max: 1, after: soon}", "hedge: {max: one, after: 5ms}", "budget: {kind: qouta, burst: 10, cost: 1, throttled_cost: 1}",
	} {
		_, err := Load([]byte("version: 1\nprofiles: {a: {extends: read-heavy, "+text+"}}\n"), "c.yaml")
		require.ErrorContains(t, err, "1 problem\n", text)
	}
}

func TestLoad_bounds_its_error(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\ndependencies:\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "  d%d: {profile: %q}\n", i, strings.Repeat("x\"", 45))
	}
	_, err := Load([]byte(b.String()), strings.Repeat("n", 5000))
	var list *CatalogError
	require.ErrorAs(t, err, &list)
	require.Len(t, list.Problems, 50)
	require.Equal(t, 2950, list.More)
	require.Equal(t, 3, list.Problems[0].Line)
	require.True(t, strings.HasSuffix(err.Error(), "\nand 2950 more"))
	require.Less(t, len(err.Error()), 100_000)
}

// Files that are cheap to write and dear to read.
func TestLoad_hostile_files_are_quick(t *testing.T) {
	many := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < MaxFileSize/4; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	files := map[string]string{
		"flow_depth":       strings.Repeat("[", MaxFileSize-1),
		"comments":         "version: 1\n" + many("#%d\n"),
		"unknown_keys":     many("k%d: 1\n"),
		"unknown_profiles": "version: 1\ndependencies:\n" + many("  d%d: {profile: nope}\n"),
		"unknown_parents":  "version: 1\nprofiles:\n" + many("  p%d: {extends: nope}\n"),
		"long_line":        "version: 1\nowner: " + strings.Repeat("é", MaxFileSize/2-20),
		"nul":              strings.Repeat("\x00", 1000),
		"routes":           "version: 1\nservices:\n  s:\n    routes:\n" + many("      /{a}/%d: {budget: 1}\n"),
	}
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := Load([]byte(text), "hostile.yaml")
			require.Less(t, time.Since(start), 10*time.Second)
			if err != nil {
				require.Less(t, len(err.Error()), 100_000)
			}
		})
	}
}

func TestProfile_validate_lists_all(t *testing.T) {
	require.NoError(t, new(Default()).Validate())
	p := Profile{
		Name: "Bad Name", Retry: Retry{MaxAttempts: 100, Statuses: []int{503, 503, 1}, Reserve: -1, Repeats: 9, Missing: 9, AttemptTimeout: -1},
		Backoff: Backoff{Base: 2 * time.Hour, ThrottledBase: -1, Cap: 3, Hint: 7},
		Budget:  Budget{Kind: 9, Fund: 9, Ratio: 2}, Breaker: Breaker{Window: 1}, Hedge: Hedge{After: 1}, AvailabilityFloor: 2,
	}
	err := p.Validate()
	var list *CatalogError
	require.ErrorAs(t, err, &list)
	require.Len(t, list.Problems, 24, err.Error())
	require.Contains(t, err.Error(), "retry.max_attempts: 100 is out of range; use 1 to 99")
}
