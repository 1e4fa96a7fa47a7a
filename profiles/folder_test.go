package profiles

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func folder(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

var sampleFolder = map[string]string{
	"catalog.yaml":      "version: 1\nchain: {budget: 3, max_budget: 10, orphan_budget: 1, deadlines: propagate}\n",
	"hosts.yml":         "version: 1\ninternal_hosts: [\"*.corp.example.com\"]\n",
	"overrides.yaml":    "version: 1\noverrides: {dependencies: {payments: {retries: disabled}}}\n",
	"README.md":         "nothing for the loader",
	".hidden.yaml":      "neither: this",
	"..data/hosts.yaml": "nor: this",
	"docs/example.yaml": "nor: that",
	"profiles/writes.yaml": `
version: 1
profiles:
  payments-write:
    extends: write-path
    retry: {max_attempts: 2, statuses: [429, 502, 503, 504], attempt_timeout: 400ms, repeats: charge}
    backoff: {base: 200ms, throttled_base: 1s, cap: 20s}
    budget: {ratio: 10%, fund: successes, burst: 10}
    breaker: {window: 10s, failure_ratio: 50%, min_requests: 20, open_for: 5s, probes: 3}
    availability_floor: 60%
`,
	"profiles/.#writes.yaml":     "lock",
	"profiles/writes.yaml~":      "backup",
	"dependencies/payments.yaml": "version: 1\ndependencies: {payments: {profile: payments-write, owner: team-ledger, on_failure: closed, hosts: [\"payments.internal\"], mode: enforce}}\n",
	"services/checkout.yaml":     "version: 1\nservices: {checkout: {routes: {\"POST /checkout\": {budget: 2}}}}\n",
	"services/payments-api.yml":  "version: 1\nservices: {payments-api: {serves: [payments], idempotent: [\"GET /balance/{id}\"]}}\n",
}

// The sample as a folder is the sample.
func TestFolder_means_what_its_parts_mean(t *testing.T) {
	one, err := LoadFile("testdata/sample.yaml")
	require.NoError(t, err)
	many, err := LoadFS(folder(sampleFolder), ".")
	require.NoError(t, err)
	require.Equal(t, ".", many.Source)
	require.Equal(t, one.canonical(), many.canonical())
	require.Equal(t, one.Digest(), many.Digest())
	require.Equal(t, one.Dependencies, many.Dependencies)
	require.Equal(t, one.Profiles, many.Profiles)
	dependency, ok := many.DependencyForHost("payments.internal")
	require.True(t, ok)
	require.Equal(t, "payments", dependency)

	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, folder(sampleFolder)))
	files, err := LoadFile(dir)
	require.NoError(t, err)
	require.Equal(t, dir, files.Source)
	require.Equal(t, one.Digest(), files.Digest())

	below := fstest.MapFS{}
	for name, f := range folder(sampleFolder) {
		below["config/retry/"+name] = f
	}
	sub, err := LoadFS(below, "config/retry")
	require.NoError(t, err)
	require.Equal(t, one.Digest(), sub.Digest())
	single, err := LoadFS(below, "config/retry/catalog.yaml")
	require.NoError(t, err)
	require.Equal(t, "config/retry/catalog.yaml", single.Source)
	require.Equal(t, Builtin().Digest(), single.Digest(), "the sample's chain is the default")
}

// A ConfigMap in a pod: every name is a link into the folder of the day, folders too.
func TestFolder_follows_the_links_of_a_config_map(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "..2026_11_29"), folder(map[string]string{
		"catalog.yaml":         "version: 1\nchain: {budget: 2}\n",
		"profiles/a.yaml":      "version: 1\nprofiles: {a: {extends: no-retry}}\n",
		"dependencies/db.yaml": "version: 1\ndependencies: {db: {profile: a}}\n",
	})))
	require.NoError(t, os.Symlink("..2026_11_29", filepath.Join(dir, "..data")))
	for _, name := range []string{"catalog.yaml", "profiles", "dependencies"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o700))
	c, err := LoadFile(dir)
	require.NoError(t, err)
	require.Equal(t, 2, c.Chain.Budget)
	require.Equal(t, Name("a"), c.Dependencies["db"].Profile)

	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "gone.yaml")))
	_, err = LoadFile(dir)
	require.ErrorIs(t, err, fs.ErrNotExist, "a link that points nowhere is not passed over")
	require.ErrorContains(t, err, "chainbudget: catalog: stat "+filepath.Join(dir, "gone.yaml")+": ")
}

