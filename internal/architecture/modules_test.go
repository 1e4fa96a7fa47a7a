package architecture

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rootRequires lists what the root module may require directly, which every user of the SDK then has in the build.
var rootRequires = map[string]string{
	"github.com/fsnotify/fsnotify":    "the catalog file is watched",
	"github.com/sony/gobreaker/v2":    "breaker",
	"github.com/stretchr/testify":     "tests",
	"go.opentelemetry.io/otel":        "API: baggage, propagation, attributes",
	"go.opentelemetry.io/otel/metric": "API: instruments",
	"go.opentelemetry.io/otel/trace":  "API: span events and links",
	"go.uber.org/goleak":              "tests",
	"go.yaml.in/yaml/v3":              "catalogs",
}

// otelFloor is the oldest minor version 1.x of OpenTelemetry without a known vulnerability in the parts that we use.
const otelFloor = 44

type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct {
		Old struct{ Path string }
		New struct{ Path, Version string }
	}
}

func readGoMod(t *testing.T, dir string) goMod {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", filepath.Join(root, dir, "go.mod")).Output()
	if err != nil {
		t.Fatalf("read %s/go.mod: %v", dir, err)
	}
	var mod goMod
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatalf("read %s/go.mod: %v", dir, err)
	}
	return mod
}

// minor returns the minor number of a version v1.x.y, and whether it is one.
func minor(version string) (int, bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) != 3 || parts[0] != "v1" {
		return 0, false
	}
	n, err := strconv.Atoi(parts[1])
	return n, err == nil
}

func TestModulesRequireSafeOTel(t *testing.T) {
	for _, dir := range moduleDirs(t) {
		for _, require := range readGoMod(t, dir).Require {
			if !under(require.Path, "go.opentelemetry.io/otel") {
				continue
			}
			// The parts without a stable version (v0.x) are released together with the stable ones that they require.
			if n, stable := minor(require.Version); stable && n < otelFloor {
				t.Errorf("%s/go.mod requires %s %s: use v1.%d or later, earlier ones have known vulnerabilities", dir, require.Path, require.Version, otelFloor)
			}
		}
	}
}

func TestRootModuleRequiresLittle(t *testing.T) {
	for _, require := range readGoMod(t, ".").Require {
		if _, ok := rootRequires[require.Path]; !ok && !require.Indirect {
			t.Errorf("the root module requires %s: put what needs it into a nested module, or list it in modules_test.go with the reason", require.Path)
		}
	}
}

// A nested module must build as it stands, in the checkout and after release: it requires a real version of the SDK,
// and replaces it by a relative path so that both are always of the same commit.
func TestNestedModulesUseTheCheckout(t *testing.T) {
	for _, dir := range moduleDirs(t) {
		mod := readGoMod(t, dir)
		want := rootModule
		if dir != "." {
			want += "/" + dir
		}
		if mod.Module.Path != want {
			t.Errorf("%s/go.mod names the module %s, want %s", dir, mod.Module.Path, want)
		}
		for _, require := range mod.Require {
			if !under(require.Path, rootModule) {
				continue
			}
			if strings.HasPrefix(require.Version, "v0.0.0") {
				t.Errorf("%s/go.mod requires %s %s: require the next version to be released", dir, require.Path, require.Version)
			}
			replaced := false
			for _, replace := range mod.Replace {
				local := strings.HasPrefix(replace.New.Path, "../") || replace.New.Path == ".."
				replaced = replaced || replace.Old.Path == require.Path && local
			}
			if !replaced {
				t.Errorf("%s/go.mod requires %s without a replace by a relative path", dir, require.Path)
			}
		}
	}
	for _, name := range files(t) {
		if filepath.Base(name) == "go.work" {
			t.Errorf("%s is in the repository: a workspace hides what the go.mod files lack", name)
		}
	}
}

func TestMinor(t *testing.T) {
	for version, want := range map[string]int{"v1.44.0": 44, "v1.9.1-rc.1": 9, "v1.47.0+incompatible": 47, "v0.70.0": -1, "v2.1.0": -1, "v1": -1, "": -1, "v1.x.0": -1} {
		got, ok := minor(version)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("minor(%q) = %d, %t; want %d", version, got, ok, want)
		}
	}
}
