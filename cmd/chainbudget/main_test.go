package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// binary is the command as a user has it.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "chainbudget")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "chainbudget")
		if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

type result struct {
	exit           int
	stdout, stderr string
}

// command runs the binary in a folder, as a user would.
func command(t *testing.T, dir string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// folder makes a folder with files, by path and text.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

const good = `version: 1
profiles:
  payments-write: {extends: write-path, retry: {attempt_timeout: 400ms}}
dependencies:
  payments: {profile: payments-write, owner: team-ledger}
  search: {profile: read-heavy}
`

const bad = `version: 1
chain: {bugdet: 3}
dependencies:
  payments: {profile: payments-wirte}
`

func TestCheck(t *testing.T) {
	dir := folder(t, map[string]string{
		"good.yaml": good, "bad.yaml": bad,
		"split/catalog.yaml": "version: 1\n", "split/dependencies/payments.yaml": "version: 1\ndependencies: {payments: {profile: write-path}}\n",
		"torn/dependencies/payments.yaml": "version: 1\ndependencies: {refunds: {profile: write-path}}\n",
	})
	t.Run("good_file", func(t *testing.T) {
		r := command(t, dir, "catalog", "check", "good.yaml")
		assert.Equal(t, 0, r.exit, r)
		assert.Regexp(t, `^ok: 1 profile, 2 dependencies, 0 services, digest [0-9a-f]{8}: good\.yaml\n$`, r.stdout)
		assert.Empty(t, r.stderr)
	})
	t.Run("good_folder", func(t *testing.T) {
		r := command(t, dir, "catalog", "check", "split")
		assert.Equal(t, 0, r.exit, r)
		assert.Regexp(t, `^ok: 0 profiles, 1 dependency, 0 services, digest [0-9a-f]{8}: split\n$`, r.stdout)
	})
	t.Run("problems_have_place_and_remedy", func(t *testing.T) {
		r := command(t, dir, "catalog", "check", "bad.yaml")
		assert.Equal(t, 1, r.exit, r)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		require.Len(t, lines, 3)
		assert.Regexp(t, `^bad\.yaml:2:9: chain\.bugdet: unknown key; .*did you mean "budget"\?$`, lines[0])
		assert.Regexp(t, `^bad\.yaml:4:23: dependencies\.payments\.profile: unknown profile "payments-wirte"; known are `, lines[1])
		assert.Equal(t, "bad.yaml: 2 problems", lines[2])
	})
	t.Run("problems_of_a_folder_name_their_file", func(t *testing.T) {
		r := command(t, dir, "catalog", "check", "torn")
		assert.Equal(t, 1, r.exit, r)
		assert.Contains(t, r.stdout, "torn/dependencies/payments.yaml:2:")
	})
	t.Run("all_paths_are_checked", func(t *testing.T) {
		r := command(t, dir, "catalog", "check", "bad.yaml", "good.yaml")
		assert.Equal(t, 1, r.exit, r)
		assert.Contains(t, r.stdout, "bad.yaml: 2 problems\nok: 1 profile")
	})
	t.Run("json", func(t *testing.T) {
		r := command(t, dir, "catalog", "check", "--format", "json", "bad.yaml", "good.yaml")
		assert.Equal(t, 1, r.exit, r)
		var out struct {
			Catalogs []struct {
				Path     string
				OK       bool
				Digest   string
				Profiles int
				Problems []struct {
					File            string
					Line, Column    int
					Path, What, Fix string
				}
				Warnings []any
			}
		}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
		require.Len(t, out.Catalogs, 2)
		first, second := out.Catalogs[0], out.Catalogs[1]
		assert.False(t, first.OK)
		require.Len(t, first.Problems, 2)
		assert.Equal(t, "bad.yaml", first.Problems[0].File)
		assert.Equal(t, 2, first.Problems[0].Line)
		assert.Equal(t, 9, first.Problems[0].Column)
		assert.Equal(t, "unknown key", first.Problems[0].What)
		assert.True(t, second.OK)
		assert.NotNil(t, second.Warnings)
		assert.Regexp(t, `^[0-9a-f]{8}$`, second.Digest)
		assert.Equal(t, 1, second.Profiles)
	})
	t.Run("github", func(t *testing.T) {
		r := command(t, dir, "catalog", "check", "--format=github", "bad.yaml")
		assert.Equal(t, 1, r.exit, r)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		require.Len(t, lines, 2)
		assert.True(t, strings.HasPrefix(lines[0], "::error file=bad.yaml,line=2,col=9::chain.bugdet: unknown key; "), lines[0])
	})
	t.Run("github_escapes", func(t *testing.T) {
		dir := folder(t, map[string]string{"a,b:%.yaml": "version: 1\ndependencies: {\"50%\": {mode: off}}\n"})
		r := command(t, dir, "catalog", "check", "--format=github", "a,b:%.yaml")
		assert.Equal(t, 1, r.exit, r)
		assert.Contains(t, r.stdout, "::error file=a%2Cb%3A%25.yaml,line=2,col=30::")
		assert.Contains(t, r.stdout, `dependencies["50%25"].mode`)
	})
}

// What works, and does not do what it says, is a warning: it fails nothing, unless that is asked for.
func TestCheck_warnings(t *testing.T) {
	dir := folder(t, map[string]string{"warned.yaml": `version: 1
profiles:
  slow: {extends: write-path, budget: {fund: requests}}
dependencies:
  payments: {profile: slow}
`})
	const warned = "warned.yaml:3:46: profiles.slow.budget.fund: "
	r := command(t, dir, "catalog", "check", "warned.yaml")
	assert.Equal(t, 0, r.exit, r)
	assert.True(t, strings.HasPrefix(r.stdout, "warning: "+warned), r.stdout)
	assert.Contains(t, r.stdout, "\nok: 1 profile, 1 dependency, 0 services, 1 warning, digest ")

	r = command(t, dir, "catalog", "check", "--strict", "warned.yaml")
	assert.Equal(t, 1, r.exit, r)
	assert.Contains(t, r.stdout, warned)

	r = command(t, dir, "catalog", "check", "--format", "github", "warned.yaml")
	assert.Equal(t, 0, r.exit, r)
	assert.Contains(t, r.stdout, "::warning file=warned.yaml,line=3,col=46::profiles.slow.budget.fund: ")

	r = command(t, dir, "catalog", "check", "--format", "json", "warned.yaml")
	var out struct {
		Catalogs []struct{ Warnings []struct{ Line int } }
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
	assert.Equal(t, 3, out.Catalogs[0].Warnings[0].Line)
}

func TestDiff(t *testing.T) {
	dir := folder(t, map[string]string{
		"old.yaml": good, "spelled.yaml": strings.ReplaceAll(good, "400ms", "0.4s"), "bad.yaml": bad,
		"new.yaml": strings.Replace(good, "{attempt_timeout: 400ms}", "{attempt_timeout: 400ms, max_attempts: 4}", 1),
		"odd.yaml": "version: 1\ndependencies: {\"a|b <i> @team\": {owner: \"*x*\"}}\n",
	})
	t.Run("table_and_meaning", func(t *testing.T) {
		r := command(t, dir, "catalog", "diff", "old.yaml", "new.yaml")
		assert.Equal(t, 0, r.exit, r)
		assert.Contains(t, r.stdout, "dependency payments\n  retry.max_attempts  2 -> 4\n"+
			"      worst case at payments, of one call: 2 attempts -> 4 attempts; with budget 3 a chain still makes at most 1 + 3 on one path\n")
		assert.NotContains(t, r.stdout, "search")
	})
	t.Run("exit_code", func(t *testing.T) {
		assert.Equal(t, 1, command(t, dir, "catalog", "diff", "--exit-code", "old.yaml", "new.yaml").exit)
		assert.Equal(t, 0, command(t, dir, "catalog", "diff", "--exit-code", "old.yaml", "spelled.yaml").exit)
	})
	t.Run("spelling_is_no_difference", func(t *testing.T) {
		r := command(t, dir, "catalog", "diff", "old.yaml", "spelled.yaml")
		assert.Equal(t, result{0, "no difference in what holds\n", ""}, r)
	})
	t.Run("markdown", func(t *testing.T) {
		r := command(t, dir, "catalog", "diff", "--format", "markdown", "old.yaml", "new.yaml")
		assert.Equal(t, 0, r.exit, r)
		assert.Contains(t, r.stdout, "**dependency payments**\n\n| key | old | new | what it means |\n|---|---|---|---|\n| retry.max\\_attempts | 2 | 4 | worst case at payments")
		assert.Contains(t, r.stdout, "<br>")
	})
	t.Run("markdown_of_odd_names", func(t *testing.T) {
		r := command(t, dir, "catalog", "diff", "--format", "markdown", "old.yaml", "odd.yaml")
		assert.Contains(t, r.stdout, `**dependency a\|b &lt;i&gt; &#64;team**`)
		assert.Contains(t, r.stdout, `| owner | none | \*x\* |`)
	})
	t.Run("json", func(t *testing.T) {
		r := command(t, dir, "catalog", "diff", "--format", "json", "old.yaml", "new.yaml")
		var out struct {
			Old     string `json:"old_digest"`
			New     string `json:"new_digest"`
			Changes []struct {
				Subject, Key, Old, New string
				Means                  []string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
		assert.NotEqual(t, out.Old, out.New)
		require.Len(t, out.Changes, 1)
		assert.Equal(t, "retry.max_attempts", out.Changes[0].Key)
		assert.Equal(t, "dependency payments", out.Changes[0].Subject)
		assert.NotEmpty(t, out.Changes[0].Means)
	})
	t.Run("bad_catalog", func(t *testing.T) {
		r := command(t, dir, "catalog", "diff", "old.yaml", "bad.yaml")
		assert.Equal(t, 1, r.exit, r)
		assert.Contains(t, r.stderr, "bad.yaml:2:9: chain.bugdet: unknown key")
		assert.Empty(t, r.stdout)
	})
}

// What is no verdict about a catalog ends with 2, says what is wrong and where help is.
func TestUsage(t *testing.T) {
	dir := folder(t, map[string]string{"good.yaml": good})
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":            {nil, "chainbudget: say what to do: catalog, runbook, storm\nhelp: chainbudget --help\n"},
		"no_subcommand":      {[]string{"catalog"}, "chainbudget catalog: say what to do: check"},
		"unknown_subcommand": {[]string{"catalog", "chek"}, `unknown command "chek" for "chainbudget catalog"`},
		"no_path":            {[]string{"catalog", "check"}, "catalog check: there is no PATH: name a catalog file or a folder of them\nhelp: chainbudget catalog check --help\n"},
		"missing_path":       {[]string{"catalog", "check", "good.yaml", "none.yaml"}, "none.yaml: no such file or directory"},
		"unknown_flag":       {[]string{"catalog", "check", "--sctrict", "good.yaml"}, "unknown flag: --sctrict"},
		"unknown_format":     {[]string{"catalog", "check", "--format", "xml", "good.yaml"}, "use one of text, json, github"},
		"diff_what":          {[]string{"catalog", "diff", "good.yaml"}, "catalog diff: 1 arguments: name the old catalog and the new one"},
		"diff_missing":       {[]string{"catalog", "diff", "none.yaml", "good.yaml"}, "none.yaml: no such file or directory"},
		"explain_what":       {[]string{"catalog", "explain"}, "catalog explain: 0 arguments: name one dependency"},
		"unknown_dependency": {[]string{"catalog", "explain", "paymens", "--catalog", "good.yaml"}, `good.yaml has no dependency "paymens": known are payments, search`},
		"unknown_profile":    {[]string{"catalog", "explain", "x", "--profile", "read-havy", "--catalog", "good.yaml"}, `unknown profile "read-havy"; known are`},
		"no_catalog":         {[]string{"catalog", "explain", "payments"}, "name it with --catalog, or a profile with --profile"},
	} {
		t.Run(name, func(t *testing.T) {
			r := command(t, dir, c.args...)
			assert.Equal(t, 2, r.exit, r)
			assert.Contains(t, r.stderr, c.want)
			assert.Contains(t, r.stderr, "help: chainbudget")
			assert.Empty(t, r.stdout)
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"catalog", "--help"}, {"catalog", "check", "--help"}, {"catalog", "diff", "--help"}, {"catalog", "explain", "--help"}} {
		r := command(t, t.TempDir(), args...)
		assert.Equal(t, 0, r.exit, r)
		assert.Contains(t, r.stdout, "Usage:", args)
	}
	r := command(t, t.TempDir(), "catalog", "check", "--help")
	assert.Contains(t, r.stdout, "Examples:\n  chainbudget catalog check retry-catalog.yaml\n")
	assert.Regexp(t, `^chainbudget version \S+\n$`, command(t, t.TempDir(), "--version").stdout)
}

func TestCompletion(t *testing.T) {
	dir := folder(t, map[string]string{"good.yaml": good})
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := command(t, dir, "completion", shell)
		assert.Equal(t, 0, r.exit, r.stderr)
		assert.Contains(t, r.stdout, "chainbudget", shell)
	}
	r := command(t, dir, "__complete", "catalog", "explain", "--catalog", "good.yaml", "")
	assert.Contains(t, r.stdout, "payments\nsearch\n")
}

func TestExplain(t *testing.T) {
	dir := folder(t, map[string]string{"good.yaml": good, "bad.yaml": bad})
	t.Run("text", func(t *testing.T) {
		r := command(t, dir, "catalog", "explain", "payments", "--catalog", "good.yaml")
		assert.Equal(t, 0, r.exit, r)
		assert.Regexp(t, `(?m)^  profile +payments-write +# good\.yaml:5:23$`, r.stdout)
		assert.Regexp(t, `(?m)^  retry\.attempt_timeout +400ms +# good\.yaml:3:66$`, r.stdout)
		assert.Regexp(t, `(?m)^  backoff\.base +200ms +# built-in write-path \(builtin\.yaml:\d+\)$`, r.stdout)
		assert.Regexp(t, `(?m)^  process_budget +0 +# default of the schema; 0 = no limit$`, r.stdout)
	})
	t.Run("by_profile", func(t *testing.T) {
		r := command(t, dir, "catalog", "explain", "anything", "--profile", "background")
		assert.Equal(t, 0, r.exit, r)
		assert.Regexp(t, `(?m)^  profile +background +# named in code$`, r.stdout)
	})
	t.Run("json", func(t *testing.T) {
		r := command(t, dir, "catalog", "explain", "payments", "--catalog", "good.yaml", "--format", "json")
		assert.Equal(t, 0, r.exit, r)
		var out struct {
			Dependency string
			Lines      []struct{ Key, Value, From string }
		}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
		assert.Equal(t, "payments", out.Dependency)
		assert.Contains(t, out.Lines, struct{ Key, Value, From string }{"owner", "team-ledger", "good.yaml:5:46"})
	})
	t.Run("bad_catalog", func(t *testing.T) {
		r := command(t, dir, "catalog", "explain", "payments", "--catalog", "bad.yaml")
		assert.Equal(t, 1, r.exit, r)
		assert.Contains(t, r.stderr, "bad.yaml:2:9: chain.bugdet: unknown key")
	})
}