func TestFolder_problems(t *testing.T) {
	const version = "version: 1\n"
	tests := []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"nothing", map[string]string{"notes.txt": "", "x/profiles/a.yaml": version}, []string{
			"c: has no catalog file; put catalog.yaml into it, or files into profiles/, dependencies/ and services/"}},
		{"profile_twice", map[string]string{"profiles/a.yaml": version + "profiles:\n  p: {extends: no-retry}\n", "profiles/b.yaml": version + "profiles: {p: {extends: no-retry}}\n"},
			[]string{"c/profiles/b.yaml:2:12: profiles.p: is there already, at c/profiles/a.yaml:3:3; keep one of them"}},
		{"dependency_twice", map[string]string{"catalog.yaml": version + "dependencies: {db: {}}\n", "dependencies/db.yaml": version + "dependencies: {db: {}}\n"},
			[]string{"c/dependencies/db.yaml:2:16: dependencies.db: is there already, at c/catalog.yaml:2:16; keep one of them"}},
		{"yaml_and_yml", map[string]string{"services/a.yml": version + "services: {a: {}}\n", "services/a.yaml": version + "services: {a: {}}\n"},
			[]string{"c/services/a.yml:2:12: services.a: is there already, at c/services/a.yaml:2:12"}},
		{"chain_key_twice", map[string]string{"a.yaml": version + "chain: {budget: 2}\n", "b.yaml": version + "chain: {learn: observe, budget: 3}\n"},
			[]string{"c/b.yaml:2:25: chain.budget: is there already, at c/a.yaml:2:9"}},
		{"host_twice", map[string]string{"dependencies/a.yaml": version + "dependencies: {a: {hosts: [x.internal]}}\n", "dependencies/b.yaml": version + "\ndependencies: {b: {hosts: [X.internal]}}\n"},
			[]string{`c/dependencies/b.yaml:3:28: dependencies.b.hosts[0]: "X.internal" belongs to "a" already, at c/dependencies/a.yaml:2:28; keep one of them`}},
		{"internal_hosts_twice", map[string]string{"a.yaml": version + "internal_hosts: [a]\n", "b.yaml": version + "internal_hosts: [b]\n"},
			[]string{"c/b.yaml:2:17: internal_hosts: is set already, at c/a.yaml:2:17; keep one of them"}},
		{"override_twice", map[string]string{"a.yaml": version + "overrides: {dependencies: {d: {retries: disabled}, e: {retries: disabled}}}\n",
			"b.yaml": version + "overrides: {retries: disabled, dependencies: {d: {retries: disabled}}}\n", "c.yaml": version + "overrides: {retries: disabled}\n"},
			[]string{"c/b.yaml:2:47: overrides.dependencies.d: is there already, at c/a.yaml:2:28",
				"c/c.yaml:2:13: overrides.retries: is there already, at c/b.yaml:2:13"}},
		{"override_list_twice_in_one", map[string]string{"a.yaml": version + "overrides: {dependencies: {}, dependencies: {}}\n", "b.yaml": version + "overrides: {}\n"},
			[]string{"c/a.yaml:2:31: overrides.dependencies: is there already, in line 2"}},
		{"override_of_another_kind", map[string]string{"a.yaml": version + "overrides: [a]\n", "b.yaml": version + "overrides: disabled\n"},
			[]string{"c/a.yaml:2:12: overrides: expected keys with values, not a list", `c/b.yaml:2:12: overrides: expected keys with values, not "disabled"`}},
		{"other_name", map[string]string{"dependencies/payments.yaml": version + "dependencies: {paymnts: {}}\n"},
			[]string{`c/dependencies/payments.yaml:2:16: dependencies.paymnts: is in a file that is named after "payments"; correct one of the two names, or move it to a file of its own`}},
		{"more_than_its_name", map[string]string{"services/a.yaml": version + "services: {a: {}, b: {}}\n"},
			[]string{`c/services/a.yaml:2:19: services.b: is in a file that is named after "a"`}},
		{"nothing_of_its_name", map[string]string{"dependencies/a.yaml": version, "services/b c.yaml": version + "services: {}\n"},
			[]string{`c/dependencies/a.yaml:1:1: dependencies: is missing: the file is named after "a"; write dependencies: {a: {...}}, or rename the file`,
				`c/services/b c.yaml:2:11: services: is empty: the file is named after "b c"; write services: {"b c": {...}}, or rename the file`}},
		{"keys_of_others", map[string]string{"dependencies/a.yaml": version + "dependencies: {a: {}}\nchain: {}\nprofiles: {}\n", "profiles/p.yaml": version + "services: {}\noverrides: {}\n"},
			[]string{"c/dependencies/a.yaml:3:8: chain: does not belong into a file of dependencies/; move it to a file at the top of the folder",
				"c/dependencies/a.yaml:4:11: profiles: does not belong into a file of dependencies/; move it to profiles/, or to a file at the top of the folder",
				"c/profiles/p.yaml:2:11: services: does not belong into a file of profiles/; move it to services/<name>.yaml, or to a file at the top of the folder",
				"c/profiles/p.yaml:3:12: overrides: does not belong into a file of profiles/"}},
		{"version_of_each", map[string]string{"a.yaml": version, "b.yaml": "chain: {}\n", "c.yaml": "version: 2\n"},
			[]string{"c/b.yaml:1:1: version: is missing", "c/c.yaml:1:10: version: 2 is not known here"}},
		{"files_and_lines_in_order", map[string]string{
			"z.yaml":          version + "dependencies:\n  a: {profile: nope}\n  b: {owner: 7}\n",
			"profiles/p.yaml": version + "profiles:\n  q: {extends: no-retry, retry: {reserve: 100}}\n",
			"m.yaml":          version + "nothing: 1\n"},
			[]string{"c/m.yaml:2:1: nothing: unknown key", "c/profiles/p.yaml:3:43: profiles.q.retry.reserve: 100 is out of range",
				`c/z.yaml:3:16: dependencies.a.profile: unknown profile "nope"; known are aws-standard, background, google-sre, latency-critical, no-retry, q,`, `c/z.yaml:4:14: dependencies.b.owner`}},
		// What an unreadable file may have held is not missed elsewhere.
		{"unreadable_file", map[string]string{
			"profiles/p.yaml":     version + "profiles: {p: {extends: no-retry}\n",
			"profiles/q.yaml":     version + "profiles: {q: {extends: p}}\n",
			"dependencies/a.yaml": version + "dependencies: {a: {profile: p, mode: fast}}\n",
			"services/s.yaml":     version + "services: {s: {serves: [lost]}}\n",
			"empty.yaml":          "\n", "two.yaml": version + "---\n" + version, "anchor.yaml": version + "chain: &x {}\n"},
			[]string{"c/anchor.yaml:2:8: anchors and aliases", `c/dependencies/a.yaml:2:38: dependencies.a.mode: "fast" is not known here`,
				"c/empty.yaml:1:1: the file is empty", "c/profiles/p.yaml:1:1: not valid YAML: did not find", "c/two.yaml:2:1: there is a second document"}},
		{"circle_through_files", map[string]string{"profiles/a.yaml": version + "profiles: {a: {extends: b}}\n", "profiles/b.yaml": version + "profiles: {b: {extends: a}}\n"},
			[]string{"c/profiles/b.yaml:2:25: profiles.b.extends: goes round in a circle: b > a > b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name, f := range folder(tt.files) {
				fsys["c/"+name] = f
			}
			c, err := LoadFS(fsys, "c")
			require.Nil(t, c)
			var list *CatalogError
			require.ErrorAs(t, err, &list)
			var got []string
			for _, p := range list.Problems {
				got = append(got, p.String())
				require.NotEmpty(t, p.Fix)
			}
			require.Len(t, got, len(tt.want), err.Error())
			for i, want := range tt.want {
				require.True(t, strings.HasPrefix(got[i], want), "got  %s\nwant %s", got[i], want)
			}
		})
	}
}

