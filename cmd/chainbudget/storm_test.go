package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

const ledgerDown = `version: 1
duration: 2s
services:
  - {name: shop, calls: [ledger]}
  - {name: ledger, failure: 100%}
traffic:
  - {to: shop, rate: 50, even: true}
variants:
  - {name: before, policy: {kind: naive, attempts: 4}}
  - {name: after}
expect:
  - {metric: load, service: ledger, variant: before, min: 4, max: 4}
  - {metric: load, service: ledger, variant: after, max: 1.2}
`

func TestStormRun(t *testing.T) {
	dir := folder(t, map[string]string{
		"ledger-down.yaml": ledgerDown,
		"strict.yaml":      ledgerDown + "  - {metric: success, min: 99%}\n",
		"shows.yaml":       ledgerDown + "  - {metric: load, service: ledger, variant: before, min: 4, shows: \"four <attempts>\"}\n  - {metric: success, variant: after, min: 1, shows: all is well}\n",
		"times.yaml":       ledgerDown + "  - {metric: success, variant: after, from: 1s, max: 1%}\n  - {metric: load, service: ledger, variant: before, from: 500ms, until: 1.5s, min: 4}\nfaults:\n  - {kind: cut, service: ledger, caller: shop, share: 0.01%, from: 1s}\n",
		"nothing.yaml": strings.Replace(ledgerDown[:strings.Index(ledgerDown, "expect:")], "even: true}", "even: true, until: 1s}", 1) + `expect:
  - {metric: success, from: 1s, max: 20%}
  - {metric: load, service: ledger, from: 1s, max: 20}
  - {metric: retries, from: 1s, max: 20}
  - {metric: radius, from: 1s, max: 20}
  - {metric: mean_radius, from: 1s, max: 20}
  - {metric: p95, from: 1s, max: 20s}
`,
		"bad.yaml": "version: 1\nduration: 2\n",
		"old.yaml": "version: 1\n", "new.yaml": "version: 1\ndependencies: {ledger: {profile: read-heavy}}\noverrides: {retries: disabled}\n",
	})
	t.Run("table", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "ledger-down.yaml")
		assert.Equal(t, 0, r.exit, r)
		assert.Contains(t, r.stdout, "ledger-down: 2s of traffic, seed 0\n\nvariant  requests  success  retries/request  radius       p50")
		assert.Contains(t, r.stdout, "\nbefore   100       0.00 %   3.000 ")
		assert.Regexp(t, `\nledger   4\.000   (0|1)\.\d+\n`, r.stdout)
		assert.Regexp(t, `\nrefused in after: (\w+ \d+, )*breaker_open \d+`, r.stdout)
		assert.NotContains(t, r.stdout, "refused in before", "it has no gates")
		assert.Contains(t, r.stdout, "\nok  before  load of ledger  4.000, at least 4.000, at most 4.000\n")
		assert.Equal(t, "ledger-down: running 2 variants, 2s of traffic each: about 100 requests, and 100 calls if nothing fails\n", r.stderr)
	})
	t.Run("json_is_the_same_in_another_process", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "ledger-down.yaml", "--format", "json")
		assert.Equal(t, 0, r.exit, r)
		var result stormlab.Result
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &result))
		require.Len(t, result.Variants, 2)
		assert.EqualValues(t, 100, result.Variants[0].Sent)
		assert.Equal(t, r.stdout, command(t, dir, "storm", "run", "ledger-down.yaml", "--format", "json").stdout)
		assert.NotEqual(t, r.stdout, command(t, dir, "storm", "run", "ledger-down.yaml", "--format", "json", "--seed", "9").stdout)
	})
	t.Run("missed_threshold", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "strict.yaml")
		assert.Equal(t, 1, r.exit, r)
		assert.Contains(t, r.stdout, "\nMISSED  before  success         0.00 %, at least 99.00 %\n")
	})
	t.Run("what_it_shows_is_said_on_top", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "shows.yaml", "--report", "shows.html")
		assert.Equal(t, 1, r.exit, r)
		assert.Contains(t, r.stdout, "\n\nbefore: four <attempts> (load of ledger 4.000)\nafter: NOT SHOWN here: all is well (success 0.00 %, at least 100.00 %)\n\n")
		page := text(t, dir, "shows.html")
		assert.Contains(t, page, "before: four &lt;attempts&gt; (load of ledger 4.000)</li>")
		assert.Contains(t, page, `after: <span class="missed">NOT SHOWN here: all is well`)
		r = command(t, dir, "storm", "run", "shows.yaml", "--format", "json")
		assert.Contains(t, r.stdout, `"shows": "all is well"`)
	})
	t.Run("no_latency_of_nothing", func(t *testing.T) {
		assert.Regexp(t, `\nbefore +100 +0\.00 % +3\.000 +1\.00, max 1 +– +– +–\n`, command(t, dir, "storm", "run", "ledger-down.yaml").stdout)
	})
	t.Run("a_threshold_says_when", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "times.yaml", "--report", "times.html")
		assert.Equal(t, 0, r.exit, r)
		assert.Regexp(t, `\nok  after   success from 1s +0\.00 %, at most 1\.00 %\n`, r.stdout)
		assert.Contains(t, r.stdout, "\nok  before  load of ledger from 500ms until 1.5s  4.000, at least 4.000\n")
		assert.Contains(t, text(t, dir, "times.html"), "<td>load of ledger from 500ms until 1.5s</td>")
		assert.Contains(t, text(t, dir, "times.html"), "Fault: cut at ledger for shop, 0.01 % of requests, from 1s to the end.")
	})
	t.Run("a_threshold_on_nothing_is_missed", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "nothing.yaml", "--report", "nothing.html")
		assert.Equal(t, 1, r.exit, r)
		assert.Equal(t, 6*2, strings.Count(r.stdout, "no value, at most "), r.stdout)
		assert.NotRegexp(t, `\nok `, r.stdout)
		assert.Equal(t, 6*2, strings.Count(text(t, dir, "nothing.html"), "<td>no value</td>"))
		r = command(t, dir, "storm", "run", "nothing.yaml", "--format", "json")
		assert.Equal(t, 6*2, strings.Count(r.stdout, `"measured": null`), r.stdout)
		var result stormlab.Result
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &result))
		assert.False(t, result.Pass())
	})
	t.Run("a_shorter_duration_leaves_no_threshold_behind", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "times.yaml", "--duration", "1s")
		assert.Equal(t, 2, r.exit, r)
		assert.Empty(t, r.stdout)
		assert.Contains(t, r.stderr, "storm run: the scenario does not fit --duration 1s: faults[0].from: 1s is not before the end of the traffic, 1s; ")
		assert.Contains(t, r.stderr, "; expect[2].from: 1s is not before the end of the traffic, 1s; ")
		assert.NotContains(t, r.stderr, "running", "it is said before anything runs")
	})
	t.Run("problems_have_place_and_remedy", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "bad.yaml")
		assert.Equal(t, 1, r.exit, r)
		assert.Contains(t, r.stderr, "bad.yaml:2:11: duration: expected a duration")
	})
	t.Run("catalogs_side_by_side", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "ledger-down.yaml", "--catalog", "old.yaml", "--catalog", "new.yaml", "--format", "json")
		assert.Equal(t, 0, r.exit, r)
		var result stormlab.Result
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &result))
		require.Len(t, result.Variants, 2)
		table := command(t, dir, "storm", "run", "ledger-down.yaml", "--catalog", "old.yaml", "--catalog", "new.yaml").stdout
		assert.Regexp(t, `\n\nrefused in old\.yaml: .+\nrefused in new\.yaml: .+\n\n`, table)
		assert.Equal(t, []string{"old.yaml", "new.yaml"}, []string{result.Variants[0].Name, result.Variants[1].Name})
		assert.NotZero(t, result.Variants[0].Retries)
		assert.Zero(t, result.Variants[1].Retries, "its switch")
		assert.Empty(t, result.Verdicts, "they name variants that are not there")
		assert.Equal(t, 1, strings.Count(r.stderr, "pins a profile for none of the services"), r.stderr)
		assert.Contains(t, r.stderr, "\n2 thresholds left out: they name variants of the scenario\n")
		assert.Contains(t, r.stdout, `"thresholds_left_out": 2`)
		r = command(t, dir, "storm", "run", "strict.yaml", "--catalog", "old.yaml", "--report", "left.html")
		assert.Equal(t, 1, r.exit)
		assert.Contains(t, text(t, dir, "left.html"), "<p>2 thresholds left out: they name variants of the scenario.</p>")
		r = command(t, dir, "storm", "run", "ledger-down.yaml", "--report", "left.html", "--format", "json")
		assert.NotContains(t, r.stdout+r.stderr+text(t, dir, "left.html"), "left out", "nothing is")
		assert.NotContains(t, r.stdout, "left_out")
	})
	t.Run("library", func(t *testing.T) {
		assert.Regexp(t, `\nuber-chain +The published chain of seven services`, command(t, dir, "storm", "list").stdout)
		shown := command(t, dir, "storm", "show", "uber-chain")
		assert.Equal(t, 0, shown.exit)
		_, err := stormlab.Load([]byte(shown.stdout), "shown.yaml")
		assert.NoError(t, err)
		assert.Equal(t, 2, command(t, dir, "storm", "show", "nope").exit)
		r := command(t, dir, "storm", "run", "nope")
		assert.Equal(t, 2, r.exit)
		assert.Contains(t, r.stderr, `storm run: there is no file "nope", and no scenario of the library has that name; "chainbudget storm list" lists those that it has`)
		r = command(t, dir, "storm", "run", "no/file.yaml")
		assert.Equal(t, 2, r.exit)
		assert.Contains(t, r.stderr, `there is no file "no/file.yaml", and no scenario of the library has that name; "chainbudget storm list" `)
		assert.Equal(t, 0, command(t, dir, "storm", "run", "fetchers").exit)
	})
	t.Run("draft", func(t *testing.T) {
		dir := folder(t, map[string]string{"edges.csv": "shop,cart\ncart,ledger,0.5\n", "bad.csv": "shop\n"})
		r := command(t, dir, "storm", "draft", "edges.csv")
		assert.Equal(t, 0, r.exit, r)
		s, err := stormlab.Load([]byte(r.stdout), "ours.yaml")
		require.NoError(t, err)
		assert.Len(t, s.Services, 3)
		bad := command(t, dir, "storm", "draft", "bad.csv")
		assert.Equal(t, 1, bad.exit)
		assert.Contains(t, bad.stderr, "bad.csv:1:1: is no call; ")
		none := command(t, dir, "storm", "draft", "none.csv")
		assert.Equal(t, 2, none.exit)
		assert.Contains(t, none.stderr, "storm draft: the list of calls cannot be read: open none.csv: ")
	})
	t.Run("draft_of_standard_input", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), binary, "storm", "draft", "-")
		cmd.Stdin = strings.NewReader("shop,cart\n")
		drafted, err := cmd.Output()
		require.NoError(t, err)
		s, err := stormlab.Load(drafted, "ours.yaml")
		require.NoError(t, err)
		assert.Len(t, s.Services, 2)
		cmd = exec.CommandContext(t.Context(), binary, "storm", "draft", "-")
		cmd.Stdin = strings.NewReader("shop,shop\n")
		said, err := cmd.CombinedOutput()
		assert.Error(t, err)
		assert.Contains(t, string(said), "stdin:1:1: \"shop\" calls itself")
	})
	t.Run("draft_at_random", func(t *testing.T) {
		r := command(t, dir, "storm", "draft", "--random", "--services", "20", "--seed", "4")
		assert.Equal(t, 0, r.exit, r)
		s, err := stormlab.Load([]byte(r.stdout), "drawn.yaml")
		require.NoError(t, err)
		assert.Len(t, s.Services, 20)
		assert.NotEqual(t, r.stdout, command(t, dir, "storm", "draft", "--random", "--services", "20", "--seed", "5").stdout)
		for _, tt := range []struct{ want, args string }{
			{"storm draft: --random reads no file: leave out \"e.csv\"", "--random e.csv"},
			{"storm draft: --services and --seed are for a fleet that is drawn: add --random", "e.csv --seed 3"},
			{"storm draft: 0 arguments: name one file, or write --random", ""},
			{"a fleet of 5 services cannot be drawn: use 10 to 1000", "--random --services 5"},
		} {
			r := command(t, dir, append([]string{"storm", "draft"}, strings.Fields(tt.args)...)...)
			assert.Equal(t, 2, r.exit, r)
			assert.Contains(t, r.stderr, tt.want)
		}
	})
	t.Run("report", func(t *testing.T) {
		r := command(t, dir, "storm", "run", "ledger-down.yaml", "--report", "storm.html")
		assert.Equal(t, 0, r.exit, r)
		page := text(t, dir, "storm.html")
		assert.Equal(t, 7+14, strings.Count(page, ` role="img" `), "all variants in one plot, and each by itself")
		assert.Equal(t, 2*(14-2), strings.Count(page, "<polyline "), "one line for each variant; no latency where nothing succeeded")
		assert.Contains(t, page, "<figcaption><span>Latency, 95th percentile of what succeeds</span><span>none</span></figcaption>")
		assert.Contains(t, page, "<figcaption><span>0s</span><span>2s</span></figcaption>")
		assert.Contains(t, page, `aria-label="Load on ledger in requests/s over time. before: at most 200. after: at most `)
		assert.Contains(t, page, "<tr><td>ledger</td><td>4.000</td><td>")
		assert.Contains(t, page, "<p>Refused in after: ")
		assert.NotContains(t, page, "NaN")
		assert.NotContains(t, page, "http", "it needs no network")
		assert.NotContains(t, page, "interrupted")
		for _, path := range []string{"no/such/folder.html", "."} {
			r = command(t, dir, "storm", "run", "ledger-down.yaml", "--report", path)
			assert.Equal(t, 2, r.exit)
			assert.Empty(t, r.stdout)
			assert.Contains(t, r.stderr, "storm run: the report cannot be written: open ")
			assert.NotContains(t, r.stderr, "running", "it is found before the run")
		}
		assert.Equal(t, 1, command(t, dir, "storm", "run", "bad.yaml", "--report", "new.html").exit)
		assert.NoFileExists(t, filepath.Join(dir, "new.html"), "nothing was run")
		assert.Equal(t, 1, command(t, dir, "storm", "run", "bad.yaml", "--report", "storm.html").exit)
		assert.Equal(t, page, text(t, dir, "storm.html"), "a report of before stays")
	})
	t.Run("help_has_examples", func(t *testing.T) {
		for _, of := range []string{"", "run", "list", "show", "draft"} {
			assert.Contains(t, command(t, dir, append([]string{"storm"}, append(strings.Fields(of), "--help")...)...).stdout, "Examples:\n  chainbudget storm ", of)
		}
	})
	t.Run("completion", func(t *testing.T) {
		for _, shell := range []string{"bash", "zsh", "fish"} {
			assert.Contains(t, command(t, dir, "completion", shell).stdout, "chainbudget", shell)
		}
		assert.Contains(t, command(t, dir, "__complete", "storm", "run", "me").stdout, "metastable\n")
		assert.Contains(t, command(t, dir, "__complete", "storm", "run", "le").stdout, "ledger-down.yaml\n", "files, too")
		files := folder(t, map[string]string{"a.yaml": "", "b.yml": "", "c.csv": "", "README.md": "", "sub/d.yaml": ""})
		offered := command(t, files, "__complete", "storm", "run", "").stdout
		for _, name := range []string{"a.yaml\n", "b.yml\n", "sub/\n", "metastable\n"} {
			assert.Contains(t, offered, name)
		}
		assert.NotContains(t, offered, "c.csv")
		assert.NotContains(t, offered, "README.md")
		assert.Contains(t, command(t, files, "__complete", "storm", "run", "sub/").stdout, "sub/d.yaml\n:4\n", "and the shell adds no files of its own")
		assert.Contains(t, command(t, dir, "__complete", "storm", "show", "").stdout, "uber-chain\n")
		assert.Contains(t, command(t, dir, "__complete", "storm", "run", "x", "--format", "").stdout, "json\n")
	})
	t.Run("no_flag_of_tests", func(t *testing.T) {
		assert.NotContains(t, command(t, dir, "storm", "run", "--help").stdout, "test.")
	})
}

