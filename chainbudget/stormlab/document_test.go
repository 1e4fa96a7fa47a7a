package stormlab_test

import (
	"os"
	"reflect"
	"regexp"
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
