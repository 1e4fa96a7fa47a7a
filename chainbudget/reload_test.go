package chainbudget_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// patient is how long a test waits for what must come, on a machine that has other work.
const patient = 15 * time.Second

// journal is a slog.Handler's output that may be read while others write it.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// journaled collects what goes to slog.Default while the test runs, from any goroutine.
func journaled(t *testing.T) *journal {
	j := new(journal)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(j, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return j
}

// follower is an SDK that follows a file.
type follower struct {
	*chainbudget.SDK
	t    *testing.T
	path string
	err  error // of New
}

func following(t *testing.T, path string, options ...chainbudget.Option) *follower {
	t.Helper()
	t.Setenv("CHAINBUDGET_MODE", "")
	f := &follower{t: t, path: path}
	f.SDK, f.err = chainbudget.New("checkout", append(options, chainbudget.WithCatalogFile(path))...)
	require.NotNil(t, f.SDK)
	closing(t, f.SDK)
	return f
}

// put replaces a file as a whole.
func put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// until waits for a status.
func (f *follower) until(what string, is func(chainbudget.CatalogStatus) bool) chainbudget.CatalogStatus {
	f.t.Helper()
	var s chainbudget.CatalogStatus
	require.Eventually(f.t, func() bool { s = f.Catalog(); return is(s) }, patient, 2*time.Millisecond, what)
	return s
}

// generation waits until a catalog is in force, and the newest.
func (f *follower) generation(n int) chainbudget.CatalogStatus {
	f.t.Helper()
	return f.until(fmt.Sprint("generation ", n), func(s chainbudget.CatalogStatus) bool { return s.Generation == n && s.Err == nil })
}

// rejected waits until so many changes were refused.
func (f *follower) rejected(n int64) chainbudget.CatalogStatus {
	f.t.Helper()
	return f.until(fmt.Sprint("rejected ", n), func(s chainbudget.CatalogStatus) bool { return s.Rejected == n })
}

// attempts is a catalog whose profile makes so many attempts.
func attempts(n int, more ...string) string {
	return fmt.Sprintf("version: 1\nprofiles: {own: {extends: read-heavy, retry: {max_attempts: %d}}}\n", n) + strings.Join(more, "\n") + "\n"
}

// TestRegression_A126_the_last_good_catalog_stays_whole: what is invalid, half-written or gone changes nothing, is to be seen, and
// is over with the next good one.
func TestRegression_A126_the_last_good_catalog_stays_whole(t *testing.T) {
	log := journaled(t)
	f := following(t, file(t, attempts(2, "dependencies: {payments: {profile: own}}")))
	require.NoError(t, f.err)
	dep, err := f.Dependency("payments", "own")
	require.NoError(t, err)
	first := f.Catalog()
	assert.Equal(t, 1, first.Generation)
	assert.Equal(t, f.path, first.Source)
	assert.Len(t, first.Digest, 8)
	assert.WithinDuration(t, time.Now(), first.Since, patient)
	assert.NoError(t, first.Err)
	assert.Zero(t, first.Rejected)

	inForce, refused, told := first, int64(0), []string(nil)
	for _, bad := range []struct {
		name, says string
		change     func()
	}{
		{"invalid", "attempst", func() { put(t, f.path, strings.Replace(attempts(3), "max_attempts", "max_attempst", 1)) }},
		{"half_written", "YAML", func() {
			text := attempts(3)
			require.NoError(t, os.WriteFile(f.path, []byte(text[:len(text)/2]), 0o600))
		}},
		{"empty", "empty", func() { require.NoError(t, os.Truncate(f.path, 0)) }},
		{"deleted", "no such file", func() { require.NoError(t, os.Remove(f.path)) }},
		{"no_file", "no catalog file", func() { require.NoError(t, os.Mkdir(f.path, 0o750)) }},
		{"unreadable", "too many levels", func() {
			require.NoError(t, os.Remove(f.path))
			require.NoError(t, os.Symlink(f.path, f.path)) // for root too
		}},
		{"without_a_profile_in_use", "does not fit this service", func() {
			require.NoError(t, os.Remove(f.path))
			put(t, f.path, "version: 1\nchain: {budget: 9}\n")
		}},
	} {
		bad.change()
		refused++
		s := f.until(bad.name, func(s chainbudget.CatalogStatus) bool {
			return s.Rejected >= refused && s.Err != nil && strings.Contains(s.Err.Error(), bad.says)
		})
		refused = s.Rejected // a state between, such as no file, may have been seen too
		s.Err, s.Rejected = nil, 0
		assert.Equal(t, inForce, s, "%s: generation, digest, source and time are the last good one's", bad.name)
		assert.Equal(t, 2, dep.Profile().Retry.Attempts(), bad.name)
		_, end := chainbudget.Start(context.Background(), f.SDK)
		end()
		told = append(told, bad.says)
	}
	assert.Equal(t, int64(7*3), f.Totals().Minted, "no catalog was applied in part")

	put(t, f.path, attempts(3))
	next := f.generation(2)
	assert.NotEqual(t, first.Digest, next.Digest)
	assert.True(t, next.Since.After(first.Since))
	assert.Equal(t, refused, next.Rejected)
	assert.Equal(t, 3, dep.Profile().Retry.Attempts())
	require.NoError(t, f.Close()) // which waits for the log
	for _, what := range told {
		assert.Contains(t, log.String(), what)
	}
	assert.Equal(t, 1, strings.Count(log.String(), "another catalog is in force"), log.String())
}

// TestRegression_A126_requests_keep_their_profile, with the calls that they have not made yet.
func TestRegression_A126_requests_keep_their_profile(t *testing.T) {
	var mu sync.Mutex
	var events []chainbudget.Event
	catalog := func(n int) string {
		return fmt.Sprintf("version: 1\nprofiles: {own-%d: {extends: no-retry}}\ndependencies: {a: {profile: own-%[1]d}, b: {profile: own-%[1]d}}\n", n)
	}
	f := following(t, file(t, catalog(1)), chainbudget.WithObserver(func(e chainbudget.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}))
	call := func(ctx context.Context, name string, during func()) {
		dep, err := f.Dependency(name, "")
		require.NoError(t, err)
		assert.Error(t, chainbudget.Do(ctx, dep, func(context.Context) error { during(); return errors.New("no") }))
	}
	nothing := func() {}
	old, end := chainbudget.Start(context.Background(), f.SDK)
	defer end()
	call(old, "a", func() { put(t, f.path, catalog(2)); f.generation(2) }) // a call in flight
	call(old, "b", nothing)                                                // a dependency that was not known before
	young, end := chainbudget.Start(context.Background(), f.SDK)
	defer end()
	call(young, "a", nothing)
	call(young, "b", nothing)
	var used []string
	for _, e := range events {
		used = append(used, e.Profile)
	}
	assert.Equal(t, []string{"own-1", "own-1", "own-2", "own-2"}, used)
}

// TestReload_what_people_and_machines_do_to_files, one after the other.
func TestReload_what_people_and_machines_do_to_files(t *testing.T) {
	t.Run("replaced_by_an_editor", func(t *testing.T) {
		f := following(t, file(t, attempts(1)))
		for n := 2; n < 5; n++ {
			require.NoError(t, os.Rename(f.path, f.path+"~")) // the backup first, as vim does
			put(t, f.path, attempts(n))
			f.generation(n)
		}
	})
	t.Run("written_slowly", func(t *testing.T) {
		f := following(t, file(t, attempts(1)))
		text := attempts(2)
		w, err := os.Create(f.path)
		require.NoError(t, err)
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		for i := range len(text) {
			_, err := w.WriteString(text[i : i+1])
			require.NoError(t, err)
			<-tick.C
		}
		require.NoError(t, w.Close())
		f.until("all of it", func(s chainbudget.CatalogStatus) bool { return s.Err == nil && s.Generation > 1 })
		dep, err := f.Dependency("d", "own")
		require.NoError(t, err)
		assert.Equal(t, 2, dep.Profile().Retry.Attempts())
	})
	t.Run("a_config_map", func(t *testing.T) {
		dir := t.TempDir()
		version := func(n int) {
			name := fmt.Sprint("..2026_", n)
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o750))
			put(t, filepath.Join(dir, name, "catalog.yaml"), attempts(n))
			require.NoError(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
			require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
			_ = os.RemoveAll(filepath.Join(dir, fmt.Sprint("..2026_", n-1)))
		}
		version(1)
		require.NoError(t, os.Symlink("..data/catalog.yaml", filepath.Join(dir, "catalog.yaml")))
		f := following(t, filepath.Join(dir, "catalog.yaml"))
		whole := following(t, dir)
		for n := 2; n < 5; n++ {
			version(n)
			assert.Zero(t, f.generation(n).Rejected)
			assert.Zero(t, whole.generation(n).Rejected)
		}
	})
	t.Run("a_folder", func(t *testing.T) {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "chain.yaml"), "version: 1\nchain: {budget: 2}\n")
		f := following(t, dir)
		require.NoError(t, f.err)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "profiles"), 0o750))
		put(t, filepath.Join(dir, "profiles", "own.yaml"), attempts(4))
		f.generation(2)
		dep, err := f.Dependency("d", "own")
		require.NoError(t, err)
		assert.Equal(t, 4, dep.Profile().Retry.Attempts())
		for n, name := range []string{"dependencies", "services"} { // whatever profiles.LoadFile reads is watched
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o750))
			put(t, filepath.Join(dir, name, "d.yaml"), "version: 1\n"+[]string{"dependencies: {d: {owner: us}}\n", "services: {d: {serves: [d]}}\n"}[n])
			f.generation(3 + n)
		}
		put(t, filepath.Join(dir, "profiles", "twice.yaml"), attempts(4))
		s := f.rejected(1)
		assert.ErrorContains(t, s.Err, "twice.yaml")
		require.NoError(t, os.Remove(filepath.Join(dir, "profiles", "twice.yaml")))
		f.until("good again", func(s chainbudget.CatalogStatus) bool { return s.Err == nil && s.Generation == 4 })
	})
	t.Run("touched", func(t *testing.T) {
		f := following(t, file(t, attempts(1)))
		before := f.Catalog()
		put(t, f.path, "# nothing new\n"+attempts(1))
		require.NoError(t, os.Chtimes(f.path, time.Now(), time.Now()))
		put(t, f.path, "bad")
		f.rejected(1)
		put(t, f.path, attempts(1)+"# nothing new")
		after := f.until("good again", func(s chainbudget.CatalogStatus) bool { return s.Err == nil })
		before.Rejected = 1
		assert.Equal(t, before, after)
		put(t, f.path, attempts(2))
		f.generation(2)
	})
	t.Run("a_relative_path", func(t *testing.T) {
		dir := t.TempDir()
		t.Chdir(dir)
		put(t, "catalog.yaml", attempts(1))
		f := following(t, "./catalog.yaml")
		require.NoError(t, f.err)
		t.Chdir(t.TempDir())
		put(t, filepath.Join(dir, "catalog.yaml"), attempts(2))
		assert.True(t, filepath.IsAbs(f.generation(2).Source))
	})
}

