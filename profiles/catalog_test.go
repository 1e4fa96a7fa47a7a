package profiles

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func mustLoad(t *testing.T, text string) *Catalog {
	t.Helper()
	c, err := Load([]byte(text), "test.yaml")
	require.NoError(t, err)
	return c
}

func TestSample_loads_as_it_is(t *testing.T) {
	c, err := LoadFile("testdata/sample.yaml")
	require.NoError(t, err)
	require.Equal(t, "testdata/sample.yaml", c.Source)
	require.Equal(t, DefaultChain(), c.Chain)
	require.Equal(t, Profile{
		Name: "payments-write", Extends: WritePath,
		Retry:             Retry{MaxAttempts: 2, Statuses: []int{429, 502, 503, 504}, AttemptTimeout: 400 * ms, Repeats: RepeatsCharge},
		Backoff:           Backoff{Base: 200 * ms, ThrottledBase: time.Second, Cap: 20 * time.Second},
		Budget:            Budget{Ratio: 0.1, Fund: FundSuccesses, Burst: 10},
		Breaker:           Breaker{Window: 10 * time.Second, FailureRatio: 0.5, MinRequests: 20, OpenFor: 5 * time.Second, Probes: 3},
		AvailabilityFloor: 0.6,
	}, *c.Profiles["payments-write"])
	require.Equal(t, Dependency{
		Name: "payments", Profile: "payments-write", Owner: "team-ledger", OnFailure: OnFailureClosed,
		Hosts: []string{"payments.internal"}, Mode: ModeEnforce,
	}, *c.Dependencies["payments"])
	require.Equal(t, map[string]Route{"POST /checkout": {Budget: 2}}, c.Service("checkout").Routes)
	require.Equal(t, []string{"payments"}, c.Serves("payments-api"))
	require.Equal(t, []string{"checkout"}, c.Serves("checkout"))
	require.Equal(t, []string{"stranger"}, c.Serves("stranger"))
	require.Equal(t, []string{"*.corp.example.com"}, c.InternalHosts)
	require.Equal(t, Overrides{Dependencies: map[string]bool{"payments": true}}, c.Overrides)
	require.Len(t, c.Profiles, 9)
}

// The table of the built-in profiles, and what they have in common.
func TestBuiltin_numbers(t *testing.T) {
	_, err := load([]file{{name: builtinName, data: builtinFile}}, builtinName, nil)
	require.NoError(t, err)
	c := Builtin()
	require.Same(t, c, Builtin())
	require.Equal(t, []Name{AWSStandard, Background, GoogleSRE, LatencyCritical, NoRetry, ReadHeavy, ThirdParty, WritePath}, c.ProfileNames())
	for _, tt := range []struct {
		name             Name
		attempts         int
		base, throttled  time.Duration
		cap, timeout     time.Duration
		ratio            float64
		failures, floor  float64
		external         bool
		kind             BudgetKind
		fund             Fund
		burst, cost, thr int
	}{
		{ReadHeavy, 4, 50 * ms, time.Second, 5 * time.Second, time.Second, .1, .5, .6, false, BudgetRatio, FundSuccesses, 10, 0, 0},
		{WritePath, 2, 200 * ms, time.Second, 20 * time.Second, 2 * time.Second, .1, .3, .6, false, BudgetRatio, FundSuccesses, 10, 0, 0},
		{LatencyCritical, 2, 10 * ms, 100 * ms, 100 * ms, 250 * ms, .1, .5, .6, false, BudgetRatio, FundSuccesses, 10, 0, 0},
		{Background, 4, time.Second, time.Second, 20 * time.Second, 10 * time.Second, .05, .5, .6, false, BudgetRatio, FundSuccesses, 10, 0, 0},
		{ThirdParty, 3, 500 * ms, time.Second, 20 * time.Second, 5 * time.Second, .1, .5, .6, true, BudgetRatio, FundSuccesses, 10, 0, 0},
		{NoRetry, 1, 50 * ms, time.Second, 20 * time.Second, time.Second, .1, .5, .6, false, BudgetRatio, FundSuccesses, 10, 0, 0},
		{AWSStandard, 3, 50 * ms, time.Second, 20 * time.Second, 0, 0, .5, .6, false, BudgetQuota, FundSuccesses, 500, 14, 5},
		{GoogleSRE, 3, 50 * ms, time.Second, 20 * time.Second, 0, .1, .5, .6, false, BudgetRatio, FundRequests, 10, 0, 0},
	} {
		t.Run(string(tt.name), func(t *testing.T) {
			p := c.Profiles[tt.name]
			require.NoError(t, p.Validate())
			require.Equal(t, tt.attempts, p.Retry.MaxAttempts)
			hint := HintAdd
			statuses := DefaultStatuses()
			if tt.name == AWSStandard {
				hint, statuses = HintClamp, []int{429, 500, 502, 503, 504}
			}
			require.Equal(t, Backoff{tt.base, tt.throttled, tt.cap, hint}, p.Backoff)
			require.Equal(t, statuses, p.Retry.Statuses)
			require.Equal(t, tt.timeout, p.Retry.AttemptTimeout)
			require.Equal(t, Budget{Kind: tt.kind, Ratio: tt.ratio, Fund: tt.fund, Burst: tt.burst, Cost: tt.cost, ThrottledCost: tt.thr}, p.Budget)
			require.Equal(t, Breaker{Window: 10 * time.Second, FailureRatio: tt.failures, MinRequests: 20, OpenFor: 5 * time.Second, Probes: 3}, p.Breaker)
			require.Equal(t, tt.floor, p.AvailabilityFloor)
			require.Equal(t, tt.external, p.External)
			require.False(t, p.Hedge.Enabled())
			require.False(t, p.Throttle.Enabled())
			require.Equal(t, map[Name]int{GoogleSRE: 60}[tt.name], p.ProcessBudget)
			require.Zero(t, p.Retry.Timeout)
			require.Zero(t, p.Retry.Reserve)
		})
	}
}

