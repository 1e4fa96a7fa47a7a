package profiles

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func loaded(t *testing.T, text string) *Catalog {
	t.Helper()
	c, err := Load([]byte("version: 1\n"+text), "catalog")
	require.NoError(t, err, text)
	return c
}

// changed writes changes as one text: "subject key: old -> new", each with its meanings below.
func changed(old, new *Catalog) string {
	var b strings.Builder
	for _, c := range Diff(old, new) {
		fmt.Fprintf(&b, "%s %s: %s -> %s\n", c.Subject, c.Key, c.Old, c.New)
		for _, m := range c.Means {
			b.WriteString("  " + m + "\n")
		}
	}
	return b.String()
}

func TestDiff_meanings(t *testing.T) {
	const plain = "profiles: {p: {extends: read-heavy, retry: {max_attempts: 2}}}\ndependencies: {d: {profile: p}}\n"
	with := func(setting string) string {
		return "profiles: {p: {extends: read-heavy, retry: {max_attempts: 2}, " + setting + "}}\ndependencies: {d: {profile: p}}\n"
	}
	for _, tt := range []struct {
		name, old, new string
		want           []string // lines, in order
	}{
		{"attempts", plain, strings.Replace(plain, "2", "4", 1), []string{
			"dependency d retry.max_attempts: 2 -> 4",
			"worst case at d, of one call: 2 attempts -> 4 attempts; with budget 3 a chain still makes at most 1 + 3 on one path",
			"a call whose every attempt times out takes at most: 2.05s -> 4.35s",
			"waits before the retries, each drawn from 0 up to: 50ms -> 50ms, 100ms, 200ms",
			"the same after a throttled answer: 1s -> 1s, 2s, 4s",
		}},
		{"attempts_beyond_the_chain", plain, strings.Replace(plain, "2", "6", 1), []string{
			"worst case at d, of one call: 2 attempts -> 4 attempts (of its 6, because the chain's tokens end first); with budget 3 ",
		}},
		{"attempts_without_a_cap", "chain: {mode: observe}\n" + plain, "chain: {mode: observe}\n" + strings.Replace(plain, "2", "6", 1), []string{
			"worst case at d, of one call: 2 attempts -> 6 attempts; in mode observe no budget of the chain caps that",
		}},
		{"a_route_mints_more", "services: {s: {routes: {/: {budget: 7}}}}\n" + plain, "services: {s: {routes: {/: {budget: 7}}}}\n" + strings.Replace(plain, "2", "6", 1), []string{
			"worst case at d, of one call: 2 attempts -> 6 attempts; with budget 7 a chain still makes at most 1 + 7 on one path",
		}},
		{"outage_goes_on", plain, with("budget: {fund: requests}"), []string{
			"dependency d budget.fund: successes -> requests",
			"retries of each process in a full outage, breaker and floor aside: at most 10, so they end -> 10 % of requests, so they go on",
			"load that retries may add while most calls succeed: 10 % of successes -> 10 % of requests",
		}},
		{"outage_per_minute", with("process_budget: 60"), with("budget: {fund: requests}, process_budget: 60"), []string{
			"breaker and floor aside: at most 10, so they end -> 10 % of requests, so they go on, up to 60 a minute",
		}},
		{"no_bucket", plain, with("budget: disabled"), []string{
			"dependency d budget: {kind: ratio, ratio: 10%, fund: successes, burst: 10} -> disabled",
			"breaker and floor aside: at most 10, so they end -> 1 for each call, so they go on",
			"load that retries may add while most calls succeed: 10 % of successes -> 100 %",
		}},
		{"another_kind", plain, with("budget: {kind: quota, burst: 500, cost: 14, throttled_cost: 5}"), []string{
			"dependency d budget: {kind: ratio, ratio: 10%, fund: successes, burst: 10} -> {kind: quota, burst: 500, cost: 14, throttled_cost: 5}",
			"breaker and floor aside: at most 10, so they end -> at most 35, 100 where the answers ask for less load, so they end",
		}},
		{"throttle", plain, with("budget: {kind: throttle, burst: 10, ratio: 10%}"), []string{"at most 10, so they end -> at most 4, so they end"}},
		{"reserve", plain, with("budget: {kind: reserve, ratio: 20%, ttl: 10s, min_per_second: 5}"), []string{
			"at most 10, so they end -> 20 % of requests and 5 a second, so they go on",
		}},
		{"breaker", plain, with("breaker: {min_requests: 5, open_for: 10s}"), []string{
			"dependency d breaker.min_requests: 20 -> 5",
			"when every attempt fails the breaker opens: after 20 in a process, if they come within 10s -> after 5 in a process, if they come within 10s",
			"dependency d breaker.open_for: 5s -> 10s",
			"once open it lets nothing out for: 4s to 6s -> 8s to 12s",
		}},
		{"breaker_in_a_row", plain, with("breaker: {consecutive_failures: 3}"), []string{"if they come within 10s -> after 3 in a process"}},
		{"breaker_off", plain, with("breaker: disabled"), []string{"-> disabled", "if they come within 10s -> never: there is none"}},
		{"slow", plain, with("breaker: {slow_call: 300ms}"), []string{
			"dependency d breaker.slow_call: 0s -> 300ms", "slow answers open it: never -> when 50% of attempts take 300ms or more",
			"dependency d breaker.slow_ratio: none -> 50%",
		}},
		{"statuses", plain, "profiles: {p: {extends: read-heavy, retry: {max_attempts: 2, statuses: [429, 500, 502, 503, 504]}}}\ndependencies: {d: {profile: p}}\n", []string{
			"repeated from now on: [500]; no longer: [408, 421, 425]; a 500 is mostly a bug, which fails again",
		}},
		{"rules", plain, "profiles: {p: {extends: read-heavy, retry: {max_attempts: 2, repeats: charge, missing: stop, reserve: 1}, backoff: {hint: clamp}}}\ndependencies: {d: {profile: p}}\n", []string{
			"retry.reserve: 0 -> 1", "tokens of a request that its callees cannot use: 0 -> 1",
			"retry.repeats: count -> charge", "a loop around the SDK that repeats a failed call: is counted -> pays a token of the chain",
			"retry.missing: retry -> stop", "from a dependency without the SDK: may be repeated here -> is not repeated",
			"backoff.hint: add -> clamp", "the retry comes: no sooner than it asked, and not at all if that is beyond 5s -> at most 5s after the drawn delay",
		}},
		{"timeouts", plain, "profiles: {p: {extends: read-heavy, retry: {max_attempts: 2, timeout: 1500ms}}}\ndependencies: {d: {profile: p}}\n", []string{
			"dependency d retry.timeout: 0s -> 1.5s", "a call whose every attempt times out takes at most: 2.05s -> 1.5s",
		}},
		{"floor", plain, with("availability_floor: 0%"), []string{"retries stop below a first-attempt success of: 60% -> nothing: they never stop for that"}},
		{"hedge", plain, with("hedge: {after: 100ms, max: 1}"), []string{"dependency d hedge: disabled -> {after: 100ms, max: 1}", "hedges of a slow call: none -> up to 1, one every 100ms"}},
		{"throttling", plain, with("adaptive_throttle: {k: 2}"), []string{"attempts that each process refuses by itself: none -> what is beyond 2 times the accepted load"}},
		{"pin", "", "dependencies: {d: {profile: write-path}}\n", []string{
			"dependency d dependency: none -> declared", "dependency d profile: named in code -> write-path",
			"every caller gets it, whatever its code names: 2 attempts a call at most; retries of each process in a full outage, breaker and floor aside: at most 10, so they end",
		}},
		{"pin_changes", "dependencies: {d: {profile: write-path}}\n", "dependencies: {d: {profile: background}}\n", []string{
			"dependency d profile: write-path -> background", "dependency d retry.max_attempts: 2 -> 4", "worst case at d, of one call: 2 attempts -> 4 attempts",
			"dependency d retry.attempt_timeout: 2s -> 10s", "times out takes at most: 4.2s -> 47s",
		}},
		{"unpinned", "dependencies: {d: {profile: write-path}}\n", "dependencies: {d: {}}\n", []string{"dependency d profile: write-path -> named in code", "each caller uses what its code names"}},
		{"mode", plain, "chain: {mode: budget}\n" + plain, []string{
			"chain mode: enforce -> budget", "in force, for dependencies that set none: everything -> everything but ownership",
			"dependency d mode: enforce -> budget", "in force: everything -> everything but ownership",
		}},
		{"chain", "", "chain: {budget: 5, orphan_budget: 0, process_budget: 30, holdout: 1%, max_budget: 20, deadlines: ignore}\n", []string{
			"chain budget: 3 -> 5", "attempts that one chain brings to a service on one path, at most: 1 + 3 -> 1 + 5",
			"a larger grant is cut to: 10 -> 20", "retries of each hop that was given no budget: 1 -> 0",
			"retries a minute of each process: no limit -> at most 30", "no longer than the caller waits -> as long as they like",
			"of the retries that ownership refuses, made all the same: 0% -> 1%",
		}},
		{"orphans", "chain: {budget: 1, orphan_budget: 3}\n" + plain, "chain: {budget: 1, orphan_budget: 3}\n" + strings.Replace(plain, "2", "6", 1), []string{
			"worst case at d, of one call: 2 attempts -> 4 attempts (of its 6, because the chain's tokens end first); with budget 3 a chain still makes at most 1 + 3 on one path",
		}},
		{"switch", "", "overrides: {dependencies: {d: {retries: disabled}}}\n", []string{"overrides dependencies.d.retries: none -> disabled", "no calls are repeated, from the moment"}},
		{"switch_all", "", "overrides: {retries: disabled}\n", []string{"overrides retries: none -> disabled", "to any dependency"}},
		{"switch_back", "overrides: {retries: disabled}\n", "", []string{"overrides retries: disabled -> none", "calls are repeated again"}},
		{"external", plain, with("external: true"), []string{"dependency d external: by host -> external by its profile", "no tokens and headers go there", "dependency d external: false -> true"}},
		{"profile_of_code", "profiles: {q: {extends: background}}\n", "profiles: {q: {extends: background, retry: {max_attempts: 3}}}\n", []string{
			"profile q retry.max_attempts: 4 -> 3", "worst case, of one call: 4 attempts -> 3 attempts",
		}},
		{"profile_gone", "profiles: {q: {extends: background}}\n", "", []string{"profile q profile: declared -> none", "code that names it gets no-retry and a warning"}},
		{"profile_new", "", "profiles: {q: {extends: no-retry}}\n", []string{"profile q profile: none -> declared", "1 attempt a call at most; retries of each process in a full outage, breaker and floor aside: no retries"}},
		{"service", "dependencies: {a: {}}\n", "dependencies: {a: {}}\nservices: {s: {serves: [a], idempotent: [\"POST /x\"], failure_statuses: [500], routes: {\"GET /y\": {budget: 1}}}}\n", []string{
			"service s service: none -> declared", "service s serves: s -> a", `service s routes["GET /y"]: none -> {budget: 1}`, "at most 1 + 3 -> 1 + 1 attempts",
			"service s idempotent: none -> POST /x", "the handler must bear it", "service s failure_statuses: every 5xx, and 429 -> [500]",
		}},
		{"hosts", "", "internal_hosts: [b.example.com, a.example.com]\n", []string{"hosts internal_hosts: the default rules -> a.example.com, b.example.com"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := changed(loaded(t, tt.old), loaded(t, tt.new))
			rest := got
			for _, line := range tt.want {
				_, after, found := strings.Cut(rest, line)
				if !assert.True(t, found, "%q is not there, or not in this order, in\n%s", line, got) {
					return
				}
				rest = after
			}
			assert.NotContains(t, got, "DEPENDENCY")
		})
	}
}

