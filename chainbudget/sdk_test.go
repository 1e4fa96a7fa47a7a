package chainbudget_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// closing closes an SDK at the end of the test.
func closing(t *testing.T, sdk *chainbudget.SDK) {
	t.Helper()
	t.Cleanup(func() { assert.NoError(t, sdk.Close()) })
}

// logged collects what goes to slog.Default while the test runs.
func logged(t *testing.T) *bytes.Buffer {
	var b bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &b
}

func TestNew_bad_catalog_leaves_a_working_sdk(t *testing.T) {
	bad := file(t, "version: 1\nprofiles: {a: {extends: nothing}}\nchain: {budget: 500}\n")
	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(bad))
	require.NotNil(t, sdk)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "nothing")
	assert.Contains(t, err.Error(), "500", "every problem is listed")
	dep, err := sdk.Dependency("payments", "a")
	require.NotNil(t, dep)
	var unknown *profiles.UnknownProfileError
	assert.ErrorAs(t, err, &unknown)
	assert.Equal(t, profiles.NoRetry, dep.Profile().Name)
	assert.NoError(t, chainbudget.Do(context.Background(), dep, func(context.Context) error { return nil }))
	require.NoError(t, sdk.Close())
}

func TestNew_missing_catalog(t *testing.T) {
	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(filepath.Join(t.TempDir(), "none.yaml")))
	require.NotNil(t, sdk)
	closing(t, sdk)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestNew_strict_returns_only_the_error(t *testing.T) {
	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(file(t, "nonsense: yes")), chainbudget.WithStrict())
	assert.Nil(t, sdk)
	assert.Error(t, err)
}

func TestNew_without_a_name(t *testing.T) {
	sdk, err := chainbudget.New("")
	assert.NotNil(t, sdk)
	assert.ErrorContains(t, err, "name")
}

func TestNew_mode_from_the_environment(t *testing.T) {
	t.Setenv("CHAINBUDGET_MODE", "bypass")
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	dep, err := sdk.Dependency("payments", profiles.ReadHeavy)
	require.NoError(t, err)
	runs, _ := run(context.Background(), dep, 99, context.DeadlineExceeded, chainbudget.Idempotent())
	assert.Equal(t, 1, runs)
	assert.Zero(t, sdk.Totals().Dependencies["payments"].Calls, "nothing of the SDK is in force")

	t.Setenv("CHAINBUDGET_MODE", "off")
	sdk, err = chainbudget.New("checkout")
	require.NotNil(t, sdk)
	assert.ErrorContains(t, err, `"off" is not a mode: use bypass, observe, budget or enforce`)
}

const pinned = "version: 1\ndependencies: {payments: {profile: write-path, owner: team-ledger}}\n"

func TestDependency_pin_wins_and_says_so(t *testing.T) {
	log := logged(t)
	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(file(t, pinned)))
	require.NoError(t, err)
	closing(t, sdk)
	for range 3 {
		dep, err := sdk.Dependency("payments", profiles.ReadHeavy)
		require.NoError(t, err)
		assert.Equal(t, profiles.WritePath, dep.Profile().Name)
	}
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("pins another profile")), "once for each cause: %s", log)

	strict, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(file(t, pinned)), chainbudget.WithStrict())
	require.NoError(t, err)
	closing(t, strict)
	dep, err := strict.Dependency("payments", profiles.ReadHeavy)
	assert.Nil(t, dep)
	assert.ErrorContains(t, err, "write-path")
	_, err = strict.Dependency("payments", profiles.WritePath)
	assert.NoError(t, err)
}

func TestDependency_two_profiles_and_no_pin(t *testing.T) {
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	first, err := sdk.Dependency("payments", profiles.ReadHeavy)
	require.NoError(t, err)
	again, err := sdk.Dependency("payments", profiles.ReadHeavy)
	require.NoError(t, err)
	assert.Same(t, first, again)
	other, err := sdk.Dependency("payments", profiles.WritePath)
	assert.Same(t, first, other, "the first stays in force")
	assert.ErrorContains(t, err, "read-heavy")
	assert.ErrorContains(t, err, "write-path")
}

func TestDependency_unknown_profile_lists_those_that_exist(t *testing.T) {
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	dep, err := sdk.Dependency("payments", "wrote-path")
	require.NotNil(t, dep)
	assert.ErrorContains(t, err, "write-path")
	assert.Equal(t, profiles.NoRetry, dep.Profile().Name)
}

func TestDependency_nil(t *testing.T) {
	var dep *chainbudget.Dependency
	assert.Empty(t, dep.Name())
	assert.Equal(t, 1, dep.Profile().Retry.Attempts())
}

