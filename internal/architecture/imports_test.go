package architecture

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// An allowance is one thing that a package may import, and why. The path is a folder of the root module, or the full
// path of another module's package; it covers the packages below it only where it ends in "/...".
type allowance struct{ path, reason string }

// otelAPI are the packages of the OpenTelemetry API. The SDK that implements it never comes into the root module: a
// library must not choose it for its users.
const otelAPI = "go.opentelemetry.io/otel/..."

// allowed lists each package of the root module and what it may import besides the standard library. Imports point one
// way: adapters → chainbudget → {otelprop → ownership, breaker → profiles}. A new package gets a line here first.
var allowed = map[string][]allowance{
	"ownership": {
		{"internal/ctxkey", "finds the tracker of the request in the context"},
	},
	"profiles": {
		{"go.yaml.in/yaml/v3", "catalogs are YAML; nodes give each problem its line"},
	},
	"breaker": {
		{"profiles", "a breaker is made from a profile's settings"},
		{"internal/rolling", "the window that it decides on"},
		{"github.com/sony/gobreaker/v2", "the state machine under the breaker"},
	},
	"otelprop": {
		{"ownership", "a return carries a claim"},
		{otelAPI, "propagator, baggage, metrics and span events"},
	},

	"internal/ctxkey": {}, // marks in the context that several packages read; below everything
	"internal/engine": {
		{"breaker", "a gate of the decision asks the dependency's breaker"},
		{"internal/ctxkey", "finds the purse in the context"},
		{"internal/edges", "learns and asks who causes whose failures"},
		{"internal/instruments", "metrics observe the counters"},
		{"internal/rolling", "the windows of the availability floor and of what arrives"},
		{"internal/watch", "follows the catalog file"},
		{"otelprop", "purses are filled from requests and answer with returns"},
		{"ownership", "claims, reasons and the tracker of one request"},
		{"profiles", "the decision reads the dependency's profile"},
		{otelAPI, "span events of the decision"},
	},

	"internal/instruments": {
		{"otelprop", "the keys of attributes"},
		{otelAPI, "the meter that observes"},
	},

	"internal/livepage": {
		{"internal/engine", "the numbers that it shows, and the switch"},
		{"ownership", "the words of claims and reasons"},
		{"profiles", "callers with other profiles"},
	},

	"chainbudget": {
		{"internal/edges", "what was learned, as values and as files"},
		{"internal/engine", "the decision and the purse behind the public names"},
		{"internal/livepage", "the page and the switch"},
		{"ownership", "claims in errors and decisions"},
		{"profiles", "the catalog that New loads"},
		{otelAPI, "options take providers"},
	},
	"chainbudget/chainbudgettest": {
		{"chainbudget", "makes an SDK for tests"},
		{"internal/engine", "records decisions, replaces the clock of backoff"},
		{"otelprop", "the conformance suite reads and writes the wire"},
		{"ownership", "the conformance suite reads claims"},
		{"profiles", "the conformance suite sets profiles"},
		{otelAPI, "the conformance suite looks for the grant in the context's baggage"},
	},
	"chainbudget/stormlab": {
		{"adapters/budgethttp", "the transport and the handler that run in the lab"},
		{"breaker", "states for the report"},
		{"chainbudget", "the SDK that runs in the lab"},
		{"internal/ctxkey", "finds the call that an attempt belongs to"},
		{"internal/engine", "makes SDKs whose draws are repeatable, and asks how long an attempt may take"},
		{"otelprop", "hands baggage on as a hop without the SDK does"},
		{"profiles", "the catalogs that are compared"},
		{"go.yaml.in/yaml/v3", "scenarios are YAML; nodes give each problem its line"},
	},

	"adapters/budgethttp": {
		{"chainbudget", "the SDK that it adapts"},
		{"internal/engine", "attempts, leases and closing, which only adapters need"},
		{"internal/member", "the member in the context's baggage"},
		{"internal/nethttp", "what net/http does below an attempt without being asked"},
		{"internal/rpc", "counters of those who repeat requests"},
		{"otelprop", "reads and writes every header"},
		{"ownership", "maps statuses and errors to claims"},
		{"profiles", "statuses worth a retry, hints for the delay"},
		{otelAPI, "attributes of the span"},
	},

	"internal/member": {
		{"internal/ctxkey", "finds OpenTelemetry's own key in the context"},
		{"otelprop", "the member's name and limits"},
		{otelAPI, "the baggage in the context"},
	},
	"internal/nethttp": {
		{"internal/ctxkey", "finds net/http's own key in the context"},
	},
	"internal/rpc": {
		{"internal/engine", "requests arrive at it, and are concluded by it"},
		{"internal/member", "the member in the context's baggage"},
		{"otelprop", "reads requests, writes returns"},
		{"ownership", "claims, and the cause of a failure"},
		{"profiles", "deadlines and modes"},
	},
	"internal/connectrpc": {
		{"internal/engine", "calls, attempts and leases"},
		{"internal/member", "the member in the context's baggage"},
		{"internal/nethttp", "what net/http does below an attempt without being asked"},
		{"internal/rpc", "what codes mean, and what pushback says"},
		{"otelprop", "reads and writes every header"},
		{"ownership", "claims and reasons"},
		{"profiles", "codes worth a retry, hints for the delay"},
	},

	"internal/rpctest": {
		{"chainbudget", "starts chains, serves and asks for dependencies"},
		{"chainbudget/chainbudgettest", "makes SDKs for tests"},
	},
	"internal/sabotage": {
		{"chainbudget/chainbudgettest", "the cases that it breaks adapters for"},
		{"internal/member", "headers, whatever the protocol calls them"},
		{"otelprop", "spoils the wire, and spells no name of its own"},
	},
	"internal/testnet": {
		{"otelprop", "tampers with the return's header, and spells no name of its own"},
	},
	"internal/model":  {}, // runs spin and a C compiler
	"internal/tables": {}, // tests only
	"internal/trees":  {}, // tests only

	"internal/watch": {
		{"github.com/fsnotify/fsnotify", "the notifications of each operating system"},
	},
	"internal/edges":   {}, // counts by edge; below everything
	"internal/rolling": {}, // counts over time; below everything

	"internal/architecture": {}, // reads the source, imports none of it
	"internal/mutants/run":  {}, // runs go and git
}