// TestReload_begins_with_a_bad_file: it works on the embedded catalog until the file is good.
func TestReload_begins_with_a_bad_file(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etc", "catalog.yaml")
	f := following(t, path)
	require.ErrorIs(t, f.err, os.ErrNotExist)
	s := f.Catalog()
	assert.ErrorIs(t, s.Err, os.ErrNotExist)
	assert.Equal(t, 1, s.Generation)
	assert.Equal(t, "builtin.yaml", s.Source)
	assert.Zero(t, s.Rejected, "nothing had changed")
	dep, err := f.Dependency("payments", "own")
	require.Error(t, err)
	assert.Equal(t, profiles.NoRetry, dep.Profile().Name)

	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o750))
	put(t, path, attempts(3))
	assert.Equal(t, path, f.generation(2).Source)
	assert.EqualValues(t, "own", dep.Profile().Name)
	again, err := f.Dependency("payments", "own")
	assert.NoError(t, err)
	assert.Same(t, dep, again)
}

// TestReload_warns_once_for_each_error.
func TestReload_warns_once_for_each_error(t *testing.T) {
	log := journaled(t)
	f := following(t, file(t, attempts(1)))
	for n := range int64(3) {
		put(t, f.path, "first: bad")
		f.rejected(2*n + 1)
		put(t, f.path, "second: bad")
		f.rejected(2*n + 2)
		put(t, f.path, attempts(int(n)+2))
		f.generation(int(n) + 2)
	}
	require.NoError(t, f.Close())
	assert.Equal(t, 2, strings.Count(log.String(), "the last good one stays"), log.String())
	assert.Equal(t, 3, strings.Count(log.String(), "another catalog is in force"), log.String())
}

