package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	diff = "--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-a\n+b\n"
	top  = "# rule: I1\n# A lease is copied.\n"
)

func TestParseTarget(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want target
	}{
		"plain":             {"# test: ./purse TestI1\n" + diff, target{"purse", "TestI1"}},
		"other_comments":    {"# I1: a lease is copied\n#\n# test:  purse/   TestI1/deep_tree \n\n" + diff, target{"purse", "TestI1/deep_tree"}},
		"top_package":       {"# test: . TestI1\n" + diff, target{".", "TestI1"}},
		"fuzz_seeds":        {"# test: wire FuzzRead\n" + diff, target{"wire", "FuzzRead"}},
		"header_in_diff":    {"# test: wire TestA\n" + diff + "# test: other TestB\n", target{"wire", "TestA"}},
		"git_header_before": {"# test: wire TestA\ndiff --git a/x.go b/x.go\n" + diff, target{"wire", "TestA"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseTarget(tc.text)
			if err != nil || got != tc.want {
				t.Errorf("parseTarget = %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, problem string }{
		"empty":         {"", "no line"},
		"no_header":     {diff, "no line"},
		"after_diff":    {diff + "# test: purse TestI1\n", "no line"},
		"one_word":      {"# test: TestI1\n" + diff, "line 1"},
		"three_words":   {"\n# test: purse TestI1 TestI2\n" + diff, "line 2"},
		"two_headers":   {"# test: purse TestI1\n# test: purse TestI2\n" + diff, "want one"},
		"no_test":       {"# test: purse BenchmarkI1\n" + diff, "no name of a test"},
		"outside":       {"# test: ../purse TestI1\n" + diff, "not below"},
		"outside_clean": {"# test: ./a/../../purse TestI1\n" + diff, "not below"},
		"absolute":      {"# test: /purse TestI1\n" + diff, "not below"},
		"no_diff":       {"# test: purse TestI1\n", "no hunk"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseTarget(tc.text); err == nil || !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("parseTarget = %v, %v; want an error with %q", got, err, tc.problem)
			}
		})
	}
}

func TestReadMutants(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readMutants(dir, nil); err == nil {
		t.Errorf("no patch at all gives %v and no error", got)
	}
	write("wire/b.patch", top+"# test: b TestB\n"+diff)
	write("a.patch", top+"# test: a TestA\n"+diff)
	write("notes.txt", "")
	got, err := readMutants(dir, nil)
	if err != nil || len(got) != 2 || got[0].name != "a" || got[1].name != "wire/b" || got[1].test != "TestB" || !filepath.IsAbs(got[0].patch) {
		t.Errorf("readMutants = %+v, %v; want a and b", got, err)
	}
	if got[1].says != "A lease is copied." || len(got[1].rules) != 1 || got[1].rules[0] != "I1" {
		t.Errorf("%+v, want the rule and the sentence", got[1])
	}
	for _, wanted := range []string{"b", "wire/b", "wire", "wire/"} {
		if got, err := readMutants(dir, []string{wanted}); err != nil || len(got) != 1 || got[0].name != "wire/b" {
			t.Errorf("readMutants of %s = %+v, %v", wanted, got, err)
		}
	}
	write("ruled.patch", "# A lease is copied.\n# test: a TestA\n"+diff)
	write("mute.patch", "# rule: I1\n# test: a TestA\n"+diff)
	write("empty.patch", "# rule:\n# A lease is copied.\n# test: a TestA\n"+diff)
	for name, problem := range map[string]string{"ruled": "# rule:", "mute": "what is broken", "empty": "# rule:"} {
		if got, err := readMutants(dir, []string{name}); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %+v, %v; want an error with %q", name, got, err, problem)
		}
	}
	write("bad.patch", diff)
	_, err = readMutants(dir, []string{"bad", "none"})
	if err == nil || !strings.Contains(err.Error(), "bad.patch") || !strings.Contains(err.Error(), "none.patch") {
		t.Errorf("the error does not name both problems: %v", err)
	}
}
