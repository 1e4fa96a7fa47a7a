package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// labelled are the labels of a metric.
type labelled map[string]bool

var (
	// instrument is a line of the table of docs/metrics.md, which a test holds to the code: the name in Prometheus and the
	// attributes.
	instrument = regexp.MustCompile("(?m)^\\| `chainbudget\\.[a-z_.]+` `(chainbudget_[a-z_]+)` \\| [^|]+ \\| ([^|]*) \\|")
	// attribute is a line of its table of attributes: the name and the words that say what values there are.
	attribute = regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| (.*) \\|$")
)

// document is docs/metrics.md.
func document(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// everywhere are the labels that a scrape adds to all metrics.
var everywhere = []string{"cluster", "environment", "instance", "job"}

// metrics are the SDK's, with what Prometheus says of alerts.
func metrics(t *testing.T) map[string]labelled {
	t.Helper()
	all := map[string]labelled{"ALERTS": {"alertname": true, "alertstate": true}}
	for _, match := range instrument.FindAllStringSubmatch(document(t), -1) {
		labels := labelled{"chainbudget_service": true}
		for _, name := range strings.Split(match[2], ",") {
			switch name = strings.TrimSpace(name); name {
			case "":
			case "le":
				labels[name] = true
			default:
				labels["chainbudget_"+name] = true
			}
		}
		all[match[1]] = labels
	}
	if len(all) < 30 {
		t.Fatalf("%d metrics found in docs/metrics.md, there are more", len(all))
	}
	return all
}

// A metric or a label that does not exist is no error to Prometheus: the panel is empty, and the alert never fires.
func TestNamesExist(t *testing.T) {
	known, p := metrics(t), parser.NewParser(parser.Options{})
	var fromRules []rule
	for _, r := range rules(t) {
		if r.Record != "" {
			fromRules = append(fromRules, r)
		}
	}
	// What a rule records has the labels that it groups by, and those of what it is made of. A rule stands below those that it
	// uses.
	for _, r := range fromRules {
		expr, err := p.ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		known[r.Record] = check(t, r.Record, expr, known)
	}
	for _, e := range expressions(t) {
		expr, err := p.ParseExpr(e.text)
		if err != nil {
			t.Fatal(err)
		}
		labels := check(t, e.where, expr, known)
		for _, name := range e.labels {
			if !labels[name] && !slices.Contains(everywhere, name) {
				t.Errorf("%s: it writes the label %s, which %s does not have", e.where, name, e.text)
			}
		}
	}
}

// check looks every name of an expression up, and returns the labels that its result may have.
func check(t *testing.T, where string, expr parser.Expr, known map[string]labelled) labelled {
	t.Helper()
	inside := labelled{}
	var result labelled
	use := func(names []string) {
		for _, name := range names {
			if !inside[name] && !slices.Contains(everywhere, name) {
				t.Errorf("%s: nothing in %s has the label %s", where, expr, name)
			}
		}
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		labels, ok := known[selector.Name]
		if !ok {
			t.Errorf("%s: there is no metric %s", where, selector.Name)
		}
		maps.Copy(inside, labels)
		for _, m := range selector.LabelMatchers {
			if m.Name == "__name__" {
				continue
			}
			if !labels[m.Name] && !slices.Contains(everywhere, m.Name) {
				t.Errorf("%s: %s has no label %s", where, selector.Name, m.Name)
			}
			checkValue(t, where, m.Name, m.Value)
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			use(node.Grouping)
			if result == nil && !node.Without { // the outermost one decides
				result = labelled{}
				for _, name := range node.Grouping {
					result[name] = true
				}
			}
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				use(node.VectorMatching.MatchingLabels)
			}
		}
		return nil
	})
	if _, outermost := expr.(*parser.AggregateExpr); outermost {
		return result
	}
	// Below an operator or a function there may be several; the result has labels of one of them at least.
	return inside
}

// closed are the attributes of which docs/metrics.md lists all values.
var closed = []string{"claim", "kind", "mode", "outcome", "source", "state"}

// checkValue looks up a word that a label is compared with, where all of them are known.
func checkValue(t *testing.T, where, label, value string) {
	t.Helper()
	short, ours := strings.CutPrefix(label, "chainbudget_")
	if !ours || strings.HasPrefix(value, "$") {
		return
	}
	if short == "reason" {
		if _, err := os.Stat("../docs/denied/" + value + ".md"); err != nil {
			t.Errorf("%s: no refusal has the reason %q", where, value)
		}
		return
	}
	for _, match := range attribute.FindAllStringSubmatch(document(t), -1) {
		if match[1] == short && slices.Contains(closed, short) && !strings.Contains(match[2], "`"+value+"`") {
			t.Errorf("%s: %s is never %q", where, label, value)
		}
	}
}