// Every number of the built-in profiles has its reason beside it: a comment above or behind each line with one.
func TestBuiltin_numbers_have_reasons(t *testing.T) {
	lines := strings.Split(string(builtinFile), "\n")
	number := regexp.MustCompile(`^\s+[a-z_]+: .*[0-9]`)
	for i, line := range lines {
		if !number.MatchString(line) || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		// Neighbours of one statement share its comment.
		j := i - 1
		for number.MatchString(lines[j]) || strings.Contains(lines[j], "fund:") || strings.Contains(lines[j], "kind:") {
			j--
		}
		require.True(t, strings.Contains(line, " # ") || strings.HasPrefix(strings.TrimSpace(lines[j]), "#"), "line %d: %s", i+1, line)
	}
}

// What read-heavy spells out, with reasons, are the defaults of the schema.
func TestBuiltin_explains_the_defaults(t *testing.T) {
	p, d := *Builtin().Profiles[ReadHeavy], Default()
	require.Equal(t, d.Budget, p.Budget)
	require.Equal(t, d.Breaker, p.Breaker)
	require.Equal(t, d.AvailabilityFloor, p.AvailabilityFloor)
	require.Equal(t, d.Retry.Statuses, p.Retry.Statuses)
	require.Equal(t, d.Backoff.Base, p.Backoff.Base)
	require.Equal(t, d.Backoff.ThrottledBase, p.Backoff.ThrottledBase)
}

