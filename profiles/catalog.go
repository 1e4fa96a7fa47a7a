package profiles

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Catalog is what one loaded file or folder says, together with the built-in profiles. It is immutable: its maps, slices and pointers are
// shared with everybody who reads it and must not be changed. All methods may be called concurrently.
// A nil Catalog is the embedded one.
type Catalog struct {
	// Source is the name that the catalog was loaded under.
	Source string

	Chain        Chain
	Profiles     map[Name]*Profile      // built-in ones included, all complete
	Dependencies map[string]*Dependency // by name
	Services     map[string]*Service    // by name
	Overrides    Overrides

	// Warnings are about what the file may say and probably does not mean, such as attempts that do not fit into the
	// call's timeout. They are sorted by place, at most 50, and only about what the file itself sets; nil = none.
	Warnings []Problem

	// InternalHosts are the patterns that stand in place of the default rules; nil = the default rules.
	InternalHosts []string

	hosts    hostIndex // dependencies by host
	internal hostIndex // of InternalHosts
	networks []netip.Prefix
	from     origins
}

// Chain sets what holds for every chain.
type Chain struct {
	Budget        int           // tokens that an entry mints: 0 to 99, at most MaxBudget; default 3
	MaxBudget     int           // largest grant that is believed: 0 to 99; default 10
	OrphanBudget  int           // tokens that a hop mints that was given nothing: 0 to 99, at most MaxBudget; default 1
	Deadlines     Deadlines     // default propagate
	Mode          Mode          // of all dependencies that set none; never ModeInherit; default enforce
	Unknown       Unknown       // whose failure it is when nothing tells; default compare
	Learn         Learning      // whether learned edges decide; default observe
	Holdout       float64       // share of the refusals of ownership that are let through, to measure what it gives up: 0 to 1; default 0
	ProcessBudget int           // process_budget: retries a minute of the whole process, 0 to 1000000; 0 = no limit
	Grace         time.Duration // how long callers that use the previous catalog count as late and not as divergent: 0 to 168 h; default 1 h
}

// Dependency is what the catalog says about a named thing that services call.
type Dependency struct {
	Name      string
	Profile   Name      // the profile that every caller must use; "" = the one named in code
	Owner     string    // the team to ask, for people who read the catalog; not the owner of a failure
	OnFailure OnFailure // whether its failure is its caller's
	Hosts     []string  // exact hosts or "*.suffix", lower-case, each with a port or without
	External  Placement // as declared; the profile's External is not part of it
	Mesh      Mesh
	Mode      Mode // ModeInherit = the chain's
}

// Overrides is the on-call switch.
type Overrides struct {
	RetriesDisabled bool            // for every dependency
	Dependencies    map[string]bool // names of dependencies whose retries are disabled; all values are true
}

// Effective is what holds for one dependency of one process, after pins, modes and overrides.
type Effective struct {
	Dependency string
	Profile    *Profile // never nil

	Pinned  bool // the catalog chose the profile
	Differs bool // and code had named another one: InCode
	InCode  Name // what code named; may be empty where Pinned

	Owner           string
	OnFailure       OnFailure
	External        Placement // the profile's External included
	Mesh            Mesh
	Mode            Mode // never ModeInherit
	RetriesDisabled bool // by an override
}

// orBuiltin makes the embedded catalog of a nil one, which is what stands beside an error of the loader.
func (c *Catalog) orBuiltin() *Catalog {
	if c == nil {
		return Builtin()
	}
	return c
}

// Resolve returns what holds for the dependency when code names the profile inCode. A profile pinned in the catalog wins,
// whatever code says. Without a pin the profile from code is used, also for a dependency that the catalog does not
// know. A name that does not exist, in code or nowhere at all, is an [*UnknownProfileError]; the Effective is usable
// even then: it has the pinned profile, or [NoRetry].
func (c *Catalog) Resolve(dependency string, inCode Name) (Effective, error) {
	c = c.orBuiltin()
	e := Effective{
		Dependency: dependency, InCode: inCode, Mode: c.Chain.Mode,
		RetriesDisabled: c.Overrides.RetriesDisabled || c.Overrides.Dependencies[dependency],
	}
	var pin Name
	if d := c.Dependencies[dependency]; d != nil {
		pin = d.Profile
		e.Owner, e.OnFailure, e.External, e.Mesh = d.Owner, d.OnFailure, d.External, d.Mesh
		if d.Mode != ModeInherit {
			e.Mode = d.Mode
		}
	}
	if e.Mode == ModeInherit {
		e.Mode = ModeEnforce // a Catalog made in code may leave it unset
	}

	coded := c.Profiles[inCode]
	switch pinned := c.Profiles[pin]; {
	case pinned != nil:
		e.Profile, e.Pinned, e.Differs = pinned, true, inCode != "" && inCode != pin
	case coded != nil:
		e.Profile = coded
	default:
		e.Profile = Builtin().Profiles[NoRetry]
	}
	if e.Profile.External {
		e.External = PlacementExternal
	}
	if coded == nil && (inCode != "" || !e.Pinned) {
		return e, &UnknownProfileError{Name: inCode, Dependency: dependency, Known: c.ProfileNames()}
	}
	return e, nil
}

// ProfileNames returns the names of all profiles, sorted. The slice is the caller's own.
func (c *Catalog) ProfileNames() []Name {
	c = c.orBuiltin()
	return slices.Sorted(maps.Keys(c.Profiles))
}

// Service returns what the catalog says about a service; nil, which every method of [Service] accepts, if it says
// nothing.
func (c *Catalog) Service(name string) *Service { return c.orBuiltin().Services[name] }

// Serves returns the names of the dependencies that the service is to others: its own name, unless the catalog lists
// others. Do not change the slice.
func (c *Catalog) Serves(service string) []string {
	c = c.orBuiltin()
	if s := c.Services[service]; s != nil && len(s.Serves) > 0 {
		return s.Serves
	}
	return []string{service}
}
