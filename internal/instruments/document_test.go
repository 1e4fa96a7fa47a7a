package instruments

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md instead of comparing with it (make instruments)")

const document = "../../docs/metrics.md"

// prometheus is the name that Prometheus' exporter of OpenTelemetry makes of an instrument's; a test of examples/metrics
// compares it with what the exporter really says.
func (i *Instrument) prometheus() string {
	name := strings.ReplaceAll(i.Name, ".", "_")
	if i.Unit == "s" {
		name += "_seconds"
	}
	switch {
	case i.Sort == Counter:
		name += "_total"
	case i.Sort == Gauge && i.Unit == "1":
		name += "_ratio"
	}
	return name
}

// rendered is the table of the document.
func rendered(t *testing.T) string {
	rules := readRules(t)
	var b strings.Builder
	b.WriteString("| name, and in Prometheus | kind, unit | attributes | what it counts, and when it moves | alerts |\n|---|---|---|---|---|\n")
	for i := range table {
		line := &table[i]
		attributes := make([]string, len(line.Attributes))
		for i, key := range line.Attributes {
			attributes[i] = strings.TrimPrefix(string(key), "chainbudget.")
		}
		var alerts []string
		for _, alert := range rules.alerts {
			if rules.asks(alert, line.prometheus()) {
				alerts = append(alerts, strings.TrimPrefix(alert, "Chainbudget"))
			}
		}
		fmt.Fprintf(&b, "| `%s` `%s` | %s, `%s` | %s | %s | %s |\n", line.Name, line.prometheus(), line.Sort, line.Unit,
			strings.Join(attributes, ", "), line.Moves, strings.Join(alerts, ", "))
	}
	return b.String()
}

// What operators read is what the code does. make instruments writes the table.
func TestDocument_of_the_instruments_is_recorded(t *testing.T) {
	data, err := os.ReadFile(document)
	require.NoError(t, err)
	const begin, end = "<!-- begin: make instruments -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(string(data), begin)
	written, after, closed := strings.Cut(rest, end)
	require.True(t, ok && closed, "the marks around the table")
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(before+begin+rendered(t)+end+after), 0o644))
		return
	}
	assert.Equal(t, rendered(t), written, "run make instruments")
	for _, line := range table {
		for _, key := range line.Attributes {
			assert.Contains(t, after, "| `"+strings.TrimPrefix(string(key), "chainbudget.")+"` |", "%s has an attribute whose values the document does not list", line.Name)
		}
	}
}

// Each name is one, in the namespace, with all that a reader needs.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for i, line := range Table() {
		assert.NotEmpty(t, line.Name, "instrument %d", i)
		assert.False(t, names[line.Name], "%s is there twice", line.Name)
		names[line.Name] = true
		assert.True(t, strings.HasPrefix(line.Name, "chainbudget."), line.Name)
		assert.Regexp(t, `^(1|s|\{[a-z]+\})$`, line.Unit, line.Name)
		assert.Regexp(t, `^[A-Z0-9].*\.$`, line.Moves, line.Name)
		assert.NotContains(t, line.Attributes, otelprop.AttrService, "every instrument has it")
		for n, key := range line.Attributes {
			assert.True(t, strings.HasPrefix(string(key), "chainbudget.") || key == otelprop.AttrWithin, "%s has %s", line.Name, key)
			assert.Equal(t, n, slices.Index(line.Attributes, key), "%s has %s twice", line.Name, key)
		}
	}
}

// shipped are the rules of dashboards: what each alert and each recorded rule asks for, and the alerts in their order.
type shipped struct {
	expressions map[string]string
	alerts      []string
}

var (
	comment = regexp.MustCompile(`(?m)^ *#.*$`)
	rule    = regexp.MustCompile(`(?m)^ *- (alert|record): (\S+)$`)
	word    = regexp.MustCompile(`[a-z][a-zA-Z0-9_:]+`)
)

func readRules(t *testing.T) shipped {
	t.Helper()
	s := shipped{expressions: map[string]string{}}
	for _, file := range []string{"recording", "alerts"} {
		data, err := os.ReadFile("../../dashboards/prometheus/" + file + ".rules.yaml")
		require.NoError(t, err)
		text := comment.ReplaceAllString(string(data), "")
		found := rule.FindAllStringSubmatchIndex(text, -1)
		for i, at := range found {
			end := len(text)
			if i+1 < len(found) {
				end = found[i+1][0]
			}
			name := text[at[4]:at[5]]
			s.expressions[name] += text[at[1]:end]
			if text[at[2]:at[3]] == "alert" && !slices.Contains(s.alerts, name) {
				s.alerts = append(s.alerts, name)
			}
		}
	}
	require.Greater(t, len(s.alerts), 5)
	return s
}

// asks reports whether a rule asks for a metric, by itself or through another rule.
func (s *shipped) asks(name, metric string) bool {
	for _, w := range word.FindAllString(s.expressions[name], -1) {
		if w == metric || w != name && s.expressions[w] != "" && s.asks(w, metric) {
			return true
		}
	}
	return false
}
