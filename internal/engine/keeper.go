package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/edges"
)

// keeper saves the edges from time to time.
type keeper struct {
	mu     sync.Mutex
	path   string // "" = nothing is kept
	timer  *time.Timer
	closed bool
}

// saveEvery is how often the edges are saved; what was learned since is lost in a crash.
const saveEvery = time.Minute

// KeepEdges adds the edges saved in a file to what is known, and saves all there from now on. If they are not readable it
// still saves. After Close, and for a second file, it does nothing but return an error.
func (s *SDK) KeepEdges(path string) error {
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case path == "":
		return errors.New("chainbudget: the file that edges are kept in has no name: give KeepEdges a path")
	case k.closed:
		return errors.New("chainbudget: the SDK is closed: call KeepEdges after New")
	case k.path != "":
		return fmt.Errorf("chainbudget: edges are kept in %.200q already: call KeepEdges once", k.path)
	}
	memory, err := edges.Load(path)
	if err == nil {
		s.edges.Remember(memory)
		// A file that is not there yet is no error, so that a folder that is not there would look the same.
		if _, missing := os.Stat(filepath.Dir(path)); missing != nil {
			err = fmt.Errorf("chainbudget: edges cannot be kept in %.200q: make its folder: %w", path, missing)
		}
	}
	k.path = path
	k.timer = time.AfterFunc(saveEvery, s.saveAgain)
	return err
}

func (s *SDK) saveAgain() {
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	if err := s.save(); err != nil {
		s.warnOnce("edges", "chainbudget: what was learned is not kept", "error", err)
	}
	k.timer.Reset(saveEvery)
}

// save writes the edges, unless nothing was learned: a file that could not be read is not overwritten by nothing. The
// keeper's lock is held.
func (s *SDK) save() error {
	if s.edges.Empty() {
		return nil
	}
	return s.edges.Save(s.keeper.path)
}

// Close ends the following of the catalog, the observation of the numbers and what runs from time to time, and saves the
// edges.
func (s *SDK) Close() error {
	s.source.close()
	s.live.close()
	return errors.Join(s.meters.close(), s.keep())
}

// keep saves the edges for the last time.
func (s *SDK) keep() error {
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	if k.path == "" {
		return nil
	}
	k.timer.Stop()
	return s.save()
}
