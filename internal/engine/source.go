package engine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/chainbudget/chainbudget-go/internal/watch"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// source is the file or folder that catalogs come from, and what became of the newest one.
type source struct {
	path string
	load func(string) (*profiles.Catalog, error)

	reading sync.Mutex                     // one catalog is read at a time
	told    map[[sha256.Size]byte]struct{} // what was warned of; guarded by reading

	mu       sync.Mutex
	watcher  *watch.Watcher // nil = nobody follows
	err      error          // why the newest is not in force
	rejected int64
	closed   bool
}

// maxTold bounds the texts that are remembered. A file that is wrong in more ways is warned of again.
const maxTold = 256

// Status is what can be seen of the catalog in force.
type Status struct {
	Generation *Generation
	Err        error // why the newest one is not in force, nil if it is
	Rejected   int64 // changes that were refused
}

// Follow puts every valid catalog that comes to stand at path in force. It is called once, before s is shared; Close ends
// it.
func (s *SDK) Follow(path string) {
	f := &s.source
	f.path, f.load = path, profiles.LoadFile
	watcher := watch.New(path, s.reload)
	f.mu.Lock()
	f.watcher = watcher
	f.mu.Unlock()
	s.reload() // it may have changed between the reading and the watching
}

// CatalogStatus tells which catalog is in force, and why not the newest.
func (s *SDK) CatalogStatus() Status {
	f := &s.source
	f.mu.Lock()
	defer f.mu.Unlock()
	return Status{Generation: s.Generation(), Err: f.err, Rejected: f.rejected}
}

// reload reads the catalog and puts it in force as a whole, or leaves everything as it is.
func (s *SDK) reload() {
	f := &s.source
	f.reading.Lock()
	defer f.reading.Unlock()
	c, err := f.read()
	if err == nil && c.Digest() == s.Generation().Digest() {
		c = nil
	}
	switch swapped, refused := s.renew(c, err); {
	case refused != nil:
		if f.tell(refused.Error()) {
			g := s.Generation()
			s.warn("chainbudget: the newest catalog is not in force, the last good one stays", "error", refused,
				"in_force", g.catalog.Source, "digest", g.Digest(), "generation", g.number)
		}
	case swapped:
		g := s.Generation()
		s.info("chainbudget: another catalog is in force", "source", g.catalog.Source, "digest", g.Digest(), "generation", g.number)
		s.warnOfPins(g)
		s.warnOfOversights(g)
	}
}

// WarnOfOversights warns of what the catalog says that is likely a mistake, once for each.
func (s *SDK) WarnOfOversights() {
	s.source.reading.Lock()
	defer s.source.reading.Unlock()
	s.warnOfOversights(s.Generation())
}

func (s *SDK) warnOfOversights(g *Generation) {
	for _, p := range g.catalog.Warnings {
		if text := p.String(); s.source.tell(text) {
			s.warn("chainbudget: the catalog says what is likely a mistake", "warning", text)
		}
	}
}

// read reads the newest catalog. It runs on a goroutine that is nobody's, where a panic would end the user's process.
func (f *source) read() (c *profiles.Catalog, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, fmt.Errorf("chainbudget: catalog %.200q is not readable: %.200v", f.path, p)
		}
	}()
	return f.load(f.path)
}

// renew swaps the catalog, unless there is an error or nothing new (nil), and notes what came of it. The error is returned
// if it is another one than before.
func (s *SDK) renew(c *profiles.Catalog, err error) (swapped bool, refused error) {
	f := &s.source
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false, nil
	}
	if c != nil {
		if err = s.strictPins(c); err == nil {
			err = s.Swap(c)
		}
		swapped = err == nil
	}
	before := f.err
	f.err = err
	if err == nil || before != nil && before.Error() == err.Error() {
		return swapped, nil
	}
	f.rejected++
	return false, err
}

// tell reports whether a text is told for the first time.
func (f *source) tell(text string) bool {
	key := sha256.Sum256([]byte(text))
	if _, before := f.told[key]; before {
		return false
	}
	if f.told == nil || len(f.told) >= maxTold {
		f.told = make(map[[sha256.Size]byte]struct{}, 1)
	}
	f.told[key] = struct{}{}
	return true
}

// close ends the following, and returns when nothing of it runs any more.
func (f *source) close() {
	f.mu.Lock()
	f.closed = true
	watcher := f.watcher
	f.mu.Unlock()
	watcher.Close()
}

// strictPins returns an error for each dependency for which the catalog pins another profile than code names, where that is
// one.
func (s *SDK) strictPins(c *profiles.Catalog) error {
	if !s.strict {
		return nil
	}
	var problems []error
	for _, d := range s.all() {
		if e, _ := c.Resolve(d.name, d.code()); e.Differs {
			problems = append(problems, PinError(e))
		}
	}
	return errors.Join(problems...)
}

const otherPin = "chainbudget: the catalog pins another profile than the code names"

// PinError says that a dependency's profile is not the one that code names.
func PinError(e profiles.Effective) error {
	return fmt.Errorf("%s: dependency %.64q has %.64q, code says %.64q: name the pinned one in code", otherPin,
		e.Dependency, e.Profile.Name, e.InCode)
}

// WarnOfPin warns of that, once for each dependency.
func (s *SDK) WarnOfPin(e profiles.Effective) {
	s.warnOnce("pin:"+e.Dependency, otherPin, "dependency", e.Dependency, "pinned", e.Profile.Name, "code", e.InCode)
}

// warnOfPins warns of each dependency for which the catalog has come to pin another profile than code names.
func (s *SDK) warnOfPins(g *Generation) {
	for _, d := range s.all() {
		if e, _ := g.catalog.Resolve(d.name, d.code()); e.Differs {
			s.WarnOfPin(e)
		}
	}
}
