package main_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// sample is the repository that docs/catalog.md describes.
func sample(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(repository, "docs", "sample-catalog"))
	require.NoError(t, err)
	return dir
}

func text(t *testing.T, elements ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	require.NoError(t, err)
	return string(data)
}

func TestSample_loads_as_the_document_says(t *testing.T) {
	r := command(t, sample(t), "catalog", "check", "--strict", "catalog")
	require.Equal(t, 0, r.exit, r)
	document := text(t, repository, "docs", "catalog.md")
	assert.Contains(t, document, "$ chainbudget catalog check --strict catalog\n"+r.stdout)

	_, layout, _ := strings.Cut(document, "```text\n")
	layout, _, _ = strings.Cut(layout, "```")
	folder := ""
	for line := range strings.Lines(layout) {
		name := strings.Fields(line)[0]
		if strings.HasSuffix(name, "/") {
			folder = name
			continue
		}
		if !strings.HasPrefix(line, " ") {
			folder = ""
		}
		assert.FileExists(t, filepath.Join(sample(t), folder, name))
	}
}

// The owner that the catalog names is the team that CODEOWNERS asks.
func TestSample_owners_approve(t *testing.T) {
	type rule struct {
		pattern string
		owners  []string
	}
	var rules []rule
	for line := range strings.Lines(text(t, sample(t), "CODEOWNERS")) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			rules = append(rules, rule{f[0], f[1:]})
		}
	}
	owners := func(file string) (owners []string) {
		for _, r := range rules {
			switch pattern := strings.TrimPrefix(r.pattern, "/"); {
			case pattern == "*", pattern == file, strings.HasSuffix(pattern, "/") && strings.HasPrefix(file, pattern):
				owners = r.owners
			}
		}
		return owners
	}
	for _, r := range rules {
		if r.pattern != "*" {
			_, err := os.Stat(filepath.Join(sample(t), r.pattern))
			assert.NoError(t, err, "a rule about nothing")
		}
	}
	catalog, err := profiles.LoadFile(filepath.Join(sample(t), "catalog"))
	require.NoError(t, err)
	for name, d := range catalog.Dependencies {
		assert.Equal(t, []string{"@example/" + d.Owner}, owners(path.Join("catalog", "dependencies", name+".yaml")))
	}
	assert.Contains(t, owners("catalog/overrides.yaml"), "@example/on-call")
	assert.Equal(t, []string{"@example/team-platform"}, owners("catalog/profiles/writes.yaml"))
}

