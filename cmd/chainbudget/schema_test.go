package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// repository is the top folder of the repository.
const repository = "../.."

// schema is what the command prints, as an editor reads it.
func schema(t *testing.T) (validate func(yaml string) error, tree map[string]any) {
	t.Helper()
	r := command(t, t.TempDir(), "catalog", "schema")
	require.Equal(t, 0, r.exit, r)
	recorded, err := os.ReadFile(filepath.Join(repository, "profiles", "catalog.schema.json"))
	require.NoError(t, err)
	require.Equal(t, string(recorded), r.stdout)

	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(r.stdout))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler() // checks the schema itself against its draft
	require.NoError(t, compiler.AddResource("catalog.schema.json", doc))
	compiled, err := compiler.Compile("catalog.schema.json")
	require.NoError(t, err)
	return func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return err
		}
		return compiled.Validate(instance)
	}, doc.(map[string]any)
}

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	docBlock  = regexp.MustCompile(`(?m)^//\t(version: 1\n(?://\t.*\n)+)`)
)

// samples are the catalogs that people are shown, by where they stand.
func samples(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{}
	add := func(name string) string {
		data, err := os.ReadFile(filepath.Join(repository, name))
		require.NoError(t, err)
		return string(data)
	}
	for _, name := range []string{"profiles/builtin.yaml", "profiles/testdata/sample.yaml"} {
		list[name] = add(name)
	}
	if m := docBlock.FindStringSubmatch(add("profiles/doc.go")); m != nil {
		list["profiles/doc.go"] = strings.ReplaceAll(m[1], "//\t", "")
	}
	require.NoError(t, filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		switch text := add(name); filepath.Ext(name) {
		case ".yaml":
			list[name] = text
		case ".md":
			for i, m := range yamlBlock.FindAllStringSubmatch(text, -1) {
				list[fmt.Sprintf("%s, block %d", name, i+1)] = m[1]
			}
		}
		return nil
	}))
	return list
}

func TestSchema_accepts_every_sample(t *testing.T) {
	validate, _ := schema(t)
	n := 0
	for name, text := range samples(t) {
		if !strings.Contains(text, "version: 1\n") || strings.Contains(text, "\nduration: ") {
			continue // of Kubernetes, of GitHub; a scenario of the storm lab
		}
		if strings.Contains(text, "\ntraffic:\n") {
			continue // a scenario of the storm lab, which has a test of its own
		}
		n++
		assert.NoError(t, validate(text), name)
	}
	assert.GreaterOrEqual(t, n, 4)
}

