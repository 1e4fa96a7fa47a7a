package engine

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// pinned is what the callers of one dependency that this service serves must use.
type pinned struct {
	dependency string
	profile    *profiles.Profile
	digest     string
	until      time.Time // of the previous catalog: how long it counts as late and not as divergent
}

// servedPins returns the pins of what the service serves. If one of those has none, its callers are free, and no caller
// can be told from them: nil.
func servedPins(c *profiles.Catalog, service string) []pinned {
	var pins []pinned
	for _, name := range c.Serves(service) {
		e, _ := c.Resolve(name, "")
		if !e.Pinned {
			return nil
		}
		pins = append(pins, pinned{dependency: name, profile: e.Profile, digest: e.Profile.Digest()})
	}
	return pins
}

func holds(pins []pinned, digest string) bool {
	for i := range pins {
		if pins[i].digest == digest {
			return true
		}
	}
	return false
}

// outdated returns what callers may still use of the catalogs before g.
func (g *Generation) outdated(previous *Generation, now time.Time) (late []pinned) {
	for _, p := range previous.late {
		if now.Before(p.until) && !holds(g.pins, p.digest) && !holds(previous.pins, p.digest) {
			late = append(late, p)
		}
	}
	for _, p := range previous.pins {
		if !holds(g.pins, p.digest) && !holds(late, p.digest) {
			p.until = now.Add(g.catalog.Chain.Grace)
			late = append(late, p)
		}
	}
	// The newest are the ones that callers still have.
	return slices.Clone(late[max(0, len(late)-maxLate):])
}

const (
	maxLate       = 32  // outdated pins that are remembered
	maxMismatches = 256 // callers and profiles that are told apart
	otherCallers  = "other"
)

// mismatches are the callers that use other profiles than the catalog pins. The zero value is ready to use.
type mismatches struct {
	mu    sync.Mutex
	found map[use]*mismatch
}

// use is who uses what.
type use struct{ caller, profile, digest string }

type mismatch struct {
	requests    int64
	first, last time.Time
	warned      bool
}

// compare looks at what a direct caller says that it uses. A caller that says nothing is not compared.
func (s *SDK) compare(g *Generation, r *otelprop.Request) {
	if len(g.pins) == 0 || r.Digest == "" || holds(g.pins, r.Digest) {
		return
	}
	now := time.Now()
	u := use{r.Caller, r.Profile, r.Digest}
	m := &s.mismatches
	m.mu.Lock()
	have := m.found[u]
	if have == nil {
		if len(m.found) >= maxMismatches {
			u = use{caller: otherCallers}
			have = m.found[u]
		}
		if have == nil {
			u = use{strings.Clone(u.caller), strings.Clone(u.profile), strings.Clone(u.digest)}
			if m.found == nil {
				m.found = make(map[use]*mismatch)
			}
			have = &mismatch{first: now}
			m.found[u] = have
		}
	}
	have.requests++
	have.last = now
	late := g.isLate(r.Digest, now)
	warn := !late && !have.warned // who was late first, and diverges when the grace is over, is warned of then
	have.warned = have.warned || warn
	m.mu.Unlock()
	counted := s.counters.mismatches.at(s.label(r.Caller))
	if late {
		counted.older.Add(1)
		return
	}
	counted.divergent.Add(1)
	if warn {
		s.warn("chainbudget: a caller uses another profile than the catalog pins: "+g.describe(u, have, now).String(), "caller", u.caller,
			"uses", u.profile+"@"+u.digest, "pinned", g.pinnedNames())
	}
}

// isLate reports whether a digest is of an older catalog, so lately that it counts as late and not as divergent.
func (g *Generation) isLate(digest string, now time.Time) bool {
	return slices.ContainsFunc(g.late, func(p pinned) bool { return p.digest == digest && now.Before(p.until) })
}

func (g *Generation) pinnedNames() []string {
	names := make([]string, len(g.pins))
	for i, p := range g.pins {
		names[i] = string(p.profile.Name) + "@" + p.digest
	}
	return names
}

// describe says what is known of a use, by the catalog g.
func (g *Generation) describe(u use, m *mismatch, now time.Time) profiles.Mismatch {
	g.sdk.mismatches.mu.Lock()
	d := profiles.Mismatch{
		Caller: u.caller, Profile: profiles.Name(u.profile), Digest: u.digest,
		Want: g.pinnedNames(), AgreedSince: holds(g.pins, u.digest), Requests: m.requests, First: m.first, Last: m.last,
	}
	g.sdk.mismatches.mu.Unlock()
	for _, p := range g.pins {
		d.Dependencies = append(d.Dependencies, p.dependency)
	}
	if d.AgreedSince || len(g.pins) == 0 {
		return d
	}
	var uses *profiles.Profile
	if own := g.catalog.Profiles[d.Profile]; own != nil && own.Digest() == u.digest {
		uses = own
	}
	for i := range g.late {
		if p := &g.late[i]; p.digest == u.digest {
			uses = p.profile
			d.Older = d.Older || now.Before(p.until)
		}
	}
	if uses != nil {
		d.Differences = uses.Differences(g.pins[0].profile)
	}
	return d
}

// Mismatches returns the callers that use, or used, other profiles than the catalog pins, by name.
func (s *SDK) Mismatches() []profiles.Mismatch {
	g, now := s.Generation(), time.Now()
	s.mismatches.mu.Lock()
	uses := make([]use, 0, len(s.mismatches.found))
	found := make(map[use]*mismatch, len(s.mismatches.found))
	for u, m := range s.mismatches.found {
		uses = append(uses, u)
		found[u] = m
	}
	s.mismatches.mu.Unlock()
	slices.SortFunc(uses, func(a, b use) int {
		return strings.Compare(a.caller+"\x00"+a.profile+"@"+a.digest, b.caller+"\x00"+b.profile+"@"+b.digest)
	})
	list := make([]profiles.Mismatch, len(uses))
	for i, u := range uses {
		list[i] = g.describe(u, found[u], now)
	}
	return list
}
