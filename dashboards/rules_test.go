package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rule is a line of a rule file.
type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

// rules reads all rule files.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	for _, name := range ruleFiles(t) {
		var file struct{ Groups []struct{ Rules []rule } }
		read(t, name, &file)
		for _, group := range file.Groups {
			all = append(all, group.Rules...)
		}
	}
	return all
}

func ruleFiles(t *testing.T) []string { return glob(t, "prometheus/*.rules.yaml") }
func ruleTests(t *testing.T) []string { return glob(t, "prometheus/tests/*.test.yaml") }

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	return names
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Prometheus' own program says whether the rules are rules, and whether they say what their tests expect.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing: it comes with Prometheus. Install it: apt-get install prometheus, or brew install prometheus")
	}
	for _, args := range [][]string{
		append([]string{"check", "rules"}, ruleFiles(t)...),
		append([]string{"test", "rules"}, ruleTests(t)...),
	} {
		t.Run(args[0], func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
				t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		})
	}
}

// Each rule has a test, and each alert two: where it fires and where it does not.
func TestEveryRuleIsTested(t *testing.T) {
	fires, silent, evaluated := map[string]bool{}, map[string]bool{}, ""
	for _, name := range ruleTests(t) {
		var file struct {
			Tests []struct {
				Alerts []struct {
					Name   string `yaml:"alertname"`
					Expect []struct {
						Annotations map[string]string `yaml:"exp_annotations"`
					} `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
				Expressions []struct{ Expr string } `yaml:"promql_expr_test"`
			}
		}
		read(t, name, &file)
		for _, test := range file.Tests {
			for _, alert := range test.Alerts {
				silent[alert.Name] = silent[alert.Name] || len(alert.Expect) == 0
				for _, one := range alert.Expect {
					fires[one.Annotations["runbook_url"]+" "+alert.Name] = true
				}
			}
			for _, expression := range test.Expressions {
				evaluated += expression.Expr + "\n"
			}
		}
	}
	for _, r := range rules(t) {
		switch {
		case r.Alert == "":
			// What stands below another rule is tested with it.
			if !strings.Contains(evaluated, r.Record) && !slices.ContainsFunc(rules(t), func(above rule) bool { return strings.Contains(above.Expr, r.Record) }) {
				t.Errorf("no test asks for %s", r.Record)
			}
		case !fires[r.Annotations["runbook_url"]+" "+r.Alert]:
			t.Errorf("no test shows where %s (%s) fires", r.Alert, r.Annotations["summary"])
		case !silent[r.Alert]:
			t.Errorf("no test shows where %s does not fire", r.Alert)
		}
	}
}

// Who is woken by an alert gets a sentence, and a page of this repository.
func TestAlertsLeadSomewhere(t *testing.T) {
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		for _, name := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		checkLink(t, r.Alert, r.Annotations["runbook_url"])
	}
}

// checkLink finds the file that a link to the repository leads to.
func checkLink(t *testing.T, who, link string) {
	t.Helper()
	file, ours := strings.CutPrefix(link, "https://github.com/chainbudget/chainbudget-go/blob/main/")
	if _, err := os.Stat(filepath.Join("..", file)); !ours || errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s leads to %s, which is no file of this repository", who, link)
	}
}
