package profiles

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// boundary is the range of one key, and a catalog with a place for its value in which nothing else is in its way.
type boundary struct {
	key                    string // as in problems; "retry.max_attempts (why)" is a second range of the same key
	text                   string
	below, min, max, above []string // each in every spelling
}

func boundaryOf[T int | time.Duration | float64 | factor](key string, r span[T], text string) boundary {
	l := boundary{key: key, text: text}
	spell := func(v T, step int) []string {
		switch v := any(v).(type) {
		case int:
			return []string{strconv.Itoa(v + step)}
		case time.Duration:
			v += time.Duration(step)
			return []string{v.String(), strconv.FormatInt(int64(v), 10) + "ns"}
		case factor:
			return []string{strconv.FormatFloat(float64(v)+float64(step)/1e6, 'f', -1, 64)}
		case float64:
			share := v + float64(step)/1e6
			if step == 0 {
				return []string{strconv.FormatFloat(share, 'f', -1, 64), strconv.FormatFloat(share*100, 'f', -1, 64) + "%"}
			}
			return []string{strconv.FormatFloat(share, 'f', 7, 64), strconv.FormatFloat(share*100, 'f', 5, 64) + "%"}
		}
		return nil
	}
	l.below, l.min, l.max, l.above = spell(r.min, -1), spell(r.min, 0), spell(r.max, 0), spell(r.max, 1)
	return l
}

func profileText(settings string) string {
	return "version: 1\nprofiles: {a: {extends: read-heavy, " + settings + "}}\n"
}

// profileLimits has every number of a profile. A key whose range begins above zero and may be 0 for "off" has the range
// without that 0.
func profileLimits() []boundary {
	const patient = "retry: {attempt_timeout: 0s}, "
	return []boundary{
		boundaryOf("retry.max_attempts", rangeAttempts, profileText("retry: {max_attempts: %s}")),
		boundaryOf("retry.statuses", rangeStatus, profileText("retry: {statuses: [%s]}")),
		boundaryOf("retry.attempt_timeout", rangeTimeout, profileText("retry: {attempt_timeout: %s}")),
		boundaryOf("retry.timeout", rangeTimeout, profileText("retry: {attempt_timeout: 0s, timeout: %s}")),
		boundaryOf("retry.reserve", rangeTokens, profileText("retry: {reserve: %s}")),
		boundaryOf("backoff.base", rangeWait, profileText("backoff: {cap: 1h, base: %s}")),
		boundaryOf("backoff.throttled_base", rangeWait, profileText("backoff: {cap: 1h, throttled_base: %s}")),
		boundaryOf("backoff.cap", rangeWait, profileText("backoff: {base: 1ms, throttled_base: 1ms, cap: %s}")),
		boundaryOf("budget.ratio", rangeRatio, profileText("budget: {ratio: %s}")),
		boundaryOf("budget.ratio (throttle)", rangeRatio, profileText("budget: {kind: throttle, burst: 10, ratio: %s}")),
		boundaryOf("budget.ratio (reserve)", rangeRatio, profileText("budget: {kind: reserve, ttl: 1s, ratio: %s}")),
		boundaryOf("budget.burst", rangeBurst, profileText("budget: {burst: %s}")),
		boundaryOf("budget.burst (quota)", rangeBurst, profileText("budget: {kind: quota, cost: 1, throttled_cost: 1, burst: %s}")),
		boundaryOf("budget.burst (throttle)", rangeThrottle, profileText("budget: {kind: throttle, ratio: 0.1, burst: %s}")),
		boundaryOf("budget.cost", rangeBurst, profileText("budget: {kind: quota, burst: 100000, throttled_cost: 1, cost: %s}")),
		boundaryOf("budget.throttled_cost", rangeBurst, profileText("budget: {kind: quota, burst: 100000, cost: 1, throttled_cost: %s}")),
		boundaryOf("budget.min_per_second", rangeReserve, profileText("budget: {kind: reserve, ratio: 0.1, ttl: 1s, min_per_second: %s}")),
		boundaryOf("budget.ttl", rangeTTL, profileText("budget: {kind: reserve, ratio: 0.1, ttl: %s}")),
		boundaryOf("breaker.window", rangeWindow, profileText("breaker: {window: %s}")),
		boundaryOf("breaker.failure_ratio", rangeFailure, profileText("breaker: {failure_ratio: %s}")),
		boundaryOf("breaker.min_requests", rangeRequests, profileText("breaker: {min_requests: %s}")),
		boundaryOf("breaker.open_for", rangeOpen, profileText("breaker: {open_for: %s}")),
		boundaryOf("breaker.probes", rangeProbes, profileText("breaker: {probes: %s}")),
		boundaryOf("breaker.probe_timeout", rangeOpen, profileText("breaker: {probe_timeout: %s}")),
		boundaryOf("breaker.consecutive_failures", rangeOptional, profileText("breaker: {consecutive_failures: %s}")),
		boundaryOf("breaker.slow_call", rangeWait, profileText(patient+"breaker: {slow_call: %s}")),
		boundaryOf("breaker.slow_ratio", rangeFailure, profileText("breaker: {slow_call: 1ms, slow_ratio: %s}")),
		boundaryOf("breaker.max_in_flight", rangeOptional, profileText("breaker: {max_in_flight: %s}")),
		boundaryOf("hedge.after", rangeHedgeAfter, profileText(patient+"hedge: {max: 1, after: %s}")),
		boundaryOf("hedge.max", rangeHedges, profileText("retry: {max_attempts: 99}, hedge: {after: 1ms, max: %s}")),
		boundaryOf("adaptive_throttle.k", rangeK, profileText("adaptive_throttle: {k: %s}")),
		boundaryOf("adaptive_throttle.window", rangeLong, profileText("adaptive_throttle: {k: 2, window: %s}")),
		boundaryOf("process_budget", rangeOptional, profileText("process_budget: %s")),
		boundaryOf("availability_floor", rangeShare, profileText("availability_floor: %s")),
	}
}

