package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzCommand gives each command that takes files any file: it ends with one of the three statuses, says something where the
// file is at fault, names the file, and prints what a terminal can show.
func FuzzCommand(f *testing.F) {
	sample, err := os.ReadFile("../../profiles/testdata/sample.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sample)
	f.Add([]byte("version: 1\n"))
	f.Add([]byte("version: 1\nprofiles: {a: {extends: b}, b: {extends: a}}\ndependencies: {\"p\\u001b[31m\": {profile: a}}\n"))
	f.Add([]byte("caller,callee\na,b\nb,a\n"))
	f.Add([]byte("caller,callee,calls\na,b,1e3\n"))
	f.Add([]byte("\xff\xfe\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		file, good := filepath.Join(dir, "fuzzed.yaml"), filepath.Join(dir, "good.yaml")
		for name, data := range map[string][]byte{file: text, good: sample} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{
			{"catalog", "check", file},
			{"catalog", "check", "--format", "json", file},
			{"catalog", "check", "--format", "github", file},
			{"catalog", "diff", good, file},
			{"catalog", "diff", "--format", "json", file, good},
			{"catalog", "explain", "payments", "--catalog", file},
			{"catalog", "explain", "payments", "--catalog", file, "--format", "json"},
			{"runbook", file},
			{"storm", "draft", file},
		} {
			var stdout, stderr bytes.Buffer
			exit := run(args, &stdout, &stderr)
			said := stdout.String() + stderr.String()
			if exit != exitOK && exit != exitFindings && exit != exitUsage || exit != exitOK && said == "" {
				t.Fatalf("%q: exit status %d, %q", args, exit, said)
			}
			if len(said) > 1<<20 {
				t.Fatalf("%q: %d bytes", args, len(said))
			}
			if strings.Contains(said, "unknown flag") || strings.Contains(said, "unknown command") {
				t.Fatalf("%q: %s", args, said)
			}
			if i := strings.IndexFunc(said, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }); i >= 0 && !slices.Contains(args, "json") {
				t.Fatalf("%q prints a control character: %q", args, said[max(0, i-40):min(len(said), i+40)])
			}
		}
	})
}