// What the loader refuses for its structure, the schema refuses, too: the file is wrong while it is typed.
func TestSchema_refuses_what_the_loader_refuses(t *testing.T) {
	validate, _ := schema(t)
	const p = "version: 1\nprofiles: {p: {extends: read-heavy, "
	for name, text := range map[string]string{
		"no_version":              "chain: {}\n",
		"version_2":               "version: 2\n",
		"version_quoted":          "version: \"1\"\n",
		"list_at_the_top":         "- 1\n",
		"unknown_key":             "version: 1\nchains: {}\n",
		"unknown_key_of_chain":    "version: 1\nchain: {bugdet: 3}\n",
		"unknown_key_of_profile":  p + "attempts: 3}}\n",
		"unknown_key_of_retry":    p + "retry: {max: 3}}}\n",
		"unknown_key_of_breaker":  p + "breaker: {failures: 3}}}\n",
		"unknown_key_of_route":    "version: 1\nservices: {s: {routes: {/: {tokens: 1}}}}\n",
		"chain_is_null":           "version: 1\nchain:\n",
		"chain_is_a_list":         "version: 1\nchain: []\n",
		"budget_as_text":          "version: 1\nchain: {budget: \"3\"}\n",
		"budget_too_large":        "version: 1\nchain: {budget: 100}\n",
		"budget_negative":         "version: 1\nchain: {budget: -1}\n",
		"budget_with_a_fraction":  "version: 1\nchain: {budget: 2.5}\n",
		"attempts_missing":        "version: 1\nprofiles: {p: {backoff: {base: 1s}}}\n",
		"attempts_0":              p + "retry: {max_attempts: 0}}}\n",
		"duration_without_unit":   p + "retry: {attempt_timeout: 400}}}\n",
		"duration_word":           p + "retry: {attempt_timeout: soon}}}\n",
		"duration_negative":       p + "retry: {attempt_timeout: -1s}}}\n",
		"duration_bare_zero":      p + "retry: {attempt_timeout: \"0\"}}}\n",
		"ratio_above_1":           p + "budget: {ratio: 10}}}\n",
		"ratio_above_100_percent": p + "budget: {ratio: 101%}}}\n",
		"ratio_negative":          p + "budget: {ratio: -5%}}}\n",
		"ratio_word":              p + "budget: {ratio: ten}}}\n",
		"kind_unknown":            p + "budget: {kind: bucket}}}\n",
		"kind_quota_with_ratio":   p + "budget: {kind: quota, ratio: 10%, burst: 5, cost: 1, throttled_cost: 1}}}\n",
		"kind_ratio_with_ttl":     p + "budget: {kind: ratio, ttl: 5s}}}\n",
		"kind_reserve_with_burst": p + "budget: {kind: reserve, burst: 5, ttl: 5s, ratio: 5%}}}\n",
		"kind_throttle_too_large": p + "budget: {kind: throttle, burst: 1001, ratio: 5%}}}\n",
		"breaker_off":             p + "breaker: off}}\n",
		"breaker_false":           p + "breaker: false}}\n",
		"breaker_enabled":         p + "breaker: enabled}}\n",
		"hedge_too_many":          p + "hedge: {after: 5ms, max: 10}}}\n",
		"k_as_text":               p + "adaptive_throttle: {k: \"2\"}}}\n",
		"k_too_small":             p + "adaptive_throttle: {k: 1}}}\n",
		"statuses_twice":          p + "retry: {statuses: [503, 503]}}}\n",
		"statuses_200":            p + "retry: {statuses: [200]}}}\n",
		"statuses_are_no_list":    p + "retry: {statuses: 503}}}\n",
		"repeats_unknown":         p + "retry: {repeats: allow}}}\n",
		"external_yes":            p + "external: \"yes\"}}\n",
		"profile_name":            "version: 1\nprofiles: {Mine: {extends: read-heavy}}\n",
		"profile_name_too_long":   "version: 1\nprofiles: {" + strings.Repeat("n", 41) + ": {extends: read-heavy}}\n",
		"extends_is_a_list":       "version: 1\nprofiles: {p: {extends: [read-heavy]}}\n",
		"profile_with_a_space":    "version: 1\ndependencies: {d: {profile: \"read heavy\"}}\n",
		"dependency_name":         "version: 1\ndependencies: {\" d\": {}}\n",
		"dependency_name_length":  "version: 1\ndependencies: {" + strings.Repeat("n", 101) + ": {}}\n",
		"owner_is_a_number":       "version: 1\ndependencies: {d: {owner: 7}}\n",
		"owner_empty":             "version: 1\ndependencies: {d: {owner: \"\"}}\n",
		"on_failure_unknown":      "version: 1\ndependencies: {d: {on_failure: ignore}}\n",
		"mesh_unknown":            "version: 1\ndependencies: {d: {mesh: linkerd}}\n",
		"mode_unknown":            "version: 1\ndependencies: {d: {mode: inherit}}\n",
		"hosts_are_no_list":       "version: 1\ndependencies: {d: {hosts: a.example.com}}\n",
		"hosts_twice":             "version: 1\ndependencies: {d: {hosts: [a.example.com, a.example.com]}}\n",
		"serves_nothing":          "version: 1\nservices: {s: {serves: []}}\n",
		"route_without_budget":    "version: 1\nservices: {s: {routes: {/: {}}}}\n",
		"route_budget_too_large":  "version: 1\nservices: {s: {routes: {/: {budget: 100}}}}\n",
		"failure_statuses_empty":  "version: 1\nservices: {s: {failure_statuses: []}}\n",
		"failure_status_200":      "version: 1\nservices: {s: {failure_statuses: [200]}}\n",
		"override_enabled":        "version: 1\noverrides: {retries: enabled}\n",
		"override_says_nothing":   "version: 1\noverrides: {dependencies: {d: {}}}\n",
		"internal_hosts":          "version: 1\ninternal_hosts: {a: b}\n",
	} {
		_, err := profiles.Load([]byte(text), "catalog")
		assert.Error(t, err, "the loader takes %s", name)
		assert.Error(t, validate(text), "the schema takes %s", name)
	}
}

