package profiles

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The catalog in the package comment loads, and has every key that the loader knows.
func TestDoc_catalog_has_every_key(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var text strings.Builder
	for line := range strings.Lines(string(source)) {
		code, ok := strings.CutPrefix(line, "//\t")
		if text.Len() > 0 && !ok {
			break
		}
		if ok && (text.Len() > 0 || code == "version: 1\n") {
			text.WriteString(code)
		}
	}
	c, err := Load([]byte(text.String()), "doc.go")
	require.NoError(t, err)
	require.Empty(t, c.Warnings)

	// A key that nobody knows makes the loader list those that it does.
	for _, place := range []string{
		"nothing: 1", "chain: {nothing: 1}", "profiles: {p: {nothing: 1}}", "profiles: {p: {retry: {nothing: 1}}}",
		"profiles: {p: {backoff: {nothing: 1}}}", "profiles: {p: {budget: {nothing: 1}}}", "profiles: {p: {breaker: {nothing: 1}}}",
		"profiles: {p: {hedge: {nothing: 1}}}", "dependencies: {d: {nothing: 1}}", "services: {s: {nothing: 1}}",
		"services: {s: {routes: {/: {nothing: 1}}}}", "overrides: {nothing: 1}", "overrides: {dependencies: {d: {nothing: 1}}}",
	} {
		_, err := Load([]byte("version: 1\n"+place+"\n"), "catalog")
		require.Error(t, err, place)
		_, known, found := strings.Cut(err.Error(), "unknown key; known are ")
		if !found {
			_, known, found = strings.Cut(err.Error(), "unknown key; known is ")
		}
		require.True(t, found, "%s: %v", place, err)
		known, _, _ = strings.Cut(known, "\n")
		known, _, _ = strings.Cut(known, ";")
		for _, key := range strings.Split(known, ", ") {
			assert.Regexp(t, `\b`+key+`\b`, text.String(), place)
		}
	}
}