// The files of the ConfigMap, laid out as kubelet does it, are the same catalog.
func TestSample_configmap_means_the_same(t *testing.T) {
	var kustomization struct {
		Options struct {
			DisableNameSuffixHash bool `yaml:"disableNameSuffixHash"`
		} `yaml:"generatorOptions"`
		Maps []struct {
			Name  string
			Files []string
		} `yaml:"configMapGenerator"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(text(t, sample(t), "kustomization.yaml")), &kustomization))
	require.True(t, kustomization.Options.DisableNameSuffixHash)
	require.Len(t, kustomization.Maps, 1)
	assert.Contains(t, text(t, sample(t), "example-deployment.yaml"), "name: "+kustomization.Maps[0].Name)

	mount := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(mount, "..2026_11_29"), 0o755))
	require.NoError(t, os.Symlink("..2026_11_29", filepath.Join(mount, "..data")))
	for _, f := range kustomization.Maps[0].Files {
		key, file, found := strings.Cut(f, "=")
		require.True(t, found, f)
		require.Regexp(t, `^[-._a-zA-Z0-9]+$`, key, "a key of a ConfigMap")
		require.NoError(t, os.WriteFile(filepath.Join(mount, "..data", key), []byte(text(t, sample(t), file)), 0o600))
		require.NoError(t, os.Symlink(filepath.Join("..data", key), filepath.Join(mount, key)))
	}
	mounted, err := profiles.LoadFile(mount)
	require.NoError(t, err)
	folder, err := profiles.LoadFile(filepath.Join(sample(t), "catalog"))
	require.NoError(t, err)
	assert.Equal(t, folder.Digest(), mounted.Digest())
	assert.Empty(t, mounted.Warnings)
}

// The scripts of the CI job do what the document says: they are run here, on a repository with a proposed change.
func TestSample_workflow(t *testing.T) {
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text(t, sample(t), ".github", "workflows", "catalog.yaml")), &workflow))
	script := func(name string) string {
		for _, step := range workflow.Jobs["check"].Steps {
			if step.Name == name {
				return step.Run
			}
		}
		t.Fatalf("no step %q", name)
		return ""
	}

	dir, temp := t.TempDir(), t.TempDir()
	repo := filepath.Join(dir, "repo")
	require.NoError(t, os.CopyFS(repo, os.DirFS(sample(t))))
	// What the runner has: the command, and a gh that keeps what it is told to post.
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	require.NoError(t, os.Symlink(binary, filepath.Join(bin, "chainbudget")))
	gh := "#!/bin/bash\necho \"$*\" > \"$RUNNER_TEMP/gh\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "gh"), []byte(gh), 0o700))
	env := append(os.Environ(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+temp, "RUNNER_TEMP="+temp, "GITHUB_BASE_REF=main", "NUMBER=7",
		"GITHUB_STEP_SUMMARY="+filepath.Join(temp, "summary"), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	run := func(script string) result {
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", script)
		cmd.Dir, cmd.Env = repo, env
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // the exit status says it
		return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	}
	must := func(script string) {
		r := run(script)
		require.Equal(t, 0, r.exit, r)
	}
	must("git init -q -b change . && git add -A && git commit -qm base && git update-ref refs/remotes/origin/main HEAD")

	t.Run("good", func(t *testing.T) {
		assert.Equal(t, 0, run(script("check")).exit)
		assert.Equal(t, 0, run(script("files of the ConfigMap")).exit)
	})
	t.Run("diff", func(t *testing.T) {
		must(`sed -i 's/^      timeout: 2s.*/      timeout: 2s\n      max_attempts: 3/' catalog/profiles/writes.yaml && git commit -qam change`)
		r := run(script("diff"))
		require.Equal(t, 0, r.exit, r)
		posted := text(t, temp, "diff.md")
		assert.Contains(t, posted, "**dependency payments**")
		assert.Contains(t, posted, "| retry.max\\_attempts | 2 | 3 | worst case at payments")
		assert.Equal(t, posted, text(t, temp, "summary"))
		assert.Equal(t, "pr comment 7 --body-file "+filepath.Join(temp, "diff.md")+" --edit-last --create-if-none\n", text(t, temp, "gh"))
	})
	t.Run("the_first_change", func(t *testing.T) {
		must("git worktree prune && git checkout -q --orphan empty && git rm -rfq --cached . && git commit -q --allow-empty -m empty && " +
			"git update-ref refs/remotes/origin/main HEAD && git checkout -qf change")
		r := run(script("diff"))
		require.Equal(t, 0, r.exit, r)
		assert.Contains(t, text(t, temp, "diff.md"), "| profile | named in code | ledger-write |")
	})
	t.Run("a_file_is_not_in_the_configmap", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(repo, "catalog", "dependencies", "mail.yaml"), []byte("version: 1\ndependencies: {mail: {profile: background}}\n"), 0o600))
		r := run(script("files of the ConfigMap"))
		assert.Equal(t, 1, r.exit)
		assert.Contains(t, r.stdout, "::error file=kustomization.yaml::catalog/dependencies/mail.yaml is not in the ConfigMap: list it")
	})
	t.Run("a_problem", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(repo, "catalog", "dependencies", "mail.yaml"), []byte("version: 1\ndependencies: {mails: {profile: background}}\n"), 0o600))
		r := run(script("check"))
		assert.Equal(t, 1, r.exit)
		assert.Regexp(t, regexp.MustCompile(`^::error file=catalog/dependencies/mail\.yaml,line=2,col=\d+::dependencies\.mails: `), r.stdout)
	})
}