func TestResolve(t *testing.T) {
	c := mustLoad(t, `
version: 1
chain: {mode: observe}
profiles:
  ours: {extends: read-heavy}
dependencies:
  pinned: {profile: ours, owner: team, on_failure: open, mesh: envoy, mode: budget, external: false}
  unpinned: {external: true}
  vendor: {profile: third-party}
overrides: {dependencies: {pinned: {retries: disabled}, only-code-knows: {retries: disabled}}}
`)
	ours := c.Profiles["ours"]
	tests := []struct {
		name, dependency string
		inCode           Name
		want             Effective
		unknown          bool
	}{
		{"pin_and_code_agree", "pinned", "ours", Effective{Profile: ours, Pinned: true, Owner: "team", OnFailure: OnFailureOpen, Mesh: MeshEnvoy,
			Mode: ModeBudget, External: PlacementInternal, RetriesDisabled: true}, false},
		{"pin_wins", "pinned", WritePath, Effective{Profile: ours, Pinned: true, Differs: true, Owner: "team", OnFailure: OnFailureOpen,
			Mesh: MeshEnvoy, Mode: ModeBudget, External: PlacementInternal, RetriesDisabled: true}, false},
		{"pin_alone", "pinned", "", Effective{Profile: ours, Pinned: true, Owner: "team", OnFailure: OnFailureOpen, Mesh: MeshEnvoy,
			Mode: ModeBudget, External: PlacementInternal, RetriesDisabled: true}, false},
		{"pin_wins_and_typo_is_told", "pinned", "wirte-path", Effective{Profile: ours, Pinned: true, Differs: true, Owner: "team",
			OnFailure: OnFailureOpen, Mesh: MeshEnvoy, Mode: ModeBudget, External: PlacementInternal, RetriesDisabled: true}, true},
		{"no_pin", "unpinned", ReadHeavy, Effective{Profile: c.Profiles[ReadHeavy], Mode: ModeObserve, External: PlacementExternal}, false},
		{"unknown_dependency", "new", "ours", Effective{Profile: ours, Mode: ModeObserve}, false},
		{"override_of_unknown_dependency", "only-code-knows", "ours", Effective{Profile: ours, Mode: ModeObserve, RetriesDisabled: true}, false},
		{"profile_is_external", "vendor", ThirdParty, Effective{Profile: c.Profiles[ThirdParty], Pinned: true, Mode: ModeObserve, External: PlacementExternal}, false},
		{"unknown_profile", "new", "nope", Effective{Profile: c.Profiles[NoRetry], Mode: ModeObserve}, true},
		{"no_profile", "new", "", Effective{Profile: c.Profiles[NoRetry], Mode: ModeObserve}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Dependency, tt.want.InCode = tt.dependency, tt.inCode
			got, err := c.Resolve(tt.dependency, tt.inCode)
			require.Equal(t, tt.want, got)
			if !tt.unknown {
				require.NoError(t, err)
				return
			}
			var unknown *UnknownProfileError
			require.ErrorAs(t, err, &unknown)
			require.Equal(t, c.ProfileNames(), unknown.Known)
			require.Contains(t, err.Error(), "aws-standard, background, google-sre, latency-critical, no-retry, ours, read-heavy, third-party, write-path")
			require.Contains(t, err.Error(), tt.dependency)
		})
	}
	got, err := (&Catalog{}).Resolve("x", ReadHeavy)
	require.Error(t, err)
	require.Equal(t, NoRetry, got.Profile.Name)
	require.Equal(t, ModeEnforce, got.Mode)
}

// TestLoadFile_does_not_wait_for_a_pipe, which nobody may ever write to.
func TestLoadFile_does_not_wait_for_a_pipe(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "catalog.yaml")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer l.Close()
	for _, path := range []string{socket, os.DevNull} {
		_, err := LoadFile(path)
		require.ErrorContains(t, err, "is neither a file nor a folder")
	}
	_, err = LoadFS(os.DirFS(dir), "catalog.yaml")
	require.ErrorContains(t, err, "is neither a file nor a folder")
}

// TestCatalog_nil_is_the_embedded_one: it is what the loader returns beside an error, and nothing panics.
func TestCatalog_nil_is_the_embedded_one(t *testing.T) {
	var none *Catalog
	e, err := none.Resolve("payments", ReadHeavy)
	require.NoError(t, err)
	require.Equal(t, ReadHeavy, e.Profile.Name)
	require.Equal(t, Builtin().Digest(), none.Digest())
	require.Equal(t, Builtin().ProfileNames(), none.ProfileNames())
	require.Equal(t, Builtin().Explain("payments", ReadHeavy), none.Explain("payments", ReadHeavy))
	require.Empty(t, Diff(none, Builtin()))
	require.Empty(t, Diff(Builtin(), none))
	require.Nil(t, none.Service("checkout"))
	require.Equal(t, []string{"checkout"}, none.Serves("checkout"))
	require.True(t, none.Internal("payments"))
	_, ok := none.DependencyForHost("payments")
	require.False(t, ok)
}

