package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patient is how long a test waits for what must come, on a machine that has other work.
const patient = 15 * time.Second

// subject is a Watcher with what it told.
type subject struct {
	*Watcher
	t     *testing.T
	calls chan struct{}
}

func watching(t *testing.T, path string, with system) *subject {
	t.Helper()
	s := &subject{t: t, calls: make(chan struct{}, 1000)}
	s.Watcher = start(path, func() { s.calls <- struct{}{} }, with)
	t.Cleanup(s.Close)
	return s
}

// told waits for a call after a change. What was told before the change is forgotten, so each change has to be told.
func (s *subject) told(what string, change func()) {
	s.t.Helper()
	s.quiet()
	change()
	select {
	case <-s.calls:
	case <-time.After(patient):
		s.t.Fatalf("not told: %s", what)
	}
}

// quiet waits until nothing was told for longer than a change takes.
func (s *subject) quiet() {
	for {
		select {
		case <-s.calls:
		case <-time.After(settle + 100*time.Millisecond):
			return
		}
	}
}

// untold fails if a change is told within a time in which it would be.
func (s *subject) untold(what string, change func()) {
	s.t.Helper()
	s.quiet()
	change()
	select {
	case <-s.calls:
		s.t.Errorf("told: %s", what)
	case <-time.After(patience + 2*settle):
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	require.NoError(t, os.Rename(path+".new", path))
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o750))
}

// swap points a link elsewhere as Kubernetes does: a second link takes the first one's place.
func swap(t *testing.T, link, target string) {
	t.Helper()
	require.NoError(t, os.Symlink(target, link+"_tmp"))
	require.NoError(t, os.Rename(link+"_tmp", link))
}

// configMap puts a version of a ConfigMap into a folder, and removes the version before.
func configMap(t *testing.T, folder, version, before string) {
	t.Helper()
	mkdir(t, filepath.Join(folder, version))
	write(t, filepath.Join(folder, version, "catalog.yaml"), version)
	swap(t, filepath.Join(folder, "..data"), version)
	if before != "" {
		require.NoError(t, os.RemoveAll(filepath.Join(folder, before)))
	}
}

// notified hardly looks, polled only looks.
var (
	notified = system{open: fsnotify.NewWatcher, rest: time.Hour, trusted: true}
	polled   = system{open: func() (*fsnotify.Watcher, error) { return nil, errors.New("too many open files") }, rest: time.Hour}
)