func TestStart_and_Keep(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	assert.Zero(t, chainbudget.Keep(context.Background(), 3))
	ctx, end := chainbudget.Start(context.Background(), rec.SDK)
	assert.Equal(t, 2, chainbudget.Keep(ctx, 2))
	assert.Equal(t, 3, chainbudget.Keep(ctx, 9))
	end()
	end()
	runs, err := run(ctx, rec.Dependency("db", "plain"), 99, context.DeadlineExceeded, chainbudget.Idempotent())
	assert.Equal(t, 1, runs, "an ended chain retries no more")
	assert.ErrorContains(t, err, "settled")
	plain, end := chainbudget.Start(context.Background(), nil)
	assert.Equal(t, context.Background(), plain)
	end()
}

// TestTotals_nothing_is_lost_that_was_not_needed: unused tokens of an entry or an own chain lapse.
func TestTotals_nothing_is_lost_that_was_not_needed(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog))
	for range 10 {
		ctx, end := chainbudget.Start(context.Background(), rec.SDK)
		_, err := run(ctx, rec.Dependency("db", "plain"), 0, nil)
		require.NoError(t, err)
		end()
	}
	totals := rec.SDK.Totals()
	assert.Equal(t, int64(30), totals.Minted)
	assert.Zero(t, totals.Lost)
}

func TestDependency_needs_a_name(t *testing.T) {
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	dep, err := sdk.Dependency("", profiles.ReadHeavy)
	require.NotNil(t, dep)
	assert.ErrorContains(t, err, "no name")
}

func TestSDK_nil_and_zero(t *testing.T) {
	for _, sdk := range []*chainbudget.SDK{nil, new(chainbudget.SDK)} {
		dep, err := sdk.Dependency("payments", profiles.ReadHeavy)
		assert.Nil(t, dep)
		assert.ErrorContains(t, err, "New")
		assert.Zero(t, sdk.Totals())
		assert.Empty(t, sdk.Edges())
		assert.Error(t, sdk.LearnFrom("x"))
		assert.NoError(t, sdk.Close())
		ctx, end := chainbudget.Start(context.Background(), sdk)
		assert.Equal(t, context.Background(), ctx)
		end()
		next := http.NewServeMux()
		assert.Equal(t, http.Handler(next), budgethttp.NewHandler(next, sdk, budgethttp.Entry()))
		assert.Equal(t, http.DefaultTransport, budgethttp.NewRouter(nil, sdk))
	}
}

// What Explain says is what holds in this process: the newest catalog, and the mode that the environment forces.
func TestDependency_Explain(t *testing.T) {
	line := func(d *chainbudget.Dependency, key string) string {
		for _, l := range d.Explain().Lines {
			if l.Key == key {
				return l.Value + " # " + l.From
			}
		}
		return "no line " + key
	}
	path := filepath.Join(t.TempDir(), "catalog.yaml")
	require.NoError(t, os.WriteFile(path, []byte("version: 1\ndependencies: {ledger: {profile: write-path, mode: budget}}\n"), 0o600))
	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(path))
	require.NoError(t, err)
	defer sdk.Close()
	dep, err := sdk.Dependency("ledger", profiles.WritePath)
	require.NoError(t, err)
	assert.Equal(t, "write-path # "+path+":2:34", line(dep, "profile"))
	assert.Equal(t, "budget # "+path+":2:52", line(dep, "mode"))
	assert.Equal(t, "1 # counted by this process; 1 is what it began with", line(dep, "generation"))
	assert.Contains(t, dep.Explain().String(), "retry.max_attempts")

	next, err := profiles.Load([]byte("version: 1\ndependencies: {ledger: {profile: background}}\n"), "next.yaml")
	require.NoError(t, err)
	require.NoError(t, (*engine.SDK)(sdk).Swap(next))
	assert.Equal(t, "background # next.yaml:2:34; code names write-path", line(dep, "profile"))
	assert.Equal(t, "2 # counted by this process; 1 is what it began with", line(dep, "generation"))

	t.Setenv("CHAINBUDGET_MODE", "observe")
	forced, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(path))
	require.NoError(t, err)
	defer forced.Close()
	dep, err = forced.Dependency("ledger", profiles.WritePath)
	require.NoError(t, err)
	assert.Equal(t, "observe # CHAINBUDGET_MODE in the environment", line(dep, "mode"))

	assert.Empty(t, (*chainbudget.Dependency)(nil).Explain().Lines)
}
