package main

import (
	"os/exec"
	"testing"
)

// TestPatches_apply: a patch that the code has left behind kills nothing, and nobody would know before the mutants are run.
func TestPatches_apply(t *testing.T) {
	mutants, err := readMutants("..", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		cmd := exec.Command("git", "apply", "--check", m.patch)
		cmd.Dir = "../../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s.patch does not apply to the code as it is: make it anew\n%s", m.name, out)
		}
	}
}
