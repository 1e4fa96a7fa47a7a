package report

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// absolute matches whatever would make a browser ask another host: an address in a src, href or other attribute that
// loads, in an import, a fetch, a worker, or in a style sheet.
var absolute = regexp.MustCompile(`(?i)(?:\b(?:src|srcset|href|action|data|poster|cite)\s*[=:]\s*\\?["']?\s*(?:https?:)?//|\bimport\s*\(?\s*["'](?:https?:)?//|\b(?:fetch|open|importScripts|Worker|WebSocket|EventSource|sendBeacon)\s*\(\s*["'](?:https?:|wss?:)?//|url\(\s*["']?(?:https?:)?//|@import)`)

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
	if found := absolute.FindStringIndex(text); found != nil {
		t.Errorf("the report has an absolute address: %q", text[found[0]:min(found[1]+60, len(text))])
	}
	if strings.Contains(text, "<link") || strings.Contains(text, "<script src") {
		t.Error("the report loads a second file")
	}
	for _, bad := range []string{`<script src="https://x.example/a.js">`, `<a href='//x.example'>`, `import("https://x.example")`, `import 'https://x'`, `fetch("//x.example")`, `url(http://x)`, `img.src = "https://x"`} {
		if !absolute.MatchString(bad) {
			t.Errorf("the pattern does not see %s", bad)
		}
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
