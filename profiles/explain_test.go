package profiles

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const explained = `version: 1
chain: {mode: observe, budget: 2}
profiles:
  child:
    extends: parent
    retry: {timeout: 8s}
    budget: {kind: throttle, burst: 20, ratio: 5%}
    breaker: {slow_call: 700ms}
  parent:
    extends: bare
    retry: {max_attempts: 3, attempt_timeout: 900ms}
    budget: {fund: requests, burst: 7}
    breaker: {window: 20s}
    hedge: {after: 40ms, max: 2}
  bare:
    extends: write-path
    breaker: disabled
    availability_floor: 55%
  other:
    extends: child
    hedge: disabled
  slow:
    extends: quick
    breaker: {slow_call: 600ms}
  quick:
    extends: careful
    breaker: {slow_call: 0s}
  careful:
    extends: read-heavy
    breaker: {slow_call: 300ms, slow_ratio: 40%}
dependencies:
  payments: {profile: child, owner: team-ledger, on_failure: closed, hosts: [payments.internal], external: false, mesh: envoy, mode: budget}
  search: {profile: other}
  rates: {profile: third-party}
  slow: {profile: slow}
  careful: {profile: careful}
overrides: {dependencies: {search: {retries: disabled}}}
`

func from(t *testing.T, e Explanation, key string) Line {
	t.Helper()
	for _, l := range e.Lines {
		if l.Key == key {
			return l
		}
	}
	t.Fatalf("%s has no line %s", e.Dependency, key)
	return Line{}
}

// Each value has the place that set it, through every step of extends.
// A zero is "none at all" for one key and "no limit" for the next; who reads it must not have to guess.
func TestExplanation_says_what_a_zero_stands_for(t *testing.T) {
	got := mustLoad(t, "version: 1\nprofiles: {p: {retry: {max_attempts: 2, reserve: 0, timeout: 0s}, availability_floor: 0%}}\ndependencies: {d: {profile: p}}\n").Explain("d", "").String()
	for key, want := range map[string]string{
		"retry.reserve": "", "retry.attempt_timeout": "; 0s = none of its own", "retry.timeout": "; 0s = none of its own", "breaker.probe_timeout": "; 0s = open_for, .+",
		"breaker.consecutive_failures": "; 0 = only by the ratio", "breaker.slow_call": "; 0s = none is slow", "breaker.max_in_flight": "; 0 = no limit",
		"process_budget": "; 0 = no limit", "chain.process_budget": "; 0 = no limit", "availability_floor": "; 0% = off", "chain.holdout": "",
	} {
		assert.Regexp(t, `(?m)^  `+regexp.QuoteMeta(key)+` +0[s%]? +# [^;]+`+want+`$`, got)
	}
}

