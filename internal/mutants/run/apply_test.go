package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPatches_apply: a patch that the code has left behind kills nothing, and nobody would know before the mutants are run.
func TestPatches_apply(t *testing.T) {
	patches, err := filepath.Glob("../*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("%d patches: %v", len(patches), err)
	}
	for _, patch := range patches {
		file, err := filepath.Abs(patch)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", "apply", "--check", file)
		cmd.Dir = "../../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not apply to the code as it is: make it anew\n%s", filepath.Base(patch), out)
		}
	}
}
