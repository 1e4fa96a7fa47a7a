package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sampleFiles is a repository with a nested module, whose tests guard some rules and miss others.
var sampleFiles = map[string]string{
	"go.mod":        "module sample\n\ngo 1.26\n",
	"nested/go.mod": "module sample/nested\n\ngo 1.26\n",
	"nested/sum.go": "package nested\n\nfunc sum(a, b int) int {\n\treturn a + b\n}\n",
	"nested/sum_test.go": `package nested

import "testing"

func TestSum(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		if sum(1, 2) != 3 {
			t.Fail()
		}
	})
}

func TestBlind(t *testing.T) { sum(1, 2) }

func TestRed(t *testing.T) { t.Fail() }

func TestSkipped(t *testing.T) { t.Skip() }
`,
	".git/config":    "",
	".bin/tool":      "",
	"docs/adopt.txt": "",
}

func sumPatch(test, replacement string) string {
	return top + "# test: ./nested " + test + "\n--- a/nested/sum.go\n+++ b/nested/sum.go\n@@ -1,5 +1,5 @@\n package nested\n \n func sum(a, b int) int {\n-\treturn a + b\n+\t" + replacement + "\n }\n"
}

func TestTrial(t *testing.T) {
	repository, patches := t.TempDir(), t.TempDir()
	for name, text := range sampleFiles {
		write(t, filepath.Join(repository, name), text)
	}
	// In the order of their names, each one must leave the copy as it was for the next.
	want := []struct {
		name, patch, reason string
		killed              bool
	}{
		{"1_killed", sumPatch("TestSum", "return a - b"), "the test fails", true},
		{"2_survives", sumPatch("TestBlind", "return a - b"), "the test passes", false},
		{"3_killed_subtest", sumPatch("TestSum/small", "return a * b"), "the test fails", true},
		{"4_crash", sumPatch("TestSum", "go func() { panic(a + b) }(); select {}"), "the test fails", true},
		{"5_not_compiled", sumPatch("TestSum", "return c"), "the test does not compile", false},
		{"6_missing", sumPatch("TestNone", "return a - b"), "without the patch the test does not exist", false},
		{"7_red", sumPatch("TestRed", "return a - b"), "without the patch the test fails", false},
		{"8_skipped", sumPatch("TestSkipped", "return a - b"), "without the patch the test is skipped", false},
		{"9_not_applied", strings.ReplaceAll(sumPatch("TestSum", "return a - b"), "nested/sum.go", "nested/other.go"), "the patch does not apply", false},
	}
	for _, w := range want {
		write(t, filepath.Join(patches, w.name+".patch"), w.patch)
	}
	mutants, err := readMutants(patches, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := repositoryCopy{dir: filepath.Join(t.TempDir(), "copy"), timeout: time.Minute}
	if err := copyRepository(c.dir, repository); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git", ".bin"} {
		if _, err := os.Stat(filepath.Join(c.dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s was copied: %v", name, err)
		}
	}
	var progress, table bytes.Buffer
	verdicts, err := (&trial{copy: c, progress: &progress}).run(t.Context(), mutants)
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	if len(verdicts) != len(want) {
		t.Fatalf("%d verdicts, want %d", len(verdicts), len(want))
	}
	for i, v := range verdicts {
		if v.name != want[i].name || v.killed != want[i].killed || v.reason != want[i].reason {
			t.Errorf("%s: killed %t, %q; want %s: %t, %q\n%s", v.name, v.killed, v.reason, want[i].name, want[i].killed, want[i].reason, v.output)
		}
		if !strings.Contains(progress.String(), v.name) {
			t.Errorf("%s is not in the progress", v.name)
		}
	}
	for name, text := range sampleFiles {
		if strings.HasPrefix(name, ".") {
			continue
		}
		if got, err := os.ReadFile(filepath.Join(c.dir, name)); err != nil || string(got) != text {
			t.Errorf("%s is not as it was: %v", name, err)
		}
	}
	if ok, err := report(&table, verdicts); ok || err != nil {
		t.Errorf("report = %t, %v with mutants that were not killed", ok, err)
	}
	if ok, err := report(&table, verdicts[:1]); !ok || err != nil {
		t.Errorf("report = %t, %v with all mutants killed", ok, err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRunPattern(t *testing.T) {
	if got, want := runPattern("TestA/one.two"), `^TestA$/^one\.two$`; got != want {
		t.Errorf("runPattern = %s, want %s", got, want)
	}
}
