package profiles

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func warningsOf(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	for _, p := range mustLoad(t, text).Warnings {
		require.NotEmpty(t, p.Fix)
		list = append(list, p.String())
	}
	return list
}

// Each has its place, what is wrong, and how to mend it; and a neighbour that is meant as it stands.
func TestWarnings(t *testing.T) {
	profile := func(text string) string { return "version: 1\nprofiles: {p: {" + text + "}}\n" }
	service := func(pattern string) string {
		return fmt.Sprintf("version: 1\nservices: {s: {idempotent: [%q]}}\n", pattern)
	}
	tests := []struct{ name, text, want string }{
		{"switch_of_nothing", "version: 1\ndependencies: {payments: {profile: write-path}}\noverrides: {dependencies: {paymnets: {retries: disabled}}}\n",
			`test.yaml:3:28: overrides.dependencies.paymnets: is not under dependencies: it switches only a dependency that code names so; correct the name, or declare it there; did you mean "payments"?`},
		{"switch_of_code", "version: 1\noverrides: {dependencies: {db: {retries: disabled}}}\n", "it switches only a dependency that code names so; correct the name, or declare it there"},
		{"switch", "version: 1\ndependencies: {db: {profile: write-path}}\noverrides: {dependencies: {db: {retries: disabled}}}\n", ""},
		{"attempts_in_time", profile("extends: read-heavy, retry: {timeout: 4s}"), ""},
		{"probe_timeout", profile("extends: read-heavy, breaker: {probe_timeout: 1s}"),
			"test.yaml:2:62: profiles.p.breaker.probe_timeout: probe_timeout 1s is not above attempt_timeout 1s: a probe that answers in time may close nothing; raise probe_timeout, or remove it for one that fits"},
		{"probe_timeout_of_own_attempts", profile("extends: read-heavy, retry: {attempt_timeout: 2s}, breaker: {probe_timeout: 2100ms}"), ""},
		{"no_probe_timeout", profile("extends: background, breaker: {open_for: 10s}"), ""},
		{"waits", profile("extends: no-retry, retry: {max_attempts: 3, attempt_timeout: 1ms, timeout: 1s}, backoff: {base: 700ms}"),
			"test.yaml:2:91: profiles.p.retry.timeout: the waits before 2 retries, 1.05s on average, do not fit into timeout 1s; raise timeout, or lower base, cap or max_attempts"},
		{"waits_of_own_base", "version: 1\nprofiles: {q: {extends: background, retry: {attempt_timeout: 1ms, timeout: 4s}}, p: {extends: q, backoff: {base: 9s}}}\n",
			"test.yaml:2:114: profiles.p.backoff.base: the waits before 3 retries, 23.5s on average, do not fit into timeout 4s"},
		{"waits_in_time", profile("extends: no-retry, retry: {max_attempts: 3, attempt_timeout: 1ms, timeout: 1s}, backoff: {base: 600ms}"), ""},
		{"dead_floor", profile("extends: read-heavy, availability_floor: 50%"),
			"test.yaml:2:57: profiles.p.availability_floor: the floor of 50% never acts: the breaker opens at 50% failures, before success falls so low; raise availability_floor above 50% or set it to 0%"},
		{"dead_floor_of_own_breaker", profile("extends: read-heavy, breaker: {failure_ratio: 40%}"), "profiles.p.breaker.failure_ratio: the floor of 60% never acts: the breaker opens at 40% failures"},
		{"dead_floor_of_thirds", profile("extends: read-heavy, breaker: {failure_ratio: 30%}, availability_floor: 70%"), "the floor of 70% never acts"},
		{"floor_above", profile("extends: read-heavy, availability_floor: 50.1%"), ""},
		{"floor_without_breaker", profile("extends: read-heavy, availability_floor: 10%, breaker: disabled"), ""},
		{"no_floor", profile("extends: read-heavy, availability_floor: 0%, breaker: {failure_ratio: 10%}"), ""},
		{"inherited_dead_floor", profile("extends: write-path, retry: {max_attempts: 3}"), ""},
		{"floor_by_instances", profile("extends: read-heavy, budget: {kind: reserve, ratio: 20%, ttl: 10s, min_per_second: 10}"),
			"test.yaml:2:99: profiles.p.budget.min_per_second: min_per_second holds for each process: N instances allow N times 10 retries a second, also into a full outage; divide it by the number of instances, or set it to 0"},
		{"no_floor_by_instances", profile("extends: read-heavy, budget: {kind: reserve, ratio: 20%, ttl: 10s, min_per_second: 0}"), ""},
		{"burst", profile("extends: read-heavy, budget: {burst: 1001}"),
			"test.yaml:2:53: profiles.p.budget.burst: burst 1001 is what more than 10000 successes pay in: the ratio of 10% means little beside it; lower burst to at most 1000"},
		{"burst_of_low_ratio", profile("extends: read-heavy, budget: {ratio: 0.05%}"), "profiles.p.budget.ratio: burst 10 is what more than 10000 successes pay in: the ratio of 0.05% means little beside it; lower burst to at most 5"},
		{"burst_in_bounds", profile("extends: read-heavy, budget: {burst: 1000}"), ""},
		{"burst_of_quota", profile("extends: aws-standard, budget: {burst: 100000}"), ""},
		{"fund", profile("extends: read-heavy, budget: {fund: requests}"),
			"test.yaml:2:52: profiles.p.budget.fund: fund: requests pays for retries in a full outage, too: the load stays 10% higher until it ends; use fund: successes"},
		{"inherited_fund", profile("extends: google-sre, budget: {burst: 5}"), ""},
		{"no_attempt_timeout", profile("extends: read-heavy, retry: {attempt_timeout: 0s}"),
			"test.yaml:2:62: profiles.p.retry.attempt_timeout: an attempt that hangs is never given up: nothing ends it but the caller's own deadline; set attempt_timeout a little above the slowest answer that is worth waiting for"},
		{"left_out_attempt_timeout", profile("retry: {max_attempts: 2}"), "test.yaml:2:12: profiles.p.retry.attempt_timeout: an attempt that hangs is never given up"},
		{"attempt_timeout_left_to_timeout", profile("retry: {max_attempts: 2, timeout: 1s}"), "test.yaml:2:12: profiles.p.retry.attempt_timeout: an attempt that hangs takes the whole timeout"},
		{"one_attempt_without_limit", profile("retry: {max_attempts: 1}"), "profiles.p.retry.attempt_timeout: an attempt that hangs is never given up"},
		{"one_attempt_within_timeout", profile("retry: {max_attempts: 1, timeout: 1s}"), ""},
		{"inherited_attempt_timeout", profile("extends: aws-standard, retry: {max_attempts: 2}"), ""},
		{"idempotent_post", service("POST /orders"),
			`test.yaml:2:29: services.s.idempotent[0]: "POST /orders" is not idempotent by its method: callers repeat it without a key; make sure that its handler does the work of a repeated request once, or remove it and let callers send a key`},
		{"idempotent_patch", service("PATCH /orders/{id}"), `"PATCH /orders/{id}" is not idempotent by its method`},
		{"idempotent_any", service("/orders"), `"/orders" is every method of it, POST and PATCH, too: callers repeat them without a key; make sure that its handler does the work of a repeated request once, or name the method as in "GET /balance/{id}"`},
		{"idempotent_any_of_host", service("example.com/{$}"), `"example.com/{$}" is every method of it`},
		{"idempotent_get", service("GET /orders"), ""},
		{"idempotent_put", service("PUT example.com/orders"), ""},
		{"idempotent_delete", service("DELETE /orders/{id}"), ""},
		{"mesh_of_external_profile", "version: 1\ndependencies: {d: {profile: third-party, mesh: envoy}}\n",
			`test.yaml:2:48: dependencies.d.mesh: mesh has no effect: its profile "third-party" is always external, and no header is sent there; remove it, and switch the proxy's own retries off where it is configured`},
		{"mesh_of_external", "version: 1\ndependencies: {d: {mesh: envoy, external: true}}\n", "test.yaml:2:26: dependencies.d.mesh: mesh has no effect: the dependency is external"},
		{"mesh_inside", "version: 1\ndependencies: {d: {mesh: envoy, profile: read-heavy}}\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := warningsOf(t, tt.text)
			if tt.want == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Contains(t, got[0], tt.want)
		})
	}
}