// A slip in a rate ends the run soon, with what had happened by then: not after ten minutes, with all memory taken.
func TestStormRun_too_much_under_way(t *testing.T) {
	dir := folder(t, map[string]string{"slip.yaml": `version: 1
duration: 65s
services: [{name: shop, work: 1h}]
traffic: [{to: shop, rate: 1000000}]
variants: [{name: none, policy: {kind: none}}, {name: sdk}]
expect: [{metric: load, service: shop, max: 2}]
`})
	r := command(t, dir, "storm", "run", "slip.yaml", "--report", "slip.html")
	const why = `variant "none": more than 200000 requests and calls were under way at once after 200ms of traffic, 200001 of them waiting at "shop": lower the rate, let its queue hold fewer, or give its callers a timeout`
	assert.Equal(t, 2, r.exit, r)
	assert.Equal(t, "slip: running 2 variants, 1m5s of traffic each: about 65000000 requests, and 0 calls if nothing fails\nstorm run: "+why+": the result is what had happened by then\n", r.stderr)
	assert.Contains(t, r.stdout, "slip: 1m5s of traffic, seed 0, ended early: "+why+"\n")
	assert.Regexp(t, `\nnone +200001 +– +0\.000 `, r.stdout, "none of them has ended")
	assert.Contains(t, text(t, dir, "slip.html"), "<strong>The run ended early: variant &#34;none&#34;: more than 200000 requests and calls ")
	r = command(t, dir, "storm", "run", "slip.yaml", "--format", "json")
	assert.Equal(t, 2, r.exit)
	var result stormlab.Result
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &result))
	assert.Equal(t, why, result.Ended)
	assert.True(t, result.Partial)
}