// otherLimits has every number outside of profiles.
func otherLimits() []boundary {
	return []boundary{
		boundaryOf("chain.budget", rangeTokens, "version: 1\nchain: {max_budget: 99, budget: %s}\n"),
		boundaryOf("chain.budget (max_budget)", span[int]{0, 5}, "version: 1\nchain: {max_budget: 5, budget: %s}\n"),
		boundaryOf("chain.max_budget", rangeTokens, "version: 1\nchain: {budget: 0, orphan_budget: 0, max_budget: %s}\n"),
		boundaryOf("chain.orphan_budget", rangeTokens, "version: 1\nchain: {max_budget: 99, orphan_budget: %s}\n"),
		boundaryOf("chain.orphan_budget (max_budget)", span[int]{0, 5}, "version: 1\nchain: {max_budget: 5, orphan_budget: %s}\n"),
		boundaryOf("chain.process_budget", rangeOptional, "version: 1\nchain: {process_budget: %s}\n"),
		boundaryOf("chain.holdout", rangeShare, "version: 1\nchain: {holdout: %s}\n"),
		boundaryOf("chain.grace", rangeGrace, "version: 1\nchain: {grace: %s}\n"),
		boundaryOf("services.routes.budget", rangeTokens, "version: 1\nchain: {max_budget: 99}\nservices: {a: {routes: {/a: {budget: %s}}}}\n"),
		boundaryOf("services.routes.budget (max_budget)", span[int]{0, 10}, "version: 1\nservices: {a: {routes: {/a: {budget: %s}}}}\n"),
		boundaryOf("services.failure_statuses", rangeStatus, "version: 1\nservices: {a: {failure_statuses: [%s]}}\n"),
	}
}

// numbers lists the keys of all numbers in a struct, and their fields. In the catalog a field has its own name with
// underscores; one group has a longer one.
func numbers(v reflect.Value, prefix string) map[string]reflect.Value {
	keys := map[string]reflect.Value{}
	for i := range v.NumField() {
		f := v.Field(i)
		var name strings.Builder
		field := v.Type().Field(i).Name
		for j, r := range field {
			if r >= 'A' && r <= 'Z' && j > 0 && field[j-1] >= 'a' {
				name.WriteByte('_')
			}
			name.WriteString(strings.ToLower(string(r)))
		}
		key := prefix + name.String()
		if key == "throttle" {
			key = "adaptive_throttle"
		}
		switch f.Kind() {
		case reflect.Struct:
			maps.Copy(keys, numbers(f, key+"."))
		case reflect.Int, reflect.Int64, reflect.Float64, reflect.Slice:
			keys[key] = f
		}
	}
	return keys
}

func loadValue(t *testing.T, text, value string) (*Catalog, error) {
	t.Helper()
	return Load([]byte(strings.Replace(text, "%s", value, 1)), "test.yaml")
}

func problems(t *testing.T, err error) []Problem {
	t.Helper()
	var list *CatalogError
	require.ErrorAs(t, err, &list)
	return list.Problems
}

