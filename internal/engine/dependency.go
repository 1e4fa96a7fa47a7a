package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
	"github.com/chainbudget/chainbudget-go/internal/rolling"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Dependency is a named thing that the service calls, with exactly one profile. What it is by the catalog is its policy;
// what was counted and learned about it survives a change of catalog. All methods may be called by many goroutines at
// once.
type Dependency struct {
	sdk     *SDK
	name    string
	slug    string        // as an owner on the wire
	inCode  atomic.Value  // profiles.Name
	unknown bool          // the profile named in code does not exist
	named   bool          // code names it; false = a router found it in the catalog
	rival   profiles.Name // another profile that code names, where the catalog's pin makes that harmless

	policy   atomic.Pointer[Policy] // of the newest catalog
	disabled atomic.Bool            // by its switch

	kept       atomic.Pointer[breaker.Breaker]                    // made by the first profile that has one
	turns      turns                                              // of it
	buckets    [profiles.BudgetReserve + 1]atomic.Pointer[bucket] // by kind
	inForce    *bucket                                            // the latest of a policy that had one; guarded by the SDK's lock
	throttle   atomic.Pointer[throttle]
	latency    latency
	operations operations
	floor      floor
	counters   dependencyCounters
	known      atomic.Pointer[label] // for slug; nil = it was not used yet
	tally      atomic.Pointer[Tally] // what the fleet is told; nil = the SDK is not shared

	shared  atomic.Pointer[string]                // the host that last answered over HTTP/2 without visible TLS
	refused atomic.Pointer[ownership.DeniedError] // what Refusal returns until the breaker's state changes
}

func newDependency(g *Generation, name string, inCode profiles.Name, e profiles.Effective) *Dependency {
	d := &Dependency{sdk: g.sdk, name: name, slug: otelprop.Slug(name, otelprop.MaxEntry)}
	d.inCode.Store(inCode)
	d.floor.window = rolling.NewWindow(floorWindow)
	d.install(newPolicy(g, d, e, false))
	if d.sdk.shared {
		d.tally.Store(newTally(d))
	}
	return d
}

// code is the profile that code names; "" = none.
func (d *Dependency) code() profiles.Name { return d.inCode.Load().(profiles.Name) }

// install puts a policy in force. The SDK's lock is held, or nobody knows d.
func (d *Dependency) install(p *Policy) {
	if p.bucket != nil {
		p.bucket.follow(d.inForce, p.profile.Budget)
		d.inForce = p.bucket
	}
	if p.pacer != nil {
		p.pacer.change(p.profile.ProcessBudget)
	}
	if p.breaker != nil {
		p.breaker.Configure(breakerOf(p.profile))
	}
	d.policy.Store(p)
	d.disabled.Store(d.sdk.switches.disabled(d.name, p.disabled))
}

// theBreaker returns the breaker, which is the same whatever becomes of its settings.
func (d *Dependency) theBreaker(settings profiles.Breaker) *breaker.Breaker {
	if b := d.kept.Load(); b != nil {
		return b
	}
	d.kept.CompareAndSwap(nil, breaker.NewDrawn(d.name, settings, d.sdk.draw(), d.turned))
	return d.kept.Load()
}

// turned is the breaker's callback. It may run under the SDK's lock.
func (d *Dependency) turned(name string, from, to breaker.State) {
	d.counters.changes[to].Add(1)
	d.turns.note(name, from, to)
}

// Enter returns the request or chain that ctx belongs to, nil if there is none, and what its catalog says about d.
func (d *Dependency) Enter(ctx context.Context) (*Inbound, *Policy) {
	in, p := FromContext(ctx), d.policy.Load()
	if in != nil && in.generation != p.generation && in.sdk == d.sdk {
		p = in.generation.policy(d)
	}
	return in, p
}

// Name returns the dependency's name.
func (d *Dependency) Name() string { return d.name }

// Policy returns what the newest catalog says. It is for those who look; a call is made by what [Dependency.Enter] says.
func (d *Dependency) Policy() *Policy { return d.policy.Load() }

// Breaker returns the breaker, nil if the profile has none.
func (d *Dependency) Breaker() *breaker.Breaker { return d.policy.Load().breaker }

