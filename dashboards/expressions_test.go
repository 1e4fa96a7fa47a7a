package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// expression is one of the dashboard or of the rules.
type expression struct{ where, text string }

// expressions collects all of them. What Grafana puts in is replaced by what it could be.
func expressions(t *testing.T) (all []expression) {
	t.Helper()
	for _, r := range rules(t) {
		all = append(all, expression{r.Record + r.Alert, r.Expr})
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
					all = append(all, expression{"the panel " + title, strings.ReplaceAll(text, "$__rate_interval", "1m")})
				}
				if text, ok := value.(string); ok && key == "query" {
					if inner, ok := strings.CutPrefix(text, "label_values("); ok {
						metric, label, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
						all = append(all, expression{"a variable", "count by (" + label + ") (" + metric + ")"})
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