// Who says that a dependency is external is another matter than whether it is.
func TestDiff_of_who_decides_means_nothing(t *testing.T) {
	changes := Diff(loaded(t, "dependencies: {d: {profile: third-party, external: true}}\n"), loaded(t, "dependencies: {d: {profile: third-party}}\n"))
	require.Equal(t, []Change{{Subject: "dependency d", Key: "external", Old: "external", New: "external by its profile"}}, changes)
}

// Catalogs differ if, and only if, their digests do: nothing that the digest covers is left out of the comparison, and
// spelling is not a change.
func TestDiff_agrees_with_the_digest(t *testing.T) {
	texts := []string{
		"", "profiles: {p: {extends: background}}\n", "dependencies: {d: {}}\n", "dependencies: {d: {profile: read-heavy}}\n",
		"dependencies: {d: {profile: p}}\nprofiles: {p: {extends: read-heavy}}\n", "dependencies: {d: {owner: o}}\n",
		"dependencies: {d: {on_failure: open}}\n", "dependencies: {d: {external: true}}\n", "dependencies: {d: {external: false}}\n",
		"dependencies: {d: {mesh: envoy}}\n", "dependencies: {d: {mode: enforce}}\n", "dependencies: {d: {mode: observe}}\n",
		"dependencies: {d: {hosts: [\"B.example.com\", \"a.example.com\"]}}\n", "dependencies: {d: {hosts: [\"a.example.com\", \"b.example.com\"]}}\n",
		"dependencies: {d: {hosts: [\"a.example.com\"]}}\n", "services: {s: {}}\n", "services: {s: {serves: [d]}}\ndependencies: {d: {}}\n",
		"services: {s: {idempotent: [\"GET /b\", \"GET /a\"]}}\n", "services: {s: {idempotent: [\"GET /a\", \"GET /b\"]}}\n", "services: {s: {idempotent: [\"GET /a\"]}}\n",
		"services: {s: {routes: {/: {budget: 3}}}}\n", "services: {s: {routes: {/: {budget: 2}}}}\n", "services: {s: {failure_statuses: [503, 500]}}\n",
		"services: {s: {failure_statuses: [500, 503]}}\n", "internal_hosts: []\n", "internal_hosts: [a.example.com, 10.0.0.0/8]\n", "internal_hosts: [10.0.0.0/8, A.example.com]\n",
		"overrides: {retries: disabled}\n", "overrides: {dependencies: {d: {retries: disabled}}}\n", "overrides: {dependencies: {e: {retries: disabled}}}\n",
		"chain: {budget: 3}\n", "chain: {mode: enforce}\n",
	}
	for _, setting := range []string{"mode: observe", "budget: 4", "max_budget: 20", "orphan_budget: 0", "process_budget: 1", "deadlines: ignore",
		"unknown: claim", "learn: enforce", "holdout: 1%", "grace: 1m"} {
		texts = append(texts, "chain: {"+setting+"}\n")
	}
	for _, setting := range []string{"retry: {max_attempts: 9}", "retry: {statuses: [503]}", "retry: {statuses: []}", "retry: {attempt_timeout: 3s}", "retry: {timeout: 30s}",
		"retry: {reserve: 1}", "retry: {repeats: refuse}", "retry: {missing: stop}", "backoff: {base: 2s}", "backoff: {throttled_base: 2s}", "backoff: {cap: 30s}", "backoff: {hint: clamp}",
		"budget: disabled", "budget: {ratio: 2%}", "budget: {fund: requests}", "budget: {burst: 3}", "budget: {kind: quota, burst: 5, cost: 2, throttled_cost: 1}",
		"budget: {kind: quota, burst: 5, cost: 2, throttled_cost: 2}", "budget: {kind: quota, burst: 5, cost: 1, throttled_cost: 1}",
		"budget: {kind: throttle, burst: 5, ratio: 5%}", "budget: {kind: reserve, ratio: 5%, ttl: 2s}", "budget: {kind: reserve, ratio: 5%, ttl: 3s}", "budget: {kind: reserve, ratio: 5%, ttl: 2s, min_per_second: 1}",
		"breaker: disabled", "breaker: {window: 3s}", "breaker: {failure_ratio: 45%}", "breaker: {min_requests: 3}", "breaker: {open_for: 3s}", "breaker: {probes: 1}",
		"breaker: {probe_timeout: 3s}", "breaker: {consecutive_failures: 3}", "breaker: {slow_call: 3s}", "breaker: {slow_call: 3s, slow_ratio: 40%}", "breaker: {max_in_flight: 3}",
		"hedge: {after: 5ms, max: 1}", "hedge: {after: 5ms, max: 2}", "hedge: {after: 6ms, max: 1}", "adaptive_throttle: {k: 2}", "adaptive_throttle: {k: 3}", "adaptive_throttle: {k: 2, window: 3s}",
		"process_budget: 1", "availability_floor: 50%", "external: true"} {
		texts = append(texts, "profiles: {p: {extends: background, "+setting+"}}\n", "profiles: {p: {extends: background, "+setting+"}}\ndependencies: {d: {profile: p}}\n")
	}
	catalogs, digests := make([]*Catalog, len(texts)), make([]string, len(texts))
	for i, text := range texts {
		catalogs[i] = loaded(t, text)
		digests[i] = catalogs[i].Digest()
	}
	same := 0
	for i, a := range catalogs {
		for j, b := range catalogs {
			changes := Diff(a, b)
			if digests[i] == digests[j] {
				same++
			}
			if (digests[i] == digests[j]) != (len(changes) == 0) {
				t.Fatalf("digests %s, %s and changes %v of\n%sand\n%s", digests[i], digests[j], changes, texts[i], texts[j])
			}
			for _, c := range changes {
				if c.Old == c.New || c.Subject == "" || c.Key == "" || c.Old == "" || c.New == "" {
					t.Fatalf("%+v", c)
				}
			}
		}
	}
	assert.Greater(t, same, len(catalogs), "some of the texts are other spellings")
}
