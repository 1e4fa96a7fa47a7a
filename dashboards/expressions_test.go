package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// expression is one of the dashboard, of the rules or of the runbook, with the labels that are written out beside it.
type expression struct {
	where, text string
	labels      []string
}

// written is a label in the legend of a query, or in the text of an alert.
var written = regexp.MustCompile(`\{\{ *(?:\$labels\.)?([a-z_]+) *\}\}`)

func labelsIn(texts ...string) (names []string) {
	for _, text := range texts {
		for _, match := range written.FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
	}
	return names
}

// expressions collects all of them. What Grafana puts in is replaced by what it could be.
func expressions(t *testing.T) (all []expression) {
	t.Helper()
	for _, r := range rules(t) {
		all = append(all, expression{r.Record + r.Alert, r.Expr, labelsIn(r.Annotations["summary"], r.Annotations["description"])})
	}
	data, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	before := len(all)
	var walk func(any, string)
	walk = func(node any, title string) {
		switch node := node.(type) {
		case map[string]any:
			if text, ok := node["title"].(string); ok {
				title = text
			}
			for key, value := range node {
				if text, ok := value.(string); ok && key == "expr" {
					legend, _ := node["legendFormat"].(string)
					all = append(all, expression{"the panel " + title, strings.ReplaceAll(text, "$__rate_interval", "1m"), labelsIn(legend)})
				}
				if text, ok := value.(string); ok && key == "query" {
					if inner, ok := strings.CutPrefix(text, "label_values("); ok {
						metric, label, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
						all = append(all, expression{"a variable", "count by (" + label + ") (" + metric + ")", []string{label}})
					}
				}
				walk(value, title)
			}
		case []any:
			for _, value := range node {
				walk(value, title)
			}
		}
	}
	walk(document, "")
	if n := len(all) - before; n < 20 {
		t.Fatalf("%d expressions found in the dashboard, it has more", n)
	}
	page, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	before = len(all)
	for _, m := range regexp.MustCompile("`([^`\n]*chainbudget[_:][^`\n]*)`").FindAllStringSubmatch(string(page), -1) {
		all = append(all, expression{where: "docs/runbook.md", text: m[1]})
	}
	if n := len(all) - before; n < 10 {
		t.Fatalf("%d expressions found in docs/runbook.md, it has more", n)
	}
	return all
}

func TestExpressionsParse(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	for _, e := range expressions(t) {
		if _, err := p.ParseExpr(e.text); err != nil {
			t.Errorf("%s: %v\n%s", e.where, err, e.text)
		}
	}
}