// TestWatcher runs everything with notifications alone and by looking alone, so that neither can stand in for the other.
func TestWatcher(t *testing.T) {
	scenarios := map[string]func(t *testing.T, dir string, on func(path string) *subject){
		"written_in_place": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "catalog.yaml")
			write(t, path, "a")
			s := on(path)
			for i := range 3 {
				s.told("a write", func() { write(t, path, fmt.Sprint("content", i)) })
			}
		},
		"replaced_by_an_editor": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "catalog.yaml")
			write(t, path, "a")
			s := on(path)
			for range 3 {
				s.told("a replacement", func() { replace(t, path, "a") })
			}
		},
		"moved_away_and_back": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "catalog.yaml")
			write(t, path, "a")
			s := on(path)
			s.told("gone", func() { require.NoError(t, os.Rename(path, path+"~")) })
			s.told("back", func() { require.NoError(t, os.Rename(path+"~", path)) })
		},
		"deleted_and_back": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "catalog.yaml")
			write(t, path, "a")
			s := on(path)
			for range 2 {
				s.told("deleted", func() { require.NoError(t, os.Remove(path)) })
				s.told("back", func() { write(t, path, "a") })
			}
		},
		"not_there_yet": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "etc", "app", "catalog.yaml")
			s := on(path)
			s.told("the folders come", func() { mkdir(t, filepath.Dir(path)) })
			s.told("the file comes", func() { write(t, path, "a") })
			s.told("the file changes", func() { write(t, path, "bb") })
		},
		"its_folder_deleted_and_back": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "app", "catalog.yaml")
			mkdir(t, filepath.Dir(path))
			write(t, path, "a")
			s := on(path)
			s.told("deleted", func() { require.NoError(t, os.RemoveAll(filepath.Dir(path))) })
			s.told("back", func() { mkdir(t, filepath.Dir(path)); write(t, path, "a") })
			s.told("changed", func() { write(t, path, "bb") })
		},
		"its_folder_replaced": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "app", "catalog.yaml")
			mkdir(t, filepath.Join(dir, "app"))
			mkdir(t, filepath.Join(dir, "next"))
			write(t, path, "a")
			write(t, filepath.Join(dir, "next", "catalog.yaml"), "a")
			s := on(path)
			s.told("replaced", func() {
				require.NoError(t, os.Rename(filepath.Join(dir, "app"), filepath.Join(dir, "old")))
				require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "app")))
			})
			s.told("changed in the new one", func() { write(t, path, "bb") })
		},
		"a_folder_in_its_place": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "catalog.yaml")
			mkdir(t, path)
			s := on(path)
			s.told("a file", func() { require.NoError(t, os.Remove(path)); write(t, path, "a") })
			s.told("a folder", func() { require.NoError(t, os.Remove(path)); mkdir(t, path) })
		},
		"a_file_in_its_folders_place": func(t *testing.T, dir string, on func(string) *subject) {
			folder := filepath.Join(dir, "app")
			path := filepath.Join(folder, "deep", "catalog.yaml")
			write(t, folder, "a file")
			s := on(path)
			s.told("a folder", func() { require.NoError(t, os.Remove(folder)); mkdir(t, filepath.Dir(path)) })
			s.told("the file", func() { write(t, path, "a") })
		},
		"a_link_that_leads_nowhere": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "catalog.yaml")
			require.NoError(t, os.Symlink("catalog.yaml", path)) // unreadable for everybody, root included
			s := on(path)
			s.told("a file", func() { replace(t, path, "a") })
			s.told("a loop", func() { swap(t, path, path) })
			s.told("a link to what is not there", func() { swap(t, path, filepath.Join(dir, "later", "x.yaml")) })
			s.told("there it is", func() { mkdir(t, filepath.Join(dir, "later")); write(t, filepath.Join(dir, "later", "x.yaml"), "a") })
		},
		"what_a_link_points_to": func(t *testing.T, dir string, on func(string) *subject) {
			mkdir(t, filepath.Join(dir, "a"))
			mkdir(t, filepath.Join(dir, "b", "c"))
			target := filepath.Join(dir, "b", "c", "real.yaml")
			write(t, target, "a")
			require.NoError(t, os.Symlink("../b/c", filepath.Join(dir, "a", "there")))
			path := filepath.Join(dir, "a", "catalog.yaml")
			require.NoError(t, os.Symlink(filepath.Join("there", "real.yaml"), path))
			s := on(path)
			s.told("written", func() { write(t, target, "bb") })
			s.told("replaced", func() { replace(t, target, "bb") })
			mkdir(t, filepath.Join(dir, "d"))
			write(t, filepath.Join(dir, "d", "real.yaml"), "bb")
			s.told("the link between points elsewhere", func() { swap(t, filepath.Join(dir, "a", "there"), "../d") })
			s.told("written there", func() { write(t, filepath.Join(dir, "d", "real.yaml"), "ccc") })
		},
		"a_config_map": func(t *testing.T, dir string, on func(string) *subject) {
			configMap(t, dir, "..2026_1", "")
			path := filepath.Join(dir, "catalog.yaml")
			require.NoError(t, os.Symlink(filepath.Join("..data", "catalog.yaml"), path))
			s := on(path)
			for i := 2; i < 5; i++ {
				s.told("the next version", func() { configMap(t, dir, fmt.Sprint("..2026_", i), fmt.Sprint("..2026_", i-1)) })
			}
		},
		"a_config_map_as_a_folder": func(t *testing.T, dir string, on func(string) *subject) {
			configMap(t, dir, "..2026_1", "")
			require.NoError(t, os.Symlink(filepath.Join("..data", "catalog.yaml"), filepath.Join(dir, "catalog.yaml")))
			require.NoError(t, os.Symlink(filepath.Join("..data", "profiles"), filepath.Join(dir, "profiles")))
			s := on(dir)
			for i := 2; i < 5; i++ {
				s.told("the next version", func() { configMap(t, dir, fmt.Sprint("..2026_", i), fmt.Sprint("..2026_", i-1)) })
			}
			folder := filepath.Join(dir, "..2026_4", "profiles")
			s.told("a folder behind a link", func() { mkdir(t, folder) })
			s.told("a file in it", func() { write(t, filepath.Join(folder, "p.yaml"), "a") })
		},
		"a_folder": func(t *testing.T, dir string, on func(string) *subject) {
			write(t, filepath.Join(dir, "chain.yaml"), "a")
			s := on(dir)
			s.told("a file changes", func() { write(t, filepath.Join(dir, "chain.yaml"), "bb") })
			s.told("a file comes", func() { write(t, filepath.Join(dir, "more.yml"), "a") })
			s.told("a file goes", func() { require.NoError(t, os.Remove(filepath.Join(dir, "more.yml"))) })
			for _, sub := range subfolders {
				path := filepath.Join(dir, sub, "payments.yaml")
				s.told("a folder comes with a file", func() { mkdir(t, filepath.Dir(path)); write(t, path, "a") })
				if sub == "profiles" {
					s.told("the file changes", func() { write(t, path, "bb") })
					s.told("the file is replaced", func() { replace(t, path, "bb") })
				}
			}
			s.told("a folder goes", func() { require.NoError(t, os.RemoveAll(filepath.Join(dir, "services"))) })
			s.untold("what is no catalog", func() {
				write(t, filepath.Join(dir, "README.md"), "a")
				write(t, filepath.Join(dir, ".chain.yaml.swp"), "a")
				write(t, filepath.Join(dir, ".hidden.yaml"), "a")
				write(t, filepath.Join(dir, "profiles", "4913"), "a")
				mkdir(t, filepath.Join(dir, "other"))
				write(t, filepath.Join(dir, "other", "x.yaml"), "a")
			})
		},
		"a_link_in_a_folder": func(t *testing.T, dir string, on func(string) *subject) {
			mkdir(t, filepath.Join(dir, "a", "profiles"))
			mkdir(t, filepath.Join(dir, "b"))
			target := filepath.Join(dir, "b", "shared.yaml")
			write(t, target, "a")
			require.NoError(t, os.Symlink(target, filepath.Join(dir, "a", "profiles", "shared.yaml")))
			s := on(filepath.Join(dir, "a"))
			s.told("written", func() { write(t, target, "bb") })
			s.told("replaced", func() { replace(t, target, "bb") })
		},
		"others_beside_it": func(t *testing.T, dir string, on func(string) *subject) {
			path := filepath.Join(dir, "catalog.yaml")
			write(t, path, "a")
			s := on(path)
			s.untold("other files", func() {
				write(t, filepath.Join(dir, "other.yaml"), "a")
				write(t, path+"~", "a")
				mkdir(t, filepath.Join(dir, "profiles"))
			})
		},
		"a_link_above_it": func(t *testing.T, dir string, on func(string) *subject) {
			for _, release := range []string{"1", "2"} {
				mkdir(t, filepath.Join(dir, "releases", release, "etc"))
				write(t, filepath.Join(dir, "releases", release, "etc", "catalog.yaml"), "a")
			}
			require.NoError(t, os.Symlink("releases/1", filepath.Join(dir, "current")))
			s := on(filepath.Join(dir, "current", "etc", "catalog.yaml"))
			s.told("the next release", func() { swap(t, filepath.Join(dir, "current"), "releases/2") })
			s.told("a change of it", func() { write(t, filepath.Join(dir, "releases", "2", "etc", "catalog.yaml"), "bb") })
		},
		"more_folders_than_are_watched": func(t *testing.T, dir string, on func(string) *subject) {
			mkdir(t, filepath.Join(dir, "a"))
			target := func(i int) string { return filepath.Join(dir, fmt.Sprint("b", i), "x.yaml") }
			for i := range maxFolders + 10 {
				mkdir(t, filepath.Dir(target(i)))
				write(t, target(i), "a")
				require.NoError(t, os.Symlink(target(i), filepath.Join(dir, "a", fmt.Sprint("x", i, ".yaml"))))
			}
			s := on(filepath.Join(dir, "a"))
			for i := 0; i < maxFolders+10; i += 68 {
				s.told("a change anywhere", func() { write(t, target(i), "bb") })
			}
		},
	}
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("notified", func(t *testing.T) {
				t.Parallel()
				scenario(t, t.TempDir(), func(path string) *subject { return watching(t, path, notified) })
			})
			t.Run("polled", func(t *testing.T) {
				t.Parallel()
				scenario(t, t.TempDir(), func(path string) *subject { return watching(t, path, polled) })
			})
		})
	}
}