func TestFolder_errors_of_the_file_system(t *testing.T) {
	_, err := LoadFS(nil, ".")
	require.ErrorContains(t, err, "there is no file system")
	_, err = LoadFS(fstest.MapFS{}, "../up")
	require.Error(t, err)
	_, err = LoadFS(fstest.MapFS{}, "none.yaml")
	require.ErrorIs(t, err, fs.ErrNotExist)
	c, err := LoadFS(folder(map[string]string{"a.yaml": "version: 1\n", "profiles": "a file", "services/pipe.yaml": "", "services/keep": ""}), "a.yaml")
	require.NoError(t, err)
	require.Equal(t, Builtin().Digest(), c.Digest())
	pipes := folder(map[string]string{"a.yaml": "version: 1\n", "profiles": "a file", "services/pipe.yaml": ""})
	pipes["services/pipe.yaml"].Mode = fs.ModeNamedPipe
	_, err = LoadFS(pipes, ".")
	require.NoError(t, err, "what is no file is not opened")
}

func TestFolder_is_bounded(t *testing.T) {
	fsys := fstest.MapFS{}
	for i := range MaxFiles {
		fsys[fmt.Sprintf("dependencies/d%d.yaml", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "version: 1\ndependencies: {d%d: {}}\n", i)}
	}
	c, err := LoadFS(fsys, ".")
	require.NoError(t, err)
	require.Len(t, c.Dependencies, MaxFiles)
	fsys["one-more.yaml"] = &fstest.MapFile{Data: []byte("version: 1\n")}
	_, err = LoadFS(fsys, ".")
	require.ErrorContains(t, err, "chainbudget: catalog .: 1 problem\n.: has more than 2000 catalog files; put several")

	half := []byte("version: 1\n#" + strings.Repeat("x", MaxFileSize-14) + "\n")
	require.Len(t, half, MaxFileSize-1)
	large := fstest.MapFS{}
	for i := range MaxFolderSize / MaxFileSize {
		large[fmt.Sprintf("%d.yaml", i)] = &fstest.MapFile{Data: half}
	}
	_, err = LoadFS(large, ".")
	require.NoError(t, err)
	large["9.yaml"] = &fstest.MapFile{Data: []byte("version: 1\n")}
	_, err = LoadFS(large, ".")
	require.ErrorContains(t, err, "its files are larger than 4194304 bytes together")
	one := fstest.MapFS{"a.yaml": &fstest.MapFile{Data: append(slices.Clone(half), "#\n"...)}}
	_, err = LoadFS(one, ".")
	require.ErrorContains(t, err, "a.yaml:1:1: the file is larger than 1048576 bytes")
}