// Readers take a call's timeout for one of each try (grpc/grpc-go#6811): what does not fit is said, with the sum.
func TestRegression_A032_timeout_spans_all_attempts(t *testing.T) {
	const text = "version: 1\nprofiles: {p: {extends: read-heavy, retry: {timeout: 3999ms}}}\n"
	require.Equal(t, []string{"test.yaml:2:54: profiles.p.retry.timeout: 4 attempts of 1s do not fit into timeout 3.999s, which spans them all; " +
		"raise timeout above 4s, or lower max_attempts or attempt_timeout"}, warningsOf(t, text))
	require.Empty(t, warningsOf(t, "version: 1\nprofiles: {p: {extends: read-heavy, retry: {timeout: 4s}}}\n"))

	const child = "version: 1\nprofiles: {a: {extends: read-heavy, retry: {timeout: 4s}}, b: {extends: a, retry: {max_attempts: 5}}, c: {extends: b, retry: {reserve: 1}}}\n"
	got := warningsOf(t, child)
	require.Len(t, got, 1, "who inherits it is not to blame")
	require.Contains(t, got[0], "profiles.b.retry.max_attempts: 5 attempts of 1s do not fit into timeout 4s")
}

func TestWarnings_of_none(t *testing.T) {
	c, err := LoadFile("testdata/sample.yaml")
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.Empty(t, Builtin().Warnings)

	var b strings.Builder
	b.WriteString("version: 1\ndependencies:\n")
	for _, name := range Builtin().ProfileNames() {
		fmt.Fprintf(&b, "  d-%s: {profile: %s}\n", name, name)
	}
	b.WriteString("profiles:\n")
	for _, name := range Builtin().ProfileNames() {
		fmt.Fprintf(&b, "  p-%s: {extends: %s}\n", name, name)
	}
	require.Empty(t, warningsOf(t, b.String()))
}