func TestExplain_origins(t *testing.T) {
	c, err := Load([]byte(explained), "c.yaml")
	require.NoError(t, err)
	for _, tt := range []struct{ dependency, key, value, from string }{
		{"payments", "profile", "child", "c.yaml:32:23; code names read-heavy"},
		{"payments", "owner", "team-ledger", "c.yaml:32:37"},
		{"payments", "on_failure", "closed", "c.yaml:32:62"},
		{"payments", "hosts", "payments.internal", "c.yaml:32:77"},
		{"payments", "external", "internal", "c.yaml:32:108"},
		{"payments", "mesh", "envoy", "c.yaml:32:121"},
		{"payments", "mode", "budget", "c.yaml:32:134"},
		{"payments", "retries", "enabled", "default of the schema"},
		{"payments", "retry.timeout", "8s", "c.yaml:6:22"},
		{"payments", "retry.max_attempts", "3", "c.yaml:11:27 (profile parent)"},
		{"payments", "backoff.base", "200ms", "built-in write-path"},
		{"payments", "backoff.throttled_base", "1s", "built-in read-heavy"},
		{"payments", "retry.timeout", "8s", "c.yaml:6:22"},
		{"payments", "availability_floor", "55%", "c.yaml:18:25 (profile bare)"},
		{"payments", "process_budget", "0", "default of the schema"},
		// Another kind of budget keeps nothing of the parent's.
		{"payments", "budget.kind", "throttle", "c.yaml:7:20"},
		{"payments", "budget.burst", "20", "c.yaml:7:37"},
		// A breaker that was off starts from the defaults where it is turned on, and not where the grandparent had it.
		{"payments", "breaker.window", "20s", "c.yaml:13:23 (profile parent)"},
		{"payments", "breaker.failure_ratio", "50%", "default of the schema"},
		{"payments", "breaker.slow_call", "700ms", "c.yaml:8:26"},
		{"payments", "breaker.slow_ratio", "50%", "default of the schema"},
		{"payments", "hedge.max", "2", "c.yaml:14:31 (profile parent)"},
		{"payments", "chain.budget", "2", "c.yaml:2:32"},
		{"payments", "chain.grace", "1h", "default of the schema"},
		{"search", "retries", "disabled", "c.yaml:37:46"},
		{"search", "mode", "observe", "c.yaml:2:15"},
		{"search", "external", "by host", "default of the schema"},
		{"search", "hedge", "disabled", "c.yaml:21:12"},
		{"search", "adaptive_throttle", "disabled", "default of the schema"},
		{"search", "breaker.slow_ratio", "50%", "default of the schema"},
		{"search", "breaker.slow_call", "700ms", "c.yaml:8:26 (profile child)"},
		{"rates", "external", "external", "built-in third-party"},
		// Where slow calls were off in between, their ratio begins anew.
		{"careful", "breaker.slow_ratio", "40%", "c.yaml:30:45"},
		{"slow", "breaker.slow_ratio", "50%", "default of the schema"},
		{"slow", "breaker.slow_call", "600ms", "c.yaml:24:26"},
		{"unknown", "profile", "read-heavy", "named in code"},
	} {
		got := from(t, c.Explain(tt.dependency, ReadHeavy), tt.key)
		got.From, _, _ = strings.Cut(got.From, " (builtin.yaml:") // its lines move; the next test reads them
		assert.Equal(t, Line{tt.key, tt.value, tt.from}, got, tt.dependency)
	}

	for _, l := range c.Explain("payments", "").Lines {
		assert.NotContains(t, []string{"budget.fund", "budget.cost", "budget.ttl"}, l.Key, "means nothing beside kind: throttle")
	}
	assert.Equal(t, Line{"profile", "no-retry", "neither the catalog nor code names one"}, from(t, c.Explain("unknown", ""), "profile"))
	nobody := c.Explain("unknown", "nobody")
	assert.Equal(t, Line{"profile", "no-retry", `code names "nobody", which does not exist`}, from(t, nobody, "profile"))
	assert.Contains(t, from(t, nobody, "retry.max_attempts").From, "built-in no-retry (builtin.yaml:")

	whole, err := Load([]byte("version: 1\noverrides: {retries: disabled}\ninternal_hosts: [\"*.example.com\"]\n"), "w.yaml")
	require.NoError(t, err)
	assert.Equal(t, Line{"retries", "disabled", "w.yaml:2:22"}, from(t, whole.Explain("any", NoRetry), "retries"))
	assert.Equal(t, Line{"external", "by host", "internal_hosts"}, from(t, whole.Explain("any", NoRetry), "external"))
}

