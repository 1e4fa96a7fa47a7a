package watch

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	settle   = 100 * time.Millisecond // without a further change, before a change is told
	patience = 500 * time.Millisecond // at most, from the first change that was not told yet

	pollWatched   = 3 * time.Second        // from look to look while notifications come
	pollUnwatched = 500 * time.Millisecond // and while they do not

	// reopen is how long after a failure it is tried again to get notifications: another process may have given some back.
	reopen = 30 * time.Second
	// coarse is how exact the time of a file's last change may be taken, at worst.
	coarse = 2 * time.Second
)

// Watcher tells of changes until it is closed. Its methods may be called by many goroutines at once.
type Watcher struct {
	path    string // absolute
	changed func()
	system  system

	closing sync.Once
	done    chan struct{}
	ended   chan struct{}

	// What follows belongs to the goroutine that watches.
	notifier   *fsnotify.Watcher // nil = there are no notifications
	tried      time.Time         // when it was last tried to get them
	watched    map[string]struct{}
	incomplete bool // some folder is not watched
	heard      bool // a notification came: they do come
	blind      bool // a change was seen that nothing had told of: a network's file system
	view       *view
	taken      time.Time // when view was
}

// New watches the path of a file or a folder and calls changed after each change, on a goroutine of its own, never twice at
// the same time. Changes count from the moment when New returns. New never fails: what cannot be watched is looked at. A
// relative path is one of the present working directory.
func New(path string, changed func()) *Watcher {
	return start(path, changed, system{open: fsnotify.NewWatcher, rest: pollWatched})
}

// system is how changes are noticed.
type system struct {
	open    func() (*fsnotify.Watcher, error)
	rest    time.Duration // between two looks while notifications come
	trusted bool          // they come, although none came yet
}

func start(path string, changed func(), s system) *Watcher {
	if !filepath.IsAbs(path) {
		// Not filepath.Abs: it takes "link/.." for nothing, and the kernel does not.
		if folder, err := os.Getwd(); err == nil {
			path = folder + string(filepath.Separator) + path
		}
	}
	w := &Watcher{path: path, changed: changed, system: s, heard: s.trusted, done: make(chan struct{}), ended: make(chan struct{})}
	w.sync(time.Now())
	go w.run()
	return w
}

// Close ends the watching and returns when no goroutine of it is left; a running call of changed is waited for, so changed
// must not call Close. Nil and closed Watchers can be closed.
func (w *Watcher) Close() {
	if w == nil {
		return
	}
	w.closing.Do(func() { close(w.done) })
	<-w.ended
}

func (w *Watcher) run() {
	defer close(w.ended)
	defer w.lose()
	poll := time.NewTimer(w.pause())
	defer poll.Stop()
	quiet := time.NewTimer(0)
	quiet.Stop()
	defer quiet.Stop()

	var (
		first time.Time // change that was not told yet
		told  bool      // by a notification
		last  *view     // of the poll that saw it
	)
	note := func(now time.Time) {
		if first.IsZero() {
			first = now
		}
		quiet.Reset(min(settle, first.Add(patience).Sub(now)))
	}
	for {
		var events chan fsnotify.Event
		var errs chan error
		if w.notifier != nil {
			events, errs = w.notifier.Events, w.notifier.Errors
		}
		select {
		case <-w.done:
			return
		case e, ok := <-events:
			switch {
			case !ok:
				w.lose()
			case e.Op == 0 || !w.view.matters(e.Name):
				continue
			default:
				w.heard = true
			}
			told = true
			note(time.Now())
		case err, ok := <-errs:
			// Whatever it is, something may have been missed.
			if !ok || !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.lose()
			}
			told = true
			note(time.Now())
		case now := <-poll.C:
			poll.Reset(w.pause())
			if !first.IsZero() {
				continue
			}
			if w.notifier == nil && now.Sub(w.tried) >= reopen {
				before := w.view
				w.sync(now)
				poll.Reset(w.pause())
				if w.notifier != nil || !w.view.like(before) {
					told = true
					note(now)
				}
				continue
			}
			if last = look(w.path); !last.like(w.view) {
				told = false
				note(now)
			} else if w.unsure() && w.young(now) {
				// It was read in the moment in which it changed: a second change in that moment would look the same.
				w.taken = now
				w.changed()
			}
		case now := <-quiet.C:
			if !told {
				v := look(w.path)
				if !v.like(last) && now.Sub(first) < patience-settle {
					last = v
					quiet.Reset(settle)
					continue
				}
				w.blind = true
			}
			first = time.Time{}
			w.sync(now)
			poll.Reset(w.pause())
			w.changed()
		}
	}
}

// pause is how long until the next look.
func (w *Watcher) pause() time.Duration {
	if w.unsure() {
		return pollUnwatched
	}
	return w.system.rest
}

// unsure reports whether there may be changes that nothing tells of. On the file systems of networks and virtual machines
// the watch succeeds and stays silent, so notifications are trusted once one has come.
func (w *Watcher) unsure() bool { return w.notifier == nil || w.incomplete || w.blind || !w.heard }

// young reports whether a file had changed so shortly before the view was taken that its time may be that of a later change
// too, and that this has passed.
func (w *Watcher) young(now time.Time) bool {
	if now.Sub(w.taken) < coarse {
		return false
	}
	for _, m := range w.view.marks {
		if m.info != nil && !m.info.IsDir() && w.taken.Sub(m.info.ModTime()).Abs() < coarse {
			return true
		}
	}
	return false
}

// lose gives the notifications up.
func (w *Watcher) lose() {
	if w.notifier != nil {
		_ = w.notifier.Close()
		w.notifier, w.watched = nil, nil
	}
}

// sync watches what has to be watched now, and then looks: what changes after the look is told of.
func (w *Watcher) sync(now time.Time) {
	if w.notifier == nil && (w.tried.IsZero() || now.Sub(w.tried) >= reopen) {
		w.tried = now
		if n, err := w.system.open(); err == nil {
			w.notifier, w.watched = n, map[string]struct{}{}
		}
	}
	w.view = look(w.path)
	w.taken = time.Now()
	if w.notifier == nil {
		return
	}
	// Links may change between the look and the watch; a few rounds, then the poll has to do.
	for range 5 {
		w.incomplete = !w.watch(w.view)
		before := w.view
		w.view = look(w.path)
		w.taken = time.Now()
		if w.view.sameFolders(before) {
			return
		}
	}
	w.incomplete = true
}

// watch watches the folders of a view and no others. It reports whether it could.
func (w *Watcher) watch(v *view) bool {
	for folder := range w.watched {
		if v.folders[folder] == nil {
			_ = w.notifier.Remove(folder) // it may be gone, and its watch with it
			delete(w.watched, folder)
		}
	}
	complete := true
	for folder := range v.folders {
		if _, before := w.watched[folder]; !before && len(w.watched) >= maxFolders {
			complete = false
			continue
		}
		// Again where it was before: another folder may stand in its place by now.
		if err := w.notifier.Add(folder); err != nil {
			complete = false
			continue
		}
		w.watched[folder] = struct{}{}
	}
	return complete
}