// An interrupt ends the run, and what had happened by then is printed.
func TestStormRun_interrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("an interrupt cannot be sent to another process there")
		return
	}
	dir := folder(t, map[string]string{"long.yaml": `version: 1
duration: 24h
interval: 1m
services: [{name: shop, calls: [ledger]}, {name: ledger}]
traffic: [{to: shop, rate: 1000}]
variants: [{name: sdk}]
`})
	cmd := exec.CommandContext(t.Context(), binary, "storm", "run", "long.yaml", "--format", "json", "--report", "partial.html")
	var stdout bytes.Buffer
	cmd.Dir, cmd.Stdout = dir, &stdout
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stderr)
	require.True(t, lines.Scan(), "it says when it begins")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.True(t, lines.Scan())
	assert.Contains(t, lines.Text(), "interrupted")
	assert.False(t, lines.Scan(), "nothing follows, no help either")
	exit := (*exec.ExitError)(nil)
	require.True(t, errors.As(cmd.Wait(), &exit))
	assert.Equal(t, 2, exit.ExitCode())
	var result stormlab.Result
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &result))
	assert.True(t, result.Partial)
	require.Len(t, result.Variants, 1)
	assert.Less(t, len(result.Variants[0].Timeline), 24*60, "it ends where the run did")
	assert.Contains(t, text(t, dir, "partial.html"), "<strong>The run ended early: interrupted. This is what had happened by then.</strong>")
}