// TestWatcher_a_relative_path is that of the folder in which the process began.
func TestWatcher_a_relative_path(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	mkdir(t, "a/b")
	require.NoError(t, os.Symlink("a/b", "link"))
	s := watching(t, filepath.FromSlash("link/../catalog.yaml"), notified)
	t.Chdir(t.TempDir())
	s.told("the folder above what the link points to", func() { write(t, filepath.Join(dir, "a", "catalog.yaml"), "a") })
}

func TestWatcher_tells_well_within_a_second(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog.yaml")
	s := watching(t, path, system{open: fsnotify.NewWatcher, rest: pollWatched})
	best := time.Hour
	for i := 0; i < 10 && best >= patience; i++ { // the machine may have other work
		var begin time.Time
		s.told("a change", func() { begin = time.Now(); replace(t, path, "a") })
		best = min(best, time.Since(begin))
	}
	assert.Less(t, best, patience)
	assert.GreaterOrEqual(t, best, settle)
}

func TestWatcher_a_slow_writer(t *testing.T) {
	t.Parallel()
	slowly := func(t *testing.T, path string, writes int, more func() bool) {
		f, err := os.Create(path)
		require.NoError(t, err)
		defer f.Close()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; i < writes && more(); i++ {
			_, err := f.WriteString("x")
			require.NoError(t, err)
			<-tick.C
		}
	}
	t.Run("that_ends", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "catalog.yaml")
		var calls, size atomic.Int64
		w := start(path, func() {
			calls.Add(1)
			if info, err := os.Stat(path); err == nil {
				size.Store(info.Size())
			}
		}, notified)
		defer w.Close()
		const writes = 30
		once := func() bool {
			calls.Store(0)
			slowly(t, path, writes, func() bool { return true })
			require.Eventually(t, func() bool { return calls.Load() > 0 && size.Load() == writes }, patient, 10*time.Millisecond)
			return calls.Load() == 1
		}
		told := false
		for i := 0; i < 10 && !told; i++ { // the machine may have other work, and the writer pauses for too long
			told = once()
		}
		assert.True(t, told, "told once, after the end")
	})
	t.Run("that_does_not_end", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "catalog.yaml")
		var calls atomic.Int64
		w := start(path, func() { calls.Add(1) }, notified)
		defer w.Close()
		slowly(t, path, int(patient/(10*time.Millisecond)), func() bool { return calls.Load() < 3 })
		assert.Equal(t, int64(3), calls.Load())
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Greater(t, info.Size(), int64(20), "not after each write")
	})
}

