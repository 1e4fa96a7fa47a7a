package report

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// loads matches what stands before an address that makes a browser ask another host: an attribute or property that
// loads, an import, a fetch and its like, a url of a style sheet.
var loads = regexp.MustCompile(`(?i)(?:\b(?:src|srcset|href|action|data|poster|cite)\s*[=:]\s*\\?["'\x60]?\s*|\bimport\s*\(?\s*["'\x60]|\bfrom\s*["'\x60]|\b(?:fetch|open|importScripts|Worker|WebSocket|EventSource|sendBeacon)\s*\(\s*["'\x60]|url\(\s*["']?)(?:(?:https?|wss?):)?$`)

// absolute returns the first absolute address that would be loaded, with what stands around it.
func absolute(text string) (found string, ok bool) {
	if at := strings.Index(strings.ToLower(text), "@import"); at >= 0 {
		return text[at:min(at+60, len(text))], true
	}
	for at := 0; ; at += 2 {
		i := strings.Index(text[at:], "//")
		if i < 0 {
			return "", false
		}
		at += i
		if loads.MatchString(text[max(0, at-60):at]) {
			return text[max(0, at-60):min(at+60, len(text))], true
		}
	}
}

func example() Data {
	side := func(name string) incident.Side {
		return incident.Side{
			Name: name, Services: []incident.ServiceCounts{{Name: "grab", Received: 7, OK: 6}, {Name: "go", Received: 5, OK: 4}},
			Ticks: []incident.Tick{
				{At: 0, Offered: 50, Load: 50, Served: 50, P95: 21, P95OK: 21, Breakers: map[string]string{"grab": "none", "go": "closed"}},
				{At: 0.25, Offered: 50, Load: 210, Retries: 160, P95: 2100, Breakers: map[string]string{"grab": "none", "go": "half_open"}},
			},
		}
	}
	return Data{
		Complete: true, Warnings: []string{`</script><img src=x>`},
		Chains: []chain.Result{{
			Title: "Two services", Nodes: []string{"A", "B"}, Failing: "B",
			Counts: []chain.Count{{Policy: "naive", Note: "a loop", Roots: 2, Requests: []int64{2, 4}, Total: 6}},
		}},
		Incident: &incident.Result{
			Rate: 200, Workers: 5, Seconds: 0.5, FaultFrom: 0.25, FaultTo: 0.5, Complete: true, Before: side("before"), After: side("after"),
			Targets: []incident.Target{{What: "load", Want: "less", Got: "more", Met: false}},
		},
	}
}

func render(t *testing.T, d Data) string {
	t.Helper()
	text, err := Render(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReportNeedsNoNetwork(t *testing.T) {
	text := render(t, example())
	if found, ok := absolute(text); ok {
		t.Errorf("the report has an absolute address: %q", found)
	}
	if strings.Contains(strings.Replace(text, `<link rel="icon" href="data:,">`, "", 1), "<link") || strings.Contains(text, "<script src") {
		t.Error("the report loads a second file")
	}
	for _, bad := range []string{`<script src="https://x.example/a.js">`, `<a href='//x.example'>`, `import("https://x.example")`, `import 'https://x'`, `fetch("//x.example")`, `url(http://x)`, `img.src = "https://x"`, `@IMPORT "x.css"`, `import a from "https://x"`} {
		if _, ok := absolute("<p>// text</p>" + bad); !ok {
			t.Errorf("%s is not seen", bad)
		}
	}
	if found, ok := absolute(`xmlns="http://www.w3.org/2000/svg" // https://x.example <p>see http://x.example</p>`); ok {
		t.Errorf("%q loads nothing", found)
	}
}

func TestReportIsAccessible(t *testing.T) {
	text := render(t, example())
	for _, want := range []string{
		`<html lang="en">`, "<title>", `name="viewport"`, "<h1>", "<h2", `content="light dark"`, "prefers-color-scheme: dark", "<caption>", `scope="row"`, "<noscript>",
		`id="chain-0" role="img" aria-label="Lines, one per policy`, `id="load-before" role="img" aria-label="Load, before.`, "Grab has no breaker.", "✗ missed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not have %q", want)
		}
	}
	// Every chart has its place, and every place its chart.
	options := optionsOf(t, text)
	for id := range options {
		if strings.Count(text, `id="`+id+`"`) != 1 {
			t.Errorf("chart %s has no place, or several", id)
		}
	}
	if places := strings.Count(text, `class="chart`); places != len(options) {
		t.Errorf("%d places for %d charts", places, len(options))
	}
	if strings.Contains(text, "<img src=x>") {
		t.Error("text from outside was not escaped")
	}
}

func optionsOf(t *testing.T, text string) (options map[string]json.RawMessage) {
	t.Helper()
	_, rest, _ := strings.Cut(text, "const stormOptions = ")
	line, _, _ := strings.Cut(rest, "\n")
	if err := json.Unmarshal([]byte(strings.TrimSuffix(line, ";")), &options); err != nil {
		t.Fatal(err)
	}
	return options
}

func TestChartsHaveTheNumbers(t *testing.T) {
	options := optionsOf(t, render(t, example()))
	for id, want := range map[string]string{
		"chain-0":        `"value":2`,
		"load-before":    `"value":[0.25,840]`,
		"latency-after":  `"value":[0.25,null]`, // no success, no p95
		"retries-before": `"value":[0.25,640]`,
	} {
		if !strings.Contains(string(options[id]), want) {
			t.Errorf("chart %s does not have %s: %s", id, want, options[id])
		}
	}
}

func TestReportOfNothing(t *testing.T) {
	text := render(t, Data{})
	if !strings.Contains(text, "interrupted") || strings.Contains(text, "Grab and Go") {
		t.Error("an empty report does not say that the run was interrupted, or has an incident")
	}
}

func TestCeiling(t *testing.T) {
	for top, want := range map[float64]float64{0.5: 1, 1: 1, 3: 5, 21: 25, 26: 50, 840: 1000, 1001: 2000} {
		if got := ceiling(top); got != want {
			t.Errorf("ceiling(%v) = %v, want %v", top, got, want)
		}
	}
}