// Availability returns how many first attempts of the last seconds succeeded, of how many, and whether that is below the
// profile's floor.
func (d *Dependency) Availability() (ok, total uint64, below bool) {
	below = d.floor.refuses(d.policy.Load().profile.AvailabilityFloor)
	ok, total = d.floor.window.Ratio()
	return ok, total, below
}

// SDK returns the SDK that the dependency belongs to.
func (d *Dependency) SDK() *SDK { return d.sdk }

// Typical returns the typical time of a successful attempt, 0 while it is not known.
func (d *Dependency) Typical() time.Duration { return d.latency.typical() }

// Refusal returns the error of a call that the breaker refuses before its first attempt, or nil if the call may go on.
// It is the short way for the case in which many calls come and none may pass: nothing is allocated. A call that
// somebody watches takes the long way, and so does one that an outer layer decides. in is what [Dependency.Enter] returned;
// repeatable says that the call could have been retried whatever it came to.
func (p *Policy) Refusal(ctx context.Context, in *Inbound, repeatable bool) *ownership.DeniedError {
	d := p.dep
	err := p.breaker.Refuses()
	if err == nil || d.sdk.observe != nil || recording(ctx) != nil {
		return nil
	}
	if above, _ := ctx.Value(ctxkey.Call{}).(*Call); above != nil && above.dep == d {
		return nil
	}
	e := d.refused.Load()
	if e == nil || e.Err != err || e.FailOpen != p.failOpen || e.FailClosed != p.failClosed {
		e = &ownership.DeniedError{
			Reason: ownership.ReasonBreakerOpen, Dependency: d.name, Owner: d.slug, OwnerDepth: 1, Claim: ownership.ClaimUnclaimed,
			RetryAfter: p.retryAfter(0, false), FailOpen: p.failOpen, FailClosed: p.failClosed, Err: err,
		}
		d.refused.Store(e)
	}
	p.counters.calls.Add(1)
	entry := d.sdk.entrySlug // of an orphan
	if in != nil {
		entry = in.entry
	} else {
		d.sdk.counters.noPurse.Add(1)
	}
	p.entryCounters(entry).denied[ownership.ReasonBreakerOpen].Add(1)
	if repeatable {
		p.prevented(p.profile.Retry.Attempts() - 1)
	}
	p.remember(ctx, in)
	if in != nil {
		in.callees.add(d)
		in.Tracker.Failed(e)
	}
	return e
}

// Spoke notes the version of HTTP in which a host answered over a connection whose TLS, if any, cannot be seen.
func (d *Dependency) Spoke(host string, major int) {
	known := d.Multiplexes(host)
	switch {
	case major >= 2 && !known:
		own := strings.Clone(host) // it may be part of a long URL
		d.shared.Store(&own)
	case major < 2 && known:
		d.shared.Store(nil)
	}
}

// Multiplexes reports whether such a connection to a host is one that several requests share, as far as its latest answer
// told.
func (d *Dependency) Multiplexes(host string) bool {
	h := d.shared.Load()
	return h != nil && *h == host
}

// floor is the availability floor of one dependency: below it nobody retries, because most first attempts fail and a
// retry is only more load. It counts whether a profile has a floor or not, so that one that gets it knows.
type floor struct {
	window *rolling.Window
	below  atomic.Bool
}

const (
	floorWindow     = 10 * time.Second
	floorSamples    = 20
	floorHysteresis = 0.1
)

// add counts a first attempt.
func (f *floor) add(now time.Time, success bool) { f.window.AddAt(now, success) }

// refuses reports whether the dependency is below its floor, a share of 0 to 1; 0 = it has none.
func (f *floor) refuses(share float64) bool {
	if share <= 0 {
		return false
	}
	ok, total := f.window.Ratio()
	if total < floorSamples {
		f.set(false)
		return false
	}
	switch now := float64(ok) / float64(total); {
	case now < share:
		f.set(true)
	case now >= min(1, share+floorHysteresis):
		f.set(false)
	}
	return f.below.Load()
}

func (f *floor) set(below bool) {
	if f.below.Load() != below {
		f.below.Store(below)
	}
}