// Until a notification has come, and when a look has seen what nothing told of, it looks often.
func TestWatcher_notifications_that_do_not_come(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog.yaml")
	write(t, path, "a")
	const rest = 4 * time.Second
	var s *subject
	deaf := func() {
		for _, folder := range s.notifier.WatchList() {
			require.NoError(t, s.notifier.Remove(folder))
		}
	}
	often := func(t *testing.T) {
		best := time.Hour
		for i := 0; i < 5 && best >= rest/2; i++ { // the machine may have other work
			var begin time.Time
			s.told("seen by a look", func() { deaf(); begin = time.Now(); write(t, path, fmt.Sprint("ccc", i)) })
			best = min(best, time.Since(begin))
		}
		assert.Less(t, best, rest/2)
	}
	t.Run("from_the_beginning", func(t *testing.T) {
		s = watching(t, path, system{open: fsnotify.NewWatcher, rest: rest})
		often(t)
	})
	t.Run("any_more", func(t *testing.T) {
		s = watching(t, path, system{open: fsnotify.NewWatcher, rest: rest, trusted: true})
		s.told("seen by the slow look", func() { deaf(); write(t, path, "bb") })
		often(t)
	})
}

func TestWatcher_notifications_that_get_lost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog.yaml")
	s := watching(t, path, notified)
	s.told("the queue was full", func() { s.notifier.Errors <- fsnotify.ErrEventOverflow })
	s.told("notified", func() { write(t, path, "a") })
	notifier := s.notifier
	s.told("closed", func() { require.NoError(t, notifier.Close()) })
	s.told("polled", func() { write(t, path, "bb") })

	s = watching(t, path, notified)
	s.told("another error", func() { s.notifier.Errors <- errors.New("bad file descriptor") })
	s.told("polled", func() { write(t, path, "ccc") })
}