// What stands at a place that an explanation names is the value that it gives: of every line, in every sample.
func TestExplain_places_hold_the_values(t *testing.T) {
	sample, err := os.ReadFile("testdata/sample.yaml")
	require.NoError(t, err)
	word := regexp.MustCompile(`^[^,}\]\s]+`)
	at := func(text, line, column string) string {
		l, _ := strconv.Atoi(line)
		c, _ := strconv.Atoi(column)
		rest := strings.Split(text, "\n")[l-1][max(0, c-1):]
		if strings.HasPrefix(rest, "[") {
			rest = strings.Trim(rest[:strings.IndexByte(rest, ']')+1], "[]")
			return strings.ReplaceAll(rest, `"`, "")
		}
		return word.FindString(rest)
	}
	placed := regexp.MustCompile(`^c\.yaml:(\d+):(\d+)`)
	builtin := regexp.MustCompile(`^built-in ([a-z-]+) \(builtin\.yaml:(\d+)\)$`)
	known := map[string]string{"false": "internal", "disabled": "disabled"}
	n := 0
	for _, text := range []string{explained, string(sample)} {
		c, err := Load([]byte(text), "c.yaml")
		require.NoError(t, err)
		for name := range c.Dependencies {
			for _, l := range c.Explain(name, "").Lines {
				value := strings.Trim(l.Value, "[]")
				if m := placed.FindStringSubmatch(l.From); m != nil {
					got := at(text, m[1], m[2])
					if l.Key == "external" {
						got = known[got]
					}
					assert.Equal(t, value, got, "%s %s from %s", name, l.Key, l.From)
					n++
				}
				if m := builtin.FindStringSubmatch(l.From); m != nil {
					number, _ := strconv.Atoi(m[2])
					line := strings.TrimSpace(strings.Split(string(builtinFile), "\n")[number-1])
					line, _, _ = strings.Cut(line, " #")
					key, got, ok := strings.Cut(line, ": ")
					require.True(t, ok, "%s %s from %s: %q", name, l.Key, l.From, line)
					if l.Key == "external" && got == "true" {
						got = l.Value
					}
					assert.Equal(t, value, strings.Trim(got, "[]"), "%s %s from %s", name, l.Key, l.From)
					assert.True(t, l.Key == key || strings.HasSuffix(l.Key, "."+key), "%s from %s: %q", l.Key, l.From, line)
					n++
				}
			}
		}
	}
	assert.Greater(t, n, 100)
}

// A key with two values would leave its reader to guess which one holds.
func TestRegression_no_key_is_explained_twice(t *testing.T) {
	c, err := Load([]byte("version: 1\nprofiles: {partner: {extends: read-heavy, external: true}}\ndependencies: {rates: {profile: partner}, ledger: {profile: write-path, external: true}}\n"), "c.yaml")
	require.NoError(t, err)
	for _, name := range []string{"rates", "ledger", "unknown"} {
		seen := map[string]bool{}
		for _, l := range c.Explain(name, ReadHeavy).Lines {
			assert.False(t, seen[l.Key], "%s: %s stands there twice", name, l.Key)
			seen[l.Key] = true
		}
	}
}

// The list of settings is the digest's: nothing that changes a profile is left out of what people see.
func TestKeys_are_those_of_the_digest(t *testing.T) {
	p := Default()
	var digested []string
	for _, s := range p.settings() {
		key, _, _ := strings.Cut(s, "=")
		digested = append(digested, key)
	}
	var listed []string
	for _, k := range profileKeys() {
		listed = append(listed, k.name)
		assert.NotEmpty(t, k.about, k.name)
		assert.NotEmpty(t, k.value(&p), k.name)
	}
	assert.ElementsMatch(t, digested, listed)
}

func TestExplanation_String(t *testing.T) {
	e := Explanation{Dependency: "payments", Lines: []Line{
		{"catalog", "c.yaml", "digest 0123abcd"}, {"retry.max_attempts", "2", "c.yaml:4:27"}, {"mode", "enforce", "default of the schema"},
		{"hosts", strings.Repeat("h", 50), "c.yaml:9:1"},
	}}
	wide := strings.Repeat(" ", 40)
	assert.Equal(t, "dependency payments\n"+
		"  catalog             c.yaml"+wide[6:]+"  # digest 0123abcd\n"+
		"  retry.max_attempts  2"+wide[1:]+"  # c.yaml:4:27\n"+
		"  mode                enforce"+wide[7:]+"  # default of the schema\n"+
		"  hosts               "+strings.Repeat("h", 50)+"  # c.yaml:9:1\n", e.String())
	assert.Equal(t, "no dependency: every call is made once, and nothing is counted\n", Explanation{}.String())
}

// A catalog that was made in code has no places, and explains all the same.
func TestExplain_catalog_made_in_code(t *testing.T) {
	p := Default()
	p.Name = "own"
	c := &Catalog{Profiles: map[Name]*Profile{"own": &p}, Dependencies: map[string]*Dependency{"d": {Name: "d", Profile: "own"}},
		Overrides: Overrides{RetriesDisabled: true}}
	e := c.Explain("d", "")
	assert.Equal(t, Line{"retry.max_attempts", "1", "set in code"}, from(t, e, "retry.max_attempts"))
	assert.Equal(t, Line{"retries", "disabled", "set in code"}, from(t, e, "retries"))
	assert.Equal(t, Line{"mode", "enforce", "default of the schema"}, from(t, e, "mode"))
}
