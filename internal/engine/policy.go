package engine

import (
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Policy is what one generation of the catalog says about one dependency. It is immutable; state that outlives a catalog
// belongs to the Dependency.
type Policy struct {
	dep        *Dependency
	generation *Generation
	profile    *profiles.Profile
	params     otelprop.Params // what the wire of each attempt says
	mode       profiles.Mode
	disabled   bool
	external   profiles.Placement
	anyHost    bool // the catalog gives it no hosts
	failOpen   bool
	failClosed bool
	mesh       profiles.Mesh
	deposit    int64            // thousandths of a token that one unit of funding pays in
	breaker    *breaker.Breaker // nil = none
	bucket     *bucket          // nil = none
	throttle   *throttle        // nil = none
	pacer      *pacer           // of all that have the profile; nil = none
	counters   *profileCounters
	digest     string

	lastHost atomic.Pointer[hostVerdict]
}

// hostVerdict is the last answer of External, so that a dependency with one host looks it up once.
type hostVerdict struct {
	host     string
	external bool
}

// newPolicy is called with the SDK's lock held, or before anybody knows d; or late, for requests of an older catalog. What
// counts for a late one is what counts by the newest, or else its own: the newest's is not put aside for it.
func newPolicy(g *Generation, d *Dependency, e profiles.Effective, late bool) *Policy {
	p := &Policy{
		dep: d, generation: g, profile: e.Profile,
		digest:   e.Profile.Digest(),
		mode:     e.Mode,
		disabled: e.RetriesDisabled,
		external: e.External,
		failOpen: e.OnFailure == profiles.OnFailureOpen, failClosed: e.OnFailure == profiles.OnFailureClosed,
		mesh:     e.Mesh,
		deposit:  milli(e.Profile.Budget.Ratio),
		counters: d.counters.of(string(e.Profile.Name)),
	}
	p.params = otelprop.NewParams(g.sdk.callerSlug, string(e.Profile.Name), p.digest)
	declared := g.catalog.Dependencies[d.name]
	p.anyHost = declared == nil || len(declared.Hosts) == 0
	if g.sdk.forced != profiles.ModeInherit {
		p.mode = g.sdk.forced
	}
	if e.Profile.Breaker.Enabled() {
		p.breaker = d.theBreaker(breakerOf(e.Profile))
	}
	p.bucket = d.theBucket(e.Profile.Budget, late)
	p.throttle = d.theThrottle(e.Profile.Throttle, late)
	p.pacer = g.sdk.pacerOf(e.Profile)
	return p
}

// breakerOf returns the breaker's settings with the time limit of probes that a profile leaves to us. A probe whose answer
// takes longer than the breaker is open, and still in time, must not lose its permit to the next one: its success would
// close nothing, and its failure open nothing, as long as calls come.
func breakerOf(p *profiles.Profile) profiles.Breaker {
	b := p.Breaker
	if limit := p.Retry.AttemptTimeout; b.ProbeTimeout == 0 && limit >= b.OpenFor {
		b.ProbeTimeout = limit + time.Second
	}
	return b
}

// Dependency returns what the policy is about.
func (p *Policy) Dependency() *Dependency { return p.dep }

// Profile returns the profile. It must not be written.
func (p *Policy) Profile() *profiles.Profile { return p.profile }

// Mode returns the mode.
func (p *Policy) Mode() profiles.Mode { return p.mode }

// Mesh returns the name of the mesh that repeats requests below, or profiles.MeshNone.
func (p *Policy) Mesh() profiles.Mesh { return p.mesh }

// Deadlines says whether the time left for an attempt goes to the callee.
func (p *Policy) Deadlines() profiles.Deadlines { return p.generation.catalog.Chain.Deadlines }

// External reports whether a host is outside: nothing of the wire goes there. It is asked for each request, so that a
// redirect elsewhere carries nothing.
func (p *Policy) External(host string) bool {
	catalog := p.generation.catalog
	switch p.external {
	case profiles.PlacementExternal:
		return true
	case profiles.PlacementInternal:
		// With hosts, the declaration is about those: a redirect elsewhere is judged by where it leads.
		if name, ok := catalog.DependencyForHost(host); p.anyHost || ok && name == p.dep.name {
			return false
		}
	}
	if v := p.lastHost.Load(); v != nil && v.host == host {
		return v.external
	}
	external := !catalog.Internal(host)
	p.lastHost.Store(&hostVerdict{host: host, external: external})
	if external {
		p.dep.sdk.warnOnce("external:"+p.dep.name, "chainbudget: a dependency is external by its host: it gets no budget; "+
			"declare it in the catalog (external: true, or internal_hosts) to say which", "dependency", p.dep.name, "host", host)
	}
	return external
}

// retryAfter is how long whoever is refused by the breaker gate had better wait: as long as a breaker stays open, or, where
// attempts in flight or adaptive throttling refused, which may be over at any moment, as the next retry would.
func (p *Policy) retryAfter(attempts int, throttled bool) time.Duration {
	if p.breaker.State() != breaker.Closed {
		return p.profile.Breaker.OpenFor
	}
	return p.profile.Backoff.Ceiling(max(attempts-1, 0), throttled)
}

// fundedByRequests reports whether the bucket is to know of every call.
func (p *Policy) fundedByRequests() bool {
	if p.bucket == nil {
		return false
	}
	return p.bucket.kind == profiles.BudgetReserve ||
		p.bucket.kind == profiles.BudgetRatio && p.profile.Budget.Fund == profiles.FundRequests
}
