package stormlab_test

import (
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

func document(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/storm-lab.md")
	require.NoError(t, err)
	return string(data)
}

// documented is the scenario that the document begins with.
func documented(t testing.TB) []byte {
	t.Helper()
	_, rest, ok := strings.Cut(document(t), "```yaml\n")
	require.True(t, ok)
	text, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	return []byte(text)
}

// The document's table of rules names scenarios and variants that are there.
func TestDocument_rules_have_scenarios(t *testing.T) {
	_, table, ok := strings.Cut(document(t), "## What the library shows of each rule")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "## How large")
	rows := regexp.MustCompile("`([a-z0-9-]+)` ([a-z0-9-]+)(?:, ([a-z0-9-]+))?").FindAllStringSubmatch(table, -1)
	assert.Greater(t, len(rows), 9)
	for _, row := range rows {
		data, err := fs.ReadFile(stormlab.Library(), row[1]+".yaml")
		require.NoError(t, err, row[0])
		s, err := stormlab.Load(data, row[1]+".yaml")
		require.NoError(t, err)
		for _, name := range row[2:] {
			assert.True(t, name == "" || slices.ContainsFunc(s.Expect, func(e stormlab.Threshold) bool { return e.Variant == name && e.Shows != "" }), "%s: nothing says what %s shows", row[1], name)
		}
	}
}

// Some scenario of the library says in words what each policy comes to.
func TestLibrary_shows_every_policy(t *testing.T) {
	files, err := fs.Glob(stormlab.Library(), "*.yaml")
	require.NoError(t, err)
	var shown []stormlab.PolicyKind
	for _, file := range files {
		data, err := fs.ReadFile(stormlab.Library(), file)
		require.NoError(t, err)
		s, err := stormlab.Load(data, file)
		require.NoError(t, err)
		for _, e := range s.Expect {
			for _, v := range s.Variants {
				if e.Shows != "" && (e.Variant == "" || e.Variant == v.Name) {
					shown = append(shown, v.Policy.Kind)
				}
			}
		}
	}
	for _, kind := range []stormlab.PolicyKind{
		stormlab.PolicySDK, stormlab.PolicyNone, stormlab.PolicyNaive, stormlab.PolicyRatio, stormlab.PolicyDownOnly, stormlab.PolicyChainStop, stormlab.PolicyFinagle, stormlab.PolicyGRPC,
		stormlab.PolicyAWS,
	} {
		assert.Contains(t, shown, kind)
	}
}

// The document has a scenario that loads, and names every key of the file.
func TestDocument(t *testing.T) {
	_, err := stormlab.Load(documented(t), "ours.yaml")
	require.NoError(t, err)
	text := document(t)
	capital := regexp.MustCompile(`\B[A-Z]`)
	for _, part := range []any{
		stormlab.Scenario{}, stormlab.Service{}, stormlab.Call{}, stormlab.Latency{}, stormlab.Traffic{}, stormlab.Fault{}, stormlab.Variant{}, stormlab.Policy{}, stormlab.Threshold{},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(part)) {
			key := strings.ToLower(capital.ReplaceAllString(f.Name, "_$0"))
			assert.Regexp(t, "[`{ ]"+key+"[`: ]", text, "%T", part)
		}
	}
}