// TestReload_warns_of_oversights, once for each, of the first catalog as of later ones.
func TestReload_warns_of_oversights(t *testing.T) {
	const warned = "version: 1\nprofiles: {own: {extends: read-heavy, retry: {max_attempts: 4, attempt_timeout: 1s, timeout: 2s}%s}}\n"
	log := journaled(t)
	f := following(t, file(t, fmt.Sprintf(warned, "")))
	require.NoError(t, f.err)
	require.Len(t, f.Catalog().Warnings, 1)
	text := f.Catalog().Warnings[0].String()
	assert.Equal(t, 1, strings.Count(log.String(), text), log.String())
	put(t, f.path, fmt.Sprintf(warned, ", availability_floor: 61%"))
	assert.Len(t, f.generation(2).Warnings, 1)
	put(t, f.path, fmt.Sprintf(warned, ", budget: {fund: requests}"))
	more := f.generation(3).Warnings
	require.NoError(t, f.Close())
	assert.Greater(t, len(more), 1)
	assert.Equal(t, 1, strings.Count(log.String(), text), log.String())
	assert.Equal(t, len(more), strings.Count(log.String(), "likely a mistake"), log.String())
}

// TestReload_pins: a catalog that comes to pin another profile than code names wins and says so; where that is an error, it
// is refused.
func TestReload_pins(t *testing.T) {
	log := journaled(t)
	path := file(t, attempts(1))
	f := following(t, path)
	strict := following(t, path, chainbudget.WithStrict())
	for _, sdk := range []*follower{f, strict} {
		_, err := sdk.Dependency("payments", "own")
		require.NoError(t, err)
	}
	put(t, path, attempts(1, "dependencies: {payments: {profile: write-path}}"))
	f.generation(2)
	assert.ErrorContains(t, strict.rejected(1).Err, "write-path")
	require.NoError(t, f.Close())
	assert.Equal(t, 1, strings.Count(log.String(), `msg="chainbudget: the catalog pins another profile than the code names"`), log.String())
	dep, err := strict.Dependency("payments", "own")
	require.NoError(t, err)
	assert.EqualValues(t, "own", dep.Profile().Name)
}