// Folders that are cheap to write and dear to read.
func TestFolder_hostile_ones_are_quick(t *testing.T) {
	fill := func(format string) string {
		var b strings.Builder
		b.WriteString("version: 1\n")
		for i := 0; b.Len() < MaxFileSize/64; i++ {
			b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"same_names":       fill("d#: {}\n"),
		"same_entries":     "version: 1\ndependencies:\n" + strings.TrimPrefix(fill("  d#: {hosts: [h#.internal]}\n"), "version: 1\n"),
		"unknown_profiles": "version: 1\ndependencies:\n" + strings.TrimPrefix(fill("  d#: {profile: read-heav}\n"), "version: 1\n"),
		"flow_depth":       "version: " + strings.Repeat("[", MaxFileSize/64),
		"overrides":        fill("overrides: {dependencies: {d#: {}}}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for i := range 8 {
				fsys[fmt.Sprintf("%d.yaml", i)] = &fstest.MapFile{Data: []byte(text)}
			}
			start := time.Now()
			_, err := LoadFS(fsys, ".")
			require.Less(t, time.Since(start), 10*time.Second)
			require.Error(t, err)
			require.Less(t, len(err.Error()), 100_000)
		})
	}
}

// swapFS calls swap each time before it opens a file.
type swapFS struct {
	fs.FS
	swap func(name string)
}

func (s swapFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".yaml") {
		s.swap(name)
	}
	return s.FS.Open(name)
}

func (s swapFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(s.FS, name) }