func TestOverrides_whole(t *testing.T) {
	c := mustLoad(t, "version: 1\noverrides: {retries: disabled}\n")
	e, err := c.Resolve("any", ReadHeavy)
	require.NoError(t, err)
	require.True(t, e.RetriesDisabled)
}

func TestExtends_in_any_order(t *testing.T) {
	c := mustLoad(t, `
version: 1
profiles:
  c: {extends: b, retry: {max_attempts: 5}}
  b: {extends: a, backoff: {base: 20ms}, breaker: {probes: 1}}
  a: {extends: write-path, breaker: disabled, budget: disabled, availability_floor: 0%, hedge: {after: 50ms, max: 1}}
  d: {extends: a, budget: {burst: 5}, hedge: disabled, retry: {statuses: []}}
  q: {extends: aws-standard, budget: {kind: ratio, burst: 3, ratio: 5%}}
  r: {extends: read-heavy, budget: {burst: 100, kind: quota, cost: 2, throttled_cost: 1}}
`)
	p := c.Profiles["c"]
	require.Equal(t, 5, p.Retry.MaxAttempts)
	require.Equal(t, 20*ms, p.Backoff.Base)
	require.Equal(t, 2*time.Second, p.Retry.AttemptTimeout)
	want := Default().Breaker
	want.Probes = 1
	require.Equal(t, want, p.Breaker, "turned on again, from the defaults")
	require.Equal(t, Budget{}, p.Budget)
	require.False(t, p.Budget.Enabled())
	require.Zero(t, p.AvailabilityFloor)
	require.Equal(t, Hedge{After: 50 * ms, Max: 1}, p.Hedge)
	d := c.Profiles["d"]
	require.Equal(t, Budget{Ratio: 0.1, Burst: 5}, d.Budget)
	require.False(t, d.Breaker.Enabled())
	require.False(t, d.Hedge.Enabled())
	require.Empty(t, d.Retry.Statuses)
	require.False(t, d.Retry.RetryStatus(503))
	require.Equal(t, Budget{Ratio: 0.05, Burst: 3}, c.Profiles["q"].Budget)
	require.Equal(t, Budget{Kind: BudgetQuota, Burst: 100, Cost: 2, ThrottledCost: 1}, c.Profiles["r"].Budget)
	require.True(t, Builtin().Profiles[WritePath].Breaker.Enabled(), "the parent stays as it was")
}

func TestProfile_settings_of_its_kinds(t *testing.T) {
	c := mustLoad(t, `
version: 1
profiles:
  grpc: {extends: read-heavy, budget: {kind: throttle, ratio: 10%, burst: 10}}
  finagle: {extends: read-heavy, budget: {kind: reserve, ratio: 20%, min_per_second: 10, ttl: 10s}}
  back: {extends: finagle, budget: {kind: ratio, ratio: 5%, burst: 3}}
  none: {extends: finagle, budget: disabled}
  again: {extends: none, budget: {burst: 7}}
  slow: {extends: write-path, breaker: {slow_call: 1s, consecutive_failures: 5, max_in_flight: 64}}
  slower: {extends: slow, breaker: {slow_ratio: 30%}}
  calm: {extends: slower, breaker: {slow_call: 0s, consecutive_failures: 0, max_in_flight: 0}}
  throttled: {extends: google-sre, adaptive_throttle: {k: 2}, process_budget: 0, retry: {timeout: 3s}}
  throttled-long: {extends: throttled, adaptive_throttle: {window: 5m}, retry: {timeout: 0s}}
  unthrottled: {extends: throttled, adaptive_throttle: disabled}
`)
	budgets := map[Name]Budget{
		"grpc":    {Kind: BudgetThrottle, Ratio: 0.1, Burst: 10},
		"finagle": {Kind: BudgetReserve, Ratio: 0.2, MinPerSecond: 10, TTL: 10 * time.Second},
		"back":    {Kind: BudgetRatio, Ratio: 0.05, Burst: 3},
		"none":    {},
		"again":   {Ratio: 0.1, Burst: 7},
	}
	for name, want := range budgets {
		require.Equal(t, want, c.Profiles[name].Budget, name)
		require.Equal(t, name != "none", want.Enabled(), name)
	}
	breaker := Builtin().Profiles[WritePath].Breaker
	breaker.SlowCall, breaker.SlowRatio, breaker.ConsecutiveFailures, breaker.MaxInFlight = time.Second, 0.5, 5, 64
	require.Equal(t, breaker, c.Profiles["slow"].Breaker)
	breaker.SlowRatio = 0.3
	require.Equal(t, breaker, c.Profiles["slower"].Breaker)
	require.Equal(t, Builtin().Profiles[WritePath].Breaker, c.Profiles["calm"].Breaker, "the ratio goes with slow_call")
	require.Equal(t, Throttle{K: 2, Window: 2 * time.Minute}, c.Profiles["throttled"].Throttle)
	require.Zero(t, c.Profiles["throttled"].ProcessBudget)
	require.Equal(t, 3*time.Second, c.Profiles["throttled"].Retry.Timeout)
	require.Equal(t, Throttle{K: 2, Window: 5 * time.Minute}, c.Profiles["throttled-long"].Throttle)
	require.Zero(t, c.Profiles["throttled-long"].Retry.Timeout)
	require.Equal(t, Throttle{}, c.Profiles["unthrottled"].Throttle)
	for name, p := range c.Profiles {
		require.NoError(t, p.Validate(), name)
	}
}

