package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// Generation is one catalog in force, with what follows from it. A request keeps the one that it arrived under, and all
// its calls are made by it: no request sees a mixed catalog. Only the switch (overrides) is asked of the newest.
type Generation struct {
	sdk        *SDK
	number     int64
	since      time.Time
	catalog    *profiles.Catalog
	digest     func() string     // of the catalog, computed when it is first asked for
	local      *profiles.Service // the catalog's entry for this service, or nil
	retryShare float64
	pins       []pinned             // what callers of this service must use; nil = they are free
	late       []pinned             // what they had to use before, and still may for a while
	names      map[string]*declared // that may be labels
	policies   sync.Map             // *Dependency → *Policy, for requests that are not of the newest
}

func newGeneration(s *SDK, number int64, c *profiles.Catalog) *Generation {
	return &Generation{
		sdk: s, number: number, catalog: c, local: c.Service(s.service), retryShare: servedRatio(c, s.service), pins: servedPins(c, s.service),
		names: declaredNames(c), since: time.Now(), digest: sync.OnceValue(c.Digest),
	}
}

// servedRatio is the share of retries that the pinned profile of what a service serves allows its callers. Where the
// catalog pins none, nobody has said what is too much: any share is allowed.
func servedRatio(c *profiles.Catalog, service string) float64 {
	for _, name := range c.Serves(service) {
		e, _ := c.Resolve(name, "")
		if b := e.Profile.Budget; e.Pinned && b.Kind == profiles.BudgetRatio && b.Enabled() {
			return b.Ratio
		}
	}
	return 1
}

// Catalog returns the catalog itself. It must not be written.
func (g *Generation) Catalog() *profiles.Catalog { return g.catalog }

// Number counts the catalogs that were in force, from 1.
func (g *Generation) Number() int64 { return g.number }

// Since returns when the catalog came in force.
func (g *Generation) Since() time.Time { return g.since }

// Digest returns the catalog's digest.
func (g *Generation) Digest() string { return g.digest() }

// Local returns what the catalog says about this service; nil, which its methods accept, if nothing.
func (g *Generation) Local() *profiles.Service { return g.local }

// Mode returns the mode in force for inbound requests.
func (g *Generation) Mode() profiles.Mode {
	switch {
	case g.sdk.forced != profiles.ModeInherit:
		return g.sdk.forced
	case g.catalog.Chain.Mode != profiles.ModeInherit:
		return g.catalog.Chain.Mode
	default:
		return profiles.ModeEnforce
	}
}

// policy returns what the generation says about a dependency.
func (g *Generation) policy(d *Dependency) *Policy {
	if p, ok := g.policies.Load(d); ok {
		return p.(*Policy)
	}
	// The dependency is younger than the generation. The error was told to whoever made it.
	e, _ := g.catalog.Resolve(d.name, d.code())
	p, _ := g.policies.LoadOrStore(d, newPolicy(g, d, e, true))
	return p.(*Policy)
}

// Generation returns the catalog in force.
func (s *SDK) Generation() *Generation { return s.generation.Load() }

// Swap puts another catalog in force, as a whole. What was counted and learned stays; requests under way end with the
// catalog that they began with, but for the switch. A catalog in which a dependency that is in use has no profile is
// refused, and nothing changes.
func (s *SDK) Swap(c *profiles.Catalog) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.generation.Load()
	next := newGeneration(s, old.number+1, c)
	next.late = next.outdated(old, time.Now())
	dependencies := s.sorted()
	effective := make([]profiles.Effective, len(dependencies))
	var problems []error
	for i, d := range dependencies {
		e, err := c.Resolve(d.name, d.code())
		switch {
		case err != nil && !e.Pinned && d.named && !d.unknown: // otherwise nobody has a profile to lose
			problems = append(problems, err)
		case !e.Pinned && d.rival != "":
			problems = append(problems, twoProfiles(d.name, d.code(), d.rival))
		}
		effective[i] = e
	}
	if len(problems) > 0 {
		return fmt.Errorf("chainbudget: catalog %.200q does not fit this service: %w", c.Source, errors.Join(problems...))
	}
	policies := make([]*Policy, len(dependencies))
	for i, d := range dependencies {
		old.policies.Store(d, d.policy.Load())
		policies[i] = newPolicy(next, d, effective[i], false)
		next.policies.Store(d, policies[i])
	}
	s.process.change(c.Chain.ProcessBudget)
	for i, d := range dependencies {
		d.install(policies[i])
		d.unknown = d.unknown && policies[i].profile.Name != d.code() && (d.code() != "" || !effective[i].Pinned)
	}
	s.generation.Store(next) // after the switches: whoever waits for the next one has seen those of this one
	s.announce()
	return nil
}

func twoProfiles(dependency string, one, other profiles.Name) error {
	return fmt.Errorf("chainbudget: dependency %.64q is named with profile %.64q and with profile %.64q: "+
		"use one of them everywhere, or pin the dependency in the catalog", dependency, one, other)
}