// Files that are exchanged between two reads are never mixed.
func TestFolder_that_changes_is_read_again(t *testing.T) {
	generation := func(i int) fstest.MapFS {
		text := fmt.Sprintf("version: 1\nchain: {%%s: %d}\n", i)
		at := time.Unix(int64(i), 0)
		return fstest.MapFS{
			"a.yaml": &fstest.MapFile{Data: fmt.Appendf(nil, text, "budget"), ModTime: at},
			"b.yaml": &fstest.MapFile{Data: fmt.Appendf(nil, text, "orphan_budget"), ModTime: at},
		}
	}
	for _, times := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			fsys, swaps := generation(1), 0
			c, err := LoadFS(swapFS{fsys, func(name string) {
				if name == "b.yaml" && swaps < times {
					swaps++
					for n, f := range generation(1 + swaps) {
						*fsys[n] = *f
					}
				}
			}}, ".")
			if times == 3 {
				require.ErrorContains(t, err, "chainbudget: catalog .: the folder changes while it is read")
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1+times, c.Chain.Budget)
			require.Equal(t, 1+times, c.Chain.OrphanBudget)
		})
	}
}

// A file that grows within one tick of the file system's clock has changed, too.
func TestFolder_notices_a_change_of_size_alone(t *testing.T) {
	fsys, grown := folder(map[string]string{"a.yaml": "version: 1\n", "b.yaml": "version: 1\n"}), false
	c, err := LoadFS(swapFS{fsys, func(name string) {
		if name == "b.yaml" && !grown {
			grown = true
			fsys["a.yaml"].Data = []byte("version: 1\nchain: {budget: 2}\n")
		}
	}}, ".")
	require.NoError(t, err)
	require.Equal(t, 2, c.Chain.Budget)
}

// shuffledFS lists folders in any order.
type shuffledFS struct {
	fs.FS
	random *rand.Rand
}

func (s shuffledFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.FS, name)
	s.random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	return entries, err
}

// Which file says it, under which name, and in which order files are listed and keys are written, means nothing.
func TestFolder_order_means_nothing(t *testing.T) {
	pieces := []string{
		"chain: {budget: 2}", "chain: {orphan_budget: 0, mode: observe}", "internal_hosts: [\"*.corp.example.com\", 10.0.0.0/8]",
		"profiles: {a: {extends: b, retry: {max_attempts: 5}}}", "profiles: {b: {extends: write-path, breaker: {probes: 1}}}", "profiles: {c: {extends: a, budget: disabled}}",
		"dependencies: {x: {profile: c, hosts: [x.internal, \"*.x.internal:8080\"]}}", "dependencies: {w: {owner: team, mesh: envoy}}", "dependencies: {z: {profile: third-party}}",
		"services: {s: {serves: [x, w], routes: {\"POST /b\": {budget: 1}, \"GET /a\": {budget: 2}}}}", "services: {t: {idempotent: [/b, /a], failure_statuses: [503, 500]}}",
		"overrides: {dependencies: {x: {retries: disabled}}}", "overrides: {dependencies: {y: {retries: disabled}}}",
	}
	random := rand.New(rand.NewPCG(1, 2))
	var want string
	for round := range 200 {
		fsys := fstest.MapFS{}
		random.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		for i, piece := range pieces {
			fsys[fmt.Sprintf("%d-%d.yaml", random.IntN(100), i)] = &fstest.MapFile{Data: []byte("version: 1\n" + piece + "\n")}
		}
		c, err := LoadFS(shuffledFS{fsys, random}, ".")
		require.NoError(t, err)
		if round == 0 {
			want = c.canonical()
		}
		require.Equal(t, want, c.canonical())
	}
	// Errors are the same, too.
	fsys := fstest.MapFS{}
	for i := range 20 {
		fsys[fmt.Sprintf("%d.yaml", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "version: 1\ndependencies: {d%d: {profile: nope}}\nchain: {budget: 1}\n", i%10)}
	}
	_, first := LoadFS(fsys, ".")
	for range 20 {
		_, err := LoadFS(shuffledFS{fsys, random}, ".")
		require.Equal(t, first, err)
	}
}
