package tools

import (
	"os/exec"
	"strings"
	"testing"
)

// A linter that finds nothing because it was built or configured wrong looks like clean code.
func TestStaticcheckFindsADefect(t *testing.T) {
	out, err := exec.Command("go", "tool", "staticcheck", "./testdata/defect").CombinedOutput()
	if err == nil {
		t.Fatalf("staticcheck accepted a file with a defect:\n%s", out)
	}
	if !strings.Contains(string(out), "SA4003") {
		t.Errorf("staticcheck did not report SA4003: %v\n%s", err, out)
	}
}