// TestClose_ends_the_following: TestMain finds the goroutines that are left.
func TestClose_ends_the_following(t *testing.T) {
	path := file(t, attempts(1))
	for n := range 20 {
		sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(path))
		require.NoError(t, err)
		put(t, path, attempts(n+1))
		before := sdk.Catalog()
		require.NoError(t, sdk.Close())
		require.NoError(t, sdk.Close())
		closed := sdk.Catalog()
		assert.GreaterOrEqual(t, closed.Generation, before.Generation)
		put(t, path, attempts(n+50))
		assert.Equal(t, closed, sdk.Catalog())
	}
	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(file(t, "bad")), chainbudget.WithStrict())
	assert.Nil(t, sdk)
	assert.Error(t, err)
}

func TestWithCatalogFS(t *testing.T) {
	fsys := fstest.MapFS{
		"retry/catalog.yaml":      {Data: []byte("version: 1\nchain: {budget: 7}\n")},
		"retry/profiles/own.yaml": {Data: []byte(attempts(2))},
		"bad.yaml":                {Data: []byte("version: 1\nchian: {}\n")},
	}
	for path, minted := range map[string]int64{"retry/catalog.yaml": 7, "retry": 7} {
		sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFS(fsys, path), chainbudget.WithStrict())
		require.NoError(t, err)
		_, end := chainbudget.Start(context.Background(), sdk)
		end()
		assert.Equal(t, minted, sdk.Totals().Minted)
		assert.Equal(t, path, sdk.Catalog().Source)
	}
	for _, bad := range []chainbudget.Option{
		chainbudget.WithCatalogFS(fsys, "bad.yaml"), chainbudget.WithCatalogFS(fsys, "none.yaml"), chainbudget.WithCatalogFS(fsys, ""),
		chainbudget.WithCatalogFS(nil, "catalog.yaml"),
	} {
		sdk, err := chainbudget.New("checkout", bad)
		require.Error(t, err)
		assert.Equal(t, err.Error(), sdk.Catalog().Err.Error())
		assert.Equal(t, "builtin.yaml", sdk.Catalog().Source)
	}
	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFS(fsys, "retry"), chainbudget.WithCatalogFile("catalog.yaml"))
	assert.NotNil(t, sdk)
	assert.ErrorContains(t, err, "give one")
}

func TestCatalog_of_a_nil_or_zero_SDK(t *testing.T) {
	for _, sdk := range []*chainbudget.SDK{nil, new(chainbudget.SDK)} {
		assert.Zero(t, sdk.Catalog())
		assert.ErrorContains(t, sdk.KeepEdges("x"), "New")
	}
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	s := sdk.Catalog()
	assert.Equal(t, chainbudget.CatalogStatus{
		Generation: 1, Source: "builtin.yaml", Digest: profiles.Builtin().Digest(), Since: s.Since,
	}, s)
}

func TestRecorder_Swap(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(attempts(4)))
	dep := rec.Dependency("db", "own")
	old := started(t, rec)
	rec.Swap(attempts(1))
	runs, _ := run(started(t, rec), dep, 99, context.DeadlineExceeded, chainbudget.Idempotent())
	assert.Equal(t, 1, runs)
	runs, _ = run(old, dep, 99, context.DeadlineExceeded, chainbudget.Idempotent())
	assert.Equal(t, 4, runs)
	assert.Equal(t, 2, rec.SDK.Catalog().Generation)
	assert.Equal(t, ownership.ReasonNoPolicy, rec.Reasons()[0])
}