// Off by one at an inclusive limit, and values above it capped without a word (grpc/grpc-go#2670, #4615): every number
// that there is, at both ends, through the file and, for profiles, through Validate.
func TestRegression_A072_limits_are_inclusive_and_nothing_is_capped(t *testing.T) {
	for _, l := range slices.Concat(profileLimits(), otherLimits()) {
		t.Run(l.key, func(t *testing.T) {
			key, _, _ := strings.Cut(l.key, " ")
			for _, v := range slices.Concat(l.min, l.max) {
				_, err := loadValue(t, l.text, v)
				require.NoError(t, err, v)
			}
			for _, v := range slices.Concat(l.below, l.above) {
				_, err := loadValue(t, l.text, v)
				list := problems(t, err)
				require.Len(t, list, 1, "%s: %v", v, err)
				require.Contains(t, list[0].Path, key[strings.LastIndexByte(key, '.')+1:])
			}
		})
	}
}

// The same numbers in code: Validate and the file agree.
func TestRegression_A072_limits_in_code(t *testing.T) {
	for _, l := range profileLimits() {
		t.Run(l.key, func(t *testing.T) {
			key, _, _ := strings.Cut(l.key, " ")
			value := func(v string) Profile {
				c, err := loadValue(t, l.text, v)
				require.NoError(t, err)
				return *c.Profiles["a"]
			}
			least, most := value(l.min[0]), value(l.max[0])
			require.NoError(t, least.Validate())
			require.NoError(t, most.Validate())
			move := func(p *Profile, by int64) {
				switch f := numbers(reflect.ValueOf(p).Elem(), "")[key]; f.Kind() {
				case reflect.Float64:
					f.SetFloat(f.Float() + float64(by)/1e6)
				case reflect.Slice:
					f.Set(reflect.ValueOf([]int{int(f.Index(0).Int() + by)}))
				default:
					f.SetInt(f.Int() + by)
				}
			}
			for p, by := range map[*Profile]int64{&least: -1, &most: 1} {
				move(p, by)
				list := problems(t, p.Validate())
				require.Len(t, list, 1)
				require.Contains(t, list[0].Path, key)
			}
		})
	}
}

// A key that is added without its limits is missed here.
func TestRegression_A072_every_number_has_its_limits(t *testing.T) {
	have := map[string]bool{}
	for _, l := range slices.Concat(profileLimits(), otherLimits()) {
		key, _, _ := strings.Cut(l.key, " ")
		have[key] = true
	}
	want := map[string]bool{"services.routes.budget": true, "services.failure_statuses": true}
	var p Profile
	for key := range numbers(reflect.ValueOf(&p).Elem(), "") {
		want[key] = true
		require.True(t, slices.ContainsFunc(p.settings(), func(s string) bool { return strings.HasPrefix(s, key+"=") }), "%s is how the digest calls it, too", key)
	}
	var c Chain
	for key := range numbers(reflect.ValueOf(&c).Elem(), "chain.") {
		want[key] = true
	}
	require.Equal(t, want, have)
}

func TestRegression_A072_numbers_have_one_spelling(t *testing.T) {
	for _, v := range []string{"+3", "03", "3.0", "1e3", "0x3", "1_000", "2147483648000000000000", "٣", "null", "~", "\"\"", "-0", "[3]"} {
		_, err := Load([]byte("version: 1\nchain: {budget: "+v+"}\n"), "test.yaml")
		require.Error(t, err, v)
	}
}

// Validator and executor count an omitted number differently (KeeperHub#2536): here all read one struct, and what is
// never assumed has to be said.
func TestRegression_A071_one_number_everywhere(t *testing.T) {
	_, err := Load([]byte("version: 1\nprofiles: {mine: {backoff: {base: 10ms}}}\n"), "test.yaml")
	require.ErrorContains(t, err, "test.yaml:2:12: profiles.mine.retry.max_attempts: is missing; write 1 to 99, or extend a profile that says it")

	c := mustLoad(t, "version: 1\nprofiles: {mine: {extends: read-heavy}, own: {retry: {max_attempts: 2}}}\ndependencies: {d: {profile: mine}}\n")
	e, err := c.Resolve("d", "")
	require.NoError(t, err)
	require.Equal(t, 4, e.Profile.Retry.MaxAttempts)
	require.Equal(t, 4, e.Profile.Retry.Attempts())
	require.Equal(t, Builtin().Profiles[ReadHeavy].Digest(), e.Profile.Digest(), "no other number is hidden")
	require.NoError(t, e.Profile.Validate())

	// An omitted key is the default, in the loader as in code.
	own := Default()
	own.Name, own.Retry.MaxAttempts = "own", 2
	require.Equal(t, own, *c.Profiles["own"])
	require.Equal(t, DefaultChain(), c.Chain)
	require.Equal(t, DefaultChain(), Builtin().Chain)
	require.Equal(t, 1, (&Retry{}).Attempts())
}