func TestChain_settings(t *testing.T) {
	c := mustLoad(t, "version: 1\nchain: {budget: 0, max_budget: 99, orphan_budget: 0, process_budget: 600, deadlines: ignore, mode: bypass, unknown: claim, learn: enforce, holdout: 1%, grace: 2h}\n")
	require.Equal(t, Chain{MaxBudget: 99, ProcessBudget: 600, Deadlines: DeadlinesIgnore, Mode: ModeBypass, Unknown: UnknownClaim, Learn: LearnEnforce,
		Holdout: 0.01, Grace: 2 * time.Hour}, c.Chain)
}

func TestLoadFile_errors(t *testing.T) {
	_, err := LoadFile(filepath.Join(t.TempDir(), "missing.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "chainbudget: catalog: ")
	_, err = LoadFile(t.TempDir())
	require.Error(t, err)

	path := filepath.Join(t.TempDir(), "large.yaml")
	text := "version: 1\n" + strings.Repeat("#\n", MaxFileSize/2-6)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err = LoadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(text+"####"), 0o600))
	_, err = LoadFile(path)
	require.ErrorContains(t, err, "the file is larger than 1048576 bytes")
}

// A catalog is shared: loading another one from the same base leaves the built-in profiles alone.
func TestLoad_does_not_touch_builtins(t *testing.T) {
	before := map[Name]string{}
	for n, p := range Builtin().Profiles {
		before[n] = p.Digest()
	}
	c := mustLoad(t, "version: 1\nprofiles: {mine: {extends: read-heavy, retry: {reserve: 1}}}\n")
	c.Profiles["mine"].Retry.Statuses[0] = 500 // what nobody may do stays where it was done
	for n, p := range Builtin().Profiles {
		require.Equal(t, before[n], p.Digest())
		require.Same(t, p, c.Profiles[n])
	}
	require.Len(t, Builtin().Profiles, 8)
}

func TestSettings_words(t *testing.T) {
	require.Equal(t, "count charge refuse", RepeatsCount.String()+" "+RepeatsCharge.String()+" "+RepeatsRefuse.String())
	require.Equal(t, "retry stop", MissingRetry.String()+" "+MissingStop.String())
	require.Equal(t, "successes requests ratio quota throttle reserve", FundSuccesses.String()+" "+FundRequests.String()+" "+BudgetRatio.String()+" "+
		BudgetQuota.String()+" "+BudgetThrottle.String()+" "+BudgetReserve.String())
	require.Equal(t, "add clamp", HintAdd.String()+" "+HintClamp.String())
	require.Equal(t, "undeclared closed open", OnFailureUndeclared.String()+" "+OnFailureClosed.String()+" "+OnFailureOpen.String())
	require.Equal(t, "propagate ignore compare claim", DeadlinesPropagate.String()+" "+DeadlinesIgnore.String()+" "+UnknownCompare.String()+" "+UnknownClaim.String())
	require.Equal(t, "by host, internal, external", PlacementByHost.String()+", "+PlacementInternal.String()+", "+PlacementExternal.String())
	require.Equal(t, "invalid(77)", Mode(77).String())
	require.Equal(t, "inherit", ModeInherit.String())
	for _, m := range []Mode{ModeBypass, ModeObserve, ModeBudget, ModeEnforce} {
		got, ok := ParseMode(m.String())
		require.True(t, ok)
		require.Equal(t, m, got)
	}
	for _, s := range []string{"", "inherit", "off", "Enforce"} {
		_, ok := ParseMode(s)
		require.False(t, ok, s)
	}
}