// Two changes within the resolution of a file's time look alike; a look tells of the file again when that has passed.
func TestWatcher_a_change_that_cannot_be_seen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog.yaml")
	at := time.Now()
	write(t, path, "a")
	require.NoError(t, os.Chtimes(path, at, at))
	s := watching(t, path, polled)
	s.told("the same size, time and file", func() {
		write(t, path, "b")
		require.NoError(t, os.Chtimes(path, at, at))
	})
	s.untold("once is enough", func() {})
}

func TestClose(t *testing.T) {
	t.Run("waits_for_the_call", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "catalog.yaml")
		running, release := make(chan struct{}), make(chan struct{})
		var after atomic.Bool
		w := New(path, func() {
			running <- struct{}{}
			<-release
			after.Store(true)
		})
		write(t, path, "a")
		<-running
		go func() { release <- struct{}{} }()
		w.Close()
		assert.True(t, after.Load())
		w.Close()
	})
	t.Run("ends_everything", func(t *testing.T) {
		dir := t.TempDir()
		for i := range 50 {
			path := filepath.Join(dir, fmt.Sprint(i, ".yaml"))
			w := New(path, func() {})
			if i%2 == 0 {
				write(t, path, "a")
			}
			w.Close()
		} // TestMain looks for goroutines
	})
	t.Run("nil", func(t *testing.T) {
		assert.NotPanics(t, func() { (*Watcher)(nil).Close() })
	})
}

// Whatever links a folder is full of, a look ends and watches only folders that exist.
func TestLook_links_in_every_direction(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for i := range 30 {
		name := filepath.Join(dir, fmt.Sprint("l", i, ".yaml"))
		target := []string{".", "..", "/", "", "./x/../../y", fmt.Sprint("l", (i*7+3)%30, ".yaml/..")}[i%6]
		if target == "" {
			target = filepath.Join(dir, fmt.Sprint("l", (i+1)%30, ".yaml"))
		}
		require.NoError(t, os.Symlink(target, name))
	}
	v := look(dir)
	for folder := range v.folders {
		info, err := os.Lstat(folder)
		if assert.NoError(t, err) {
			assert.True(t, info.IsDir(), folder)
		}
	}
	assert.True(t, v.like(look(dir)))
}