// Both agree about the ends of every range of numbers: at the ends, and one beyond.
func TestSchema_ranges_are_the_loaders(t *testing.T) {
	validate, tree := schema(t)
	n := 0
	var walk func(key string, node map[string]any, wrap func(string) string)
	probe := func(key string, wrap func(string) string, value string, inside bool) {
		text := "version: 1\n" + wrap(value) + "\n"
		_, err := profiles.Load([]byte(text), "catalog")
		outside := false
		if bad := (*profiles.CatalogError)(nil); errors.As(err, &bad) {
			outside = slices.ContainsFunc(bad.Problems, func(p profiles.Problem) bool {
				return strings.HasSuffix(p.Path, "."+key) && (strings.Contains(p.What, "out of range") || strings.HasSuffix(p.What, "is above 1"))
			})
		}
		assert.Equal(t, inside, !outside, "the loader and %s: %v", text, err)
		if inside {
			assert.NoError(t, validate(text), text)
		} else {
			assert.Error(t, validate(text), text)
		}
		n++
	}
	walk = func(key string, node map[string]any, wrap func(string) string) {
		if either, ok := node["anyOf"].([]any); ok {
			walk(key, either[1].(map[string]any), wrap)
		}
		for key, child := range object(node["properties"]) {
			walk(key, child.(map[string]any), func(v string) string { return wrap("{" + key + ": " + v + "}") })
		}
		if child, ok := node["additionalProperties"].(map[string]any); ok {
			walk("a", child, func(v string) string { return wrap("{/: " + v + "}") })
		}
		low, hasLow := node["minimum"].(json.Number)
		high, _ := node["maximum"].(json.Number)
		if !hasLow {
			return
		}
		lowest, err := low.Float64()
		require.NoError(t, err)
		highest, err := high.Float64()
		require.NoError(t, err)
		step := 1.0
		if node["type"] != "integer" {
			step = 0.00001
		}
		number := func(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.5f", f), ".00000") }
		probe(key, wrap, number(lowest), true)
		probe(key, wrap, number(highest), true)
		probe(key, wrap, number(lowest-step), false)
		probe(key, wrap, number(highest+step), false)
	}
	for key, child := range object(tree["properties"]) {
		if key == "version" {
			continue
		}
		walk(key, child.(map[string]any), func(v string) string {
			v = strings.Replace(v, "{/: ", "{a: ", 1) // names of the first level; the second one's are routes
			// Ranges of the kinds of budget need their kind to be said.
			for setting, kind := range map[string]string{"cost": "quota", "throttled_cost": "quota", "min_per_second": "reserve"} {
				v = strings.Replace(v, "{budget: {"+setting+": ", "{budget: {kind: "+kind+", "+setting+": ", 1)
			}
			v = strings.Replace(v, "{breaker: {slow_ratio: ", "{breaker: {slow_call: 1s, slow_ratio: ", 1)
			v = strings.Replace(v, "{hedge: {max: ", "{hedge: {after: 5ms, max: ", 1)
			switch key {
			case "services":
				return "chain: {max_budget: 99}\n" + key + ": " + v
			case "profiles":
				v = strings.Replace(v, "{a: {", "{a: {extends: background, ", 1)
			}
			return key + ": " + v
		})
	}
	assert.Greater(t, n, 80)
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
