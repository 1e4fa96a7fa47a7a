package engine

import (
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

// KeepEdges begins with the edges saved in a file, and saves them there from now on. On an error the SDK starts empty and
// still saves.
func (s *SDK) KeepEdges(path string) error {
	memory, err := edges.Load(path)
	if err == nil {
		s.edges.Remember(memory)
	}
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
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

// Close saves the edges and ends what runs from time to time.
func (s *SDK) Close() error {
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.path == "" {
		return nil
	}
	k.closed = true
	k.timer.Stop()
	return s.save()
}