// allowedInTests lists what test files may import beyond what their package may.
var allowedInTests = []allowance{
	{"github.com/stretchr/testify/assert", "comparisons that go on"},
	{"github.com/stretchr/testify/require", "comparisons that end the test"},
	{"go.uber.org/goleak", "no goroutine outlives a call"},
	{"go.opentelemetry.io/otel/...", "propagators and no-op providers to run under"},
	{rootModule + "/...", "an external test may look at the layers above; a cycle does not compile"},
}

// forbidden lists packages of the standard library that nothing but tests may import.
var forbidden = map[string]string{
	"C":         "the SDK is pure Go",
	"plugin":    "there is no mutable registry",
	"unsafe":    "no speed is worth memory errors in everybody's process",
	"math/rand": "use math/rand/v2: seeded for each process, without a lock",
}

func (a allowance) covers(importPath string) bool {
	full := a.path
	if first, _, _ := strings.Cut(full, "/"); !strings.Contains(first, ".") {
		full = rootModule + "/" + full
	}
	if folder, ok := strings.CutSuffix(full, "/..."); ok {
		return under(importPath, folder)
	}
	return importPath == full
}

func TestImportsAreListed(t *testing.T) {
	modules := moduleDirs(t)
	seen := map[string]bool{}         // packages that exist
	used := map[string]map[int]bool{} // package → lines of its list that an import needed
	for _, file := range goFiles(t) {
		for _, name := range file.imports {
			if why, bad := forbidden[name]; bad && !file.test {
				t.Errorf("%s imports %s: %s", file.path, name, why)
			}
		}
		if moduleOf(modules, file.dir) != "." {
			continue
		}
		list, listed := allowed[file.dir]
		if !listed {
			if !seen[file.dir] {
				t.Errorf("package %s has no line in allowed: add it to imports_test.go with what it may import and why", file.dir)
			}
			seen[file.dir] = true
			continue
		}
		seen[file.dir] = true
		for _, name := range file.imports {
			if isStd(name) {
				continue
			}
			line := slices.IndexFunc(list, func(a allowance) bool { return a.covers(name) })
			switch {
			case line >= 0 && !file.test:
				if used[file.dir] == nil {
					used[file.dir] = map[int]bool{}
				}
				used[file.dir][line] = true
			case line >= 0:
			case file.test && slices.ContainsFunc(allowedInTests, func(a allowance) bool { return a.covers(name) }):
			default:
				t.Errorf("%s imports %s, which package %s may not: move the code to the layer that may, or add a line with the reason to imports_test.go", file.path, name, file.dir)
			}
		}
	}
	for dir, list := range allowed {
		if !seen[dir] {
			t.Errorf("package %s is in allowed and not in the repository: remove it from imports_test.go", dir)
			continue
		}
		for i, a := range list {
			if !used[dir][i] {
				t.Errorf("package %s may import %s and does not: remove the line from imports_test.go", dir, a.path)
			}
		}
	}
}

// What allowed permits must itself point one way: no package may be allowed something that may reach back to it.
func TestAllowedImportsHaveNoCycle(t *testing.T) {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(dir string, trail []string)
	visit = func(dir string, trail []string) {
		switch state[dir] {
		case visiting:
			t.Errorf("allowed imports go in a circle: %s", strings.Join(append(trail, dir), " → "))
		case 0:
			state[dir] = visiting
			for _, a := range allowed[dir] {
				if a.reason == "" {
					t.Errorf("package %s may import %s without a reason", dir, a.path)
				}
				if _, ours := allowed[a.path]; ours {
					visit(a.path, append(trail, dir))
				}
			}
			state[dir] = done
		}
	}
	for dir := range allowed {
		visit(dir, nil)
	}
}

// Examples show what a user can write, so they use nothing that a user cannot import.
func TestExamplesUseThePublicAPIOnly(t *testing.T) {
	for _, file := range goFiles(t) {
		if !under(file.dir, "examples") {
			continue
		}
		for _, name := range file.imports {
			inside := under(name, rootModule) && !under(name, rootModule+"/examples")
			if inside && slices.Contains(strings.Split(path.Clean(name), "/"), "internal") {
				t.Errorf("%s imports %s, which no user can", file.path, name)
			}
		}
	}
}
