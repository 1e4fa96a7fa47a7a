package profiles

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write catalog.schema.json and docs/profiles.md instead of comparing with them (make schema)")

// recorded compares a generated file with the one in the repository.
func recorded(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	if string(have) != text {
		t.Errorf("%s is not what the code says: run make schema, and look at what changes", path)
	}
}

func TestSchema_is_recorded(t *testing.T) {
	recorded(t, "catalog.schema.json", string(Schema()))
}

// The schema has every key that the loader knows, and no other.
func TestSchema_has_the_keys_of_the_loader(t *testing.T) {
	var schema map[string]any
	require.NoError(t, json.Unmarshal(Schema(), &schema))
	// at goes down by properties; * stands for a name that the catalog's author chooses, a group may be disabled.
	at := func(path ...string) map[string]any {
		n := schema
		for _, key := range path {
			if key == "*" {
				n = n["additionalProperties"].(map[string]any)
			} else {
				n = n["properties"].(map[string]any)[key].(map[string]any)
			}
			if either, ok := n["anyOf"].([]any); ok {
				n = either[1].(map[string]any)
			}
		}
		return n
	}
	for place, path := range map[string][]string{
		"nothing: 1":                                       {},
		"chain: {nothing: 1}":                              {"chain"},
		"profiles: {p: {nothing: 1}}":                      {"profiles", "*"},
		"profiles: {p: {retry: {nothing: 1}}}":             {"profiles", "*", "retry"},
		"profiles: {p: {backoff: {nothing: 1}}}":           {"profiles", "*", "backoff"},
		"profiles: {p: {budget: {nothing: 1}}}":            {"profiles", "*", "budget"},
		"profiles: {p: {breaker: {nothing: 1}}}":           {"profiles", "*", "breaker"},
		"profiles: {p: {hedge: {nothing: 1}}}":             {"profiles", "*", "hedge"},
		"profiles: {p: {adaptive_throttle: {nothing: 1}}}": {"profiles", "*", "adaptive_throttle"},
		"dependencies: {d: {nothing: 1}}":                  {"dependencies", "*"},
		"services: {s: {nothing: 1}}":                      {"services", "*"},
		"services: {s: {routes: {/: {nothing: 1}}}}":       {"services", "*", "routes", "*"},
		"overrides: {nothing: 1}":                          {"overrides"},
		"overrides: {dependencies: {d: {nothing: 1}}}":     {"overrides", "dependencies", "*"},
	} {
		_, err := Load([]byte("version: 1\n"+place+"\n"), "catalog")
		require.Error(t, err, place)
		_, known, _ := strings.Cut(err.Error(), "unknown key; known ")
		known, _, _ = strings.Cut(known, "\n")
		known, _, _ = strings.Cut(known, ";")
		_, known, _ = strings.Cut(known, " ")
		n := at(path...)
		var keys []string
		for key, v := range n["properties"].(map[string]any) {
			keys = append(keys, key)
			if key != "version" {
				assert.NotEmpty(t, v.(map[string]any)["description"], "%s: %s", place, key)
			}
		}
		assert.ElementsMatch(t, strings.Split(known, ", "), keys, place)
		assert.Equal(t, false, n["additionalProperties"], place)
	}
}
