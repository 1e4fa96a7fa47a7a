package engine

import (
	"context"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/edges"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Config is what New needs. The zero value of every field but Service and Catalog is a default.
type Config struct {
	Service string
	Catalog *profiles.Catalog
	// CatalogErr is why Catalog is not the one that was asked for.
	CatalogErr error
	// Mode, unless it is profiles.ModeInherit, holds for everything, whatever the catalog says.
	Mode profiles.Mode
	// ModeFrom says in explanations who chose Mode.
	ModeFrom string
	// Observe is called for every decision, outside all locks, on the goroutine that decided.
	Observe func(*Event)
	// Warn is called once for each cause of a warning. Nil discards.
	Warn func(message string, attributes ...any)
	// Info is told of each change of the catalog. Nil discards.
	Info func(message string, attributes ...any)
	// Debug is told why each failure was claimed or not. Nil discards.
	Debug func(ctx context.Context, message string, attributes ...any)
	// Random returns a number in [0, n). Nil means math/rand/v2, which the runtime seeds per process.
	Random func(n int64) int64
	// Nonce returns a new nonce. Nil means math/rand/v2 as well.
	Nonce func() uint32
	// Woken is called on the goroutine of each call that has waited, for a backoff or for a token, before it looks at
	// anything that other goroutines write. It is for runs in virtual time that must come out the same again: of two that are
	// woken at one instant, Woken says which comes first. Nil does nothing.
	Woken func(ctx context.Context)
	// NoSleep makes every backoff last no time.
	NoSleep bool
	// Strict makes New and Dependency refuse what they would otherwise warn of.
	Strict bool
}

// SDK is one service's use of the chain budget. All methods may be called by many goroutines at once.
type SDK struct {
	service    string
	started    time.Time
	entrySlug  string // what Entry, orphans and Start write
	callerSlug string
	ownerSlug  string
	generation atomic.Pointer[Generation] // never nil once usable
	forced     profiles.Mode              // profiles.ModeInherit: the catalog decides
	forcedBy   string                     // who says so
	observe    func(*Event)
	warn       func(string, ...any)
	info       func(string, ...any)
	debug      func(context.Context, string, ...any)
	random     func(int64) int64
	nonce      func() uint32
	woken      func(context.Context)
	noSleep    bool
	strict     bool

	process pacer
	pacers  sync.Map // profiles.Name → *pacer: the limits that profiles have of their own
	edges   *edges.Table
	// load counts what arrives and what is rejected; a server that rejects and sees more than retryShare of retries says
	// stop.
	load     load
	nonces   nonces
	counters counters
	labels   labels
	warned   sync.Map // cause -> struct{}

	mismatches mismatches

	mu       sync.Mutex // guards deps, switches, and changes of the generation and of policies
	deps     map[string]*Dependency
	switches switches
	shared   bool // somebody tells a fleet what is counted here; guarded by mu

	next atomic.Pointer[chan struct{}] // closed when another catalog or switch is in force

	source source
	keeper keeper
	live   live
	meters meters
}

// Init makes s usable. It is called once, before s is shared.
func (s *SDK) Init(c Config) {
	s.service, s.started = c.Service, time.Now()
	s.entrySlug = otelprop.Slug(c.Service, otelprop.MaxEntry)
	s.callerSlug = otelprop.Slug(c.Service, otelprop.MaxCaller)
	s.ownerSlug = s.entrySlug
	s.forced, s.forcedBy = c.Mode, c.ModeFrom
	s.observe = c.Observe
	s.warn = c.Warn
	if s.warn == nil {
		s.warn = func(string, ...any) {}
	}
	s.info = c.Info
	if s.info == nil {
		s.info = func(string, ...any) {}
	}
	s.debug = c.Debug
	s.random = c.Random
	if s.random == nil {
		s.random = rand.Int64N
	}
	s.nonce = c.Nonce
	if s.nonce == nil {
		s.nonce = rand.Uint32
	}
	s.woken = c.Woken
	s.noSleep = c.NoSleep
	s.strict = c.Strict
	s.edges = edges.New(0)
	s.load.init()
	s.nonces.start = time.Now()
	s.process.init(c.Catalog.Chain.ProcessBudget)
	s.deps = make(map[string]*Dependency)
	first := make(chan struct{})
	s.next.Store(&first)
	s.labels.own = s.labels.intern(s.ownerSlug)
	s.generation.Store(newGeneration(s, 1, c.Catalog))
	s.source.err = c.CatalogErr
}

// Edges returns what the requests so far have taught.
func (s *SDK) Edges() *edges.Table { return s.edges }

// Service returns the service's name as it was given.
func (s *SDK) Service() string { return s.service }

// Started returns when the SDK was made, from when on everything is counted.
func (s *SDK) Started() time.Time { return s.started }

// Dependencies returns all dependencies by name.
func (s *SDK) Dependencies() []*Dependency { return s.all() }

// Usable reports whether s was made by Init: a nil or zero SDK lets everything pass as if it were not there.
func (s *SDK) Usable() bool { return s != nil && s.generation.Load() != nil }

// Strict reports whether what is usually a warning is an error.
func (s *SDK) Strict() bool { return s.strict }

// Warn warns once for each cause.
func (s *SDK) Warn(cause, message string, attributes ...any) {
	s.warnOnce(cause, message, attributes...)
}

// Dependency returns the dependency of that name, making it at first use. The same name with another profile and no
// pin is an error naming both. The error may come with a dependency that works: it then has a profile that makes one
// attempt.
func (s *SDK) Dependency(name string, inCode profiles.Name) (*Dependency, profiles.Effective, error) {
	return s.dependency(name, inCode, true)
}

// dependency is Dependency. named says that code names it, and not only the catalog.
func (s *SDK) dependency(name string, inCode profiles.Name, named bool) (*Dependency, profiles.Effective, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.generation.Load()
	effective, err := g.catalog.Resolve(name, inCode)
	d := s.deps[name]
	switch {
	case d == nil:
		d = newDependency(g, name, inCode, effective)
		d.unknown = err != nil
		s.deps[name] = d
	case inCode == "" || inCode == d.code():
	case err == nil && (d.code() == "" || d.unknown):
		// A router met the host before any code named a profile, or the name given before does not exist. What was counted
		// so far stays with it.
		d.inCode.Store(inCode)
		d.unknown = false
		p := newPolicy(g, d, effective, false)
		g.policies.Store(d, p)
		d.install(p)
	case effective.Pinned:
		d.rival = inCode
	case err == nil:
		err = twoProfiles(name, d.code(), inCode)
	}
	if named && !d.named {
		s.labels.declare(name)
	}
	d.named = d.named || named
	return d, effective, err
}

// ForHost returns the dependency that the catalog declares for a host, or nil. It is the catalog of the request that ctx
// belongs to.
func (s *SDK) ForHost(ctx context.Context, host string) *Dependency {
	g := s.generation.Load()
	if in := FromContext(ctx); in != nil && in.sdk == s {
		g = in.generation
	}
	name, ok := g.catalog.DependencyForHost(host)
	if !ok {
		return nil
	}
	s.mu.Lock()
	d := s.deps[name]
	s.mu.Unlock()
	if d != nil {
		return d
	}
	d, _, _ = s.dependency(name, "", false)
	return d
}

func (s *SDK) all() []*Dependency {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted()
}

// sorted returns the dependencies by name. The lock is held.
func (s *SDK) sorted() []*Dependency {
	list := make([]*Dependency, 0, len(s.deps))
	for _, d := range s.deps {
		list = append(list, d)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list
}

// warnOnce warns once for each cause.
func (s *SDK) warnOnce(cause, message string, attributes ...any) {
	if _, before := s.warned.LoadOrStore(cause, struct{}{}); !before {
		s.warn(message, attributes...)
	}
}

// CountRejects counts wire input that was not taken as it stood.
func (s *SDK) CountRejects(r *otelprop.Rejects) {
	if *r == (otelprop.Rejects{}) {
		return
	}
	for i, n := range r {
		if n != 0 {
			s.counters.rejects[i].Add(int64(n))
		}
	}
}

// HiddenRepeat counts a request that the transport below repeated, or wanted to repeat, on its own.
func (s *SDK) HiddenRepeat() { s.counters.hiddenRepeats.Add(1) }

// BaggageDropped counts foreign baggage members that found no room.
func (s *SDK) BaggageDropped(n int) {
	if n > 0 {
		s.counters.baggageDropped.Add(int64(n))
	}
}