// A setting that the digest forgets could differ unseen: every field of Profile must change it.
func TestDigest_covers_every_field(t *testing.T) {
	base := *Builtin().Profiles[ReadHeavy]
	var walk func(v reflect.Value, path string)
	changed := 0
	current := base
	walk = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			f, name := v.Field(i), path+"."+v.Type().Field(i).Name
			if name == ".Name" || name == ".Extends" {
				f.SetString("other")
				require.Equal(t, base.Digest(), current.Digest(), name)
				continue
			}
			old := reflect.New(f.Type()).Elem()
			old.Set(f)
			switch f.Kind() {
			case reflect.Struct:
				walk(f, name)
				continue
			case reflect.Int, reflect.Int64:
				f.SetInt(f.Int() + 1)
			case reflect.Uint8:
				f.SetUint(f.Uint() + 1)
			case reflect.Float64:
				f.SetFloat(f.Float() + 0.01)
			case reflect.Bool:
				f.SetBool(!f.Bool())
			case reflect.Slice:
				f.Set(reflect.ValueOf([]int{503}))
			default:
				t.Fatalf("%s: the test does not know its kind", name)
			}
			require.NotEqual(t, base.Digest(), current.Digest(), name)
			changed++
			f.Set(old)
			require.Equal(t, base.Digest(), current.Digest(), name)
		}
	}
	walk(reflect.ValueOf(&current).Elem(), "")
	require.Equal(t, 36, changed)
	require.Len(t, base.settings(), changed)
}

// Other languages, and other releases, must get the same digests: changing one of these is a change of the schema.
func TestDigest_golden(t *testing.T) {
	for name, want := range map[Name]string{
		ReadHeavy: "f3d03064", WritePath: "9b7229f5", LatencyCritical: "b84d895f", Background: "3a96d83c",
		ThirdParty: "0b34efdf", NoRetry: "8e84d9b9", AWSStandard: "2eaf5840", GoogleSRE: "48f4fc95",
	} {
		p := Builtin().Profiles[name]
		require.Equal(t, want, p.Digest(), "%s\n%s", name, p.canonical())
	}
	require.Equal(t, "chainbudget profile v1\n"+
		"backoff.base=200000000\n"+
		"breaker.failure_ratio=0.3\n"+
		"retry.attempt_timeout=2000000000\n"+
		"retry.max_attempts=2\n", Builtin().Profiles[WritePath].canonical())
}

func TestDigest_does_not_see_spelling(t *testing.T) {
	c := mustLoad(t, `
version: 1
profiles:
  a: {retry: {max_attempts: 2, statuses: [503, 429], attempt_timeout: 1500ms}, availability_floor: 33.3%, budget: {ratio: "10%"}}
  b:
    extends: no-retry
    availability_floor: 0.333
    retry:
      attempt_timeout: 1.5s
      statuses: [429, 503]
      max_attempts: 2
`)
	require.Equal(t, c.Profiles["a"].Digest(), c.Profiles["b"].Digest())
	require.Regexp(t, "^[0-9a-f]{8}$", c.Profiles["a"].Digest())
	inCode := *c.Profiles["a"]
	inCode.Retry.Statuses = []int{503, 429}
	require.Equal(t, c.Profiles["a"].Digest(), inCode.Digest())
	require.Equal(t, []int{503, 429}, inCode.Retry.Statuses, "asking changes nothing")
}
