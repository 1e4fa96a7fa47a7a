package main_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

var update = flag.Bool("update", false, "write docs/sample-catalog/runbook.md")

// The sample's runbook is what the command prints.
func TestRunbook_of_the_sample(t *testing.T) {
	r := command(t, sample(t), "runbook", "catalog")
	require.Equal(t, 0, r.exit, r)
	file := filepath.Join(sample(t), "runbook.md")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(r.stdout), 0o600))
	}
	assert.Equal(t, text(t, file), r.stdout, "go test -run Runbook . -update")
}

// Each step's text, put into the file that the runbook names, disables what the steps so far say, and nothing else; the last
// but one disables all, and the last is what there was before.
func TestRunbook_steps_can_be_taken(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(sample(t))))
	file := filepath.Join(dir, "catalog", "overrides.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog", "more.yaml"), []byte("version: 1\ndependencies: {\"no: 7\": {profile: background}}\n"), 0o600))
	require.NoError(t, os.WriteFile(file, []byte("version: 1\noverrides: {dependencies: {rates: {retries: disabled}}}\n"), 0o600))
	before, err := profiles.LoadFile(filepath.Join(dir, "catalog"))
	require.NoError(t, err)

	page := command(t, dir, "runbook", "catalog").stdout
	blocks := yamlBlock.FindAllStringSubmatch(page, -1)
	want := map[string]bool{"rates": true}
	steps := order(page)
	require.Equal(t, []string{"search", "no: 7", "payments"}, steps)
	require.Len(t, blocks, len(steps)+2)
	load := func(i int) *profiles.Catalog {
		require.NoError(t, os.WriteFile(file, []byte(blocks[i][1]), 0o600))
		c, err := profiles.LoadFile(filepath.Join(dir, "catalog"))
		require.NoError(t, err, blocks[i][1])
		assert.Empty(t, c.Warnings)
		return c
	}
	for i, name := range steps {
		want[name] = true
		c := load(i)
		assert.Equal(t, want, c.Overrides.Dependencies)
		assert.False(t, c.Overrides.RetriesDisabled)
	}
	assert.True(t, load(len(steps)).Overrides.RetriesDisabled)
	assert.Equal(t, before.Digest(), load(len(steps)+1).Digest())
	assert.Contains(t, page, "- rates: its retries are disabled already\n")
}

// order returns the dependencies of a runbook's table.
func order(page string) (list []string) {
	for _, m := range regexp.MustCompile(`(?m)^\| \d+ \| ([^|]+) \|`).FindAllStringSubmatch(page, -1) {
		list = append(list, m[1])
	}
	return list
}

// Each dependency comes before the next by one part of the rule.
func TestRunbook_order(t *testing.T) {
	const head = `version: 1
chain: {budget: 9, max_budget: 9}
profiles:
  endless: {extends: read-heavy, budget: disabled}
  endless-two: {extends: endless, retry: {max_attempts: 3}}
  by-requests: {extends: read-heavy, budget: {fund: requests, ratio: 20%}}
  reserve: {extends: read-heavy, budget: {kind: reserve, ratio: 10%, ttl: 10s, min_per_second: 5}}
  by-requests-ten: {extends: read-heavy, budget: {fund: requests, ratio: 10%}}
  large: {extends: read-heavy, budget: {burst: 50}}
  hedging: {extends: read-heavy, hedge: {after: 50ms, max: 1}}
  batch: {extends: background, retry: {max_attempts: 4}}
  two: {extends: read-heavy, retry: {max_attempts: 2}}
`
	lines := []string{
		`a-endless: {profile: endless, on_failure: closed}`,
		`b-endless-two: {profile: endless-two, on_failure: open}`,
		`c-by-requests: {profile: by-requests}`,
		`d-reserve: {profile: reserve}`,
		`e-by-requests-ten: {profile: by-requests-ten}`,
		`f-large: {profile: large, on_failure: closed}`,
		`g-open: {profile: read-heavy, on_failure: open}`,
		`h-batch: {profile: batch, on_failure: closed}`,
		`i-hedging: {profile: hedging}`,
		`j-plain: {profile: read-heavy}`,
		`k-two: {profile: two}`,
		`l-two: {profile: two}`,
		`m-closed: {profile: read-heavy, on_failure: closed}`,
		`n-in-code: {on_failure: open}`,
		`o-none: {profile: no-retry}`,
		`p-bypass: {profile: read-heavy, mode: bypass}`,
	}
	// Given in another order: names must not decide what the rule does.
	var given strings.Builder
	given.WriteString(head + "dependencies:\n")
	renamed := map[string]string{}
	for i := range lines {
		line := lines[len(lines)-1-i]
		name, rest, _ := strings.Cut(line, ":")
		alias := string(rune('a'+i)) + "-x"
		if name == "k-two" || name == "l-two" { // which only their names tell apart
			alias = "a-" + name
		}
		renamed[alias] = name
		given.WriteString("  " + alias + ":" + rest + "\n")
	}
	dir := folder(t, map[string]string{"c.yaml": given.String()})
	r := command(t, dir, "runbook", "c.yaml")
	require.Equal(t, 0, r.exit, r)
	var got []string
	for _, alias := range order(r.stdout) {
		got = append(got, renamed[alias])
	}
	want := slices.Sorted(maps.Values(renamed))
	assert.Equal(t, want[:14], got)
	assert.Equal(t, 2, strings.Count(r.stdout, "\n- "), "what is not retried is not in the list")
	for _, why := range []string{
		"in an outage: 3 for each call, so they go on;", "20 % of requests, so they go on", "10 % of requests and 5 a second, so they go on",
		"in an outage: at most 50, so they end (in each process)", "it hedges before anything has failed", "nobody waits for it", "its callers answer without it",
		"code names its profile", "its failure fails its callers",
	} {
		assert.Contains(t, r.stdout, why)
	}
}

func TestRunbook_without_anything_to_disable(t *testing.T) {
	dir := folder(t, map[string]string{
		"none.yaml": "version: 1\n",
		"off.yaml":  "version: 1\ndependencies: {payments: {profile: write-path}}\noverrides: {retries: disabled}\n",
		"bad.yaml":  bad,
	})
	for _, name := range []string{"none.yaml", "off.yaml"} {
		r := command(t, dir, "runbook", name)
		assert.Equal(t, 0, r.exit, r)
		assert.Contains(t, r.stdout, "There is nothing to disable")
		assert.NotContains(t, r.stdout, "## Step")
	}
	assert.Equal(t, 1, command(t, dir, "runbook", "bad.yaml").exit)
	assert.Equal(t, 2, command(t, dir, "runbook").exit)
	assert.Equal(t, 2, command(t, dir, "runbook", "nowhere.yaml").exit)
	assert.Equal(t, 2, command(t, dir, "runbook", "none.yaml", "off.yaml").exit)
}