func TestWarnings_are_bounded_and_sorted(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nservices:\n")
	for i := range 300 {
		fmt.Fprintf(&b, "  s%d: {idempotent: [%q]}\n", i, "/"+strings.Repeat("x", 390))
	}
	c := mustLoad(t, b.String())
	require.Len(t, c.Warnings, 50)
	require.Equal(t, 3, c.Warnings[0].Line)
	require.Equal(t, "251 more warnings are not listed; mend those that are", c.Warnings[49].String())
	require.Equal(t, 51, c.Warnings[48].Line)
}

func TestWarnings_of_a_folder(t *testing.T) {
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"catalog.yaml": "version: 1\n", "dependecies/payments.yaml": "version: 1\n", "service/a.yaml": "version: 1\n", "docs/example.yaml": "x",
		"profiles/team/p.yaml": "version: 1\n", "profiles/z.yaml": "version: 1\nprofiles: {z: {extends: read-heavy, budget: {fund: requests}}}\n", "..data/x.yaml": "x",
	} {
		fsys["c/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := LoadFS(fsys, "c")
	require.NoError(t, err)
	var got []string
	for _, p := range c.Warnings {
		got = append(got, p.String())
	}
	require.Len(t, got, 4)
	require.Equal(t, []string{
		"c/dependecies: this folder is not read; rename it to dependencies",
		"c/profiles/team: this folder is not read; put its files into profiles/ itself",
	}, got[:2])
	require.Contains(t, got[2], "c/profiles/z.yaml:2:52: profiles.z.budget.fund: fund: requests pays")
	require.Equal(t, "c/service: this folder is not read; rename it to services", got[3])
}
