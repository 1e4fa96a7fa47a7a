package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
	"github.com/chainbudget/chainbudget-go/internal/rolling"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Dependency is a named thing that the service calls, with exactly one profile. All methods may be called by many
// goroutines at once.
type Dependency struct {
	sdk        *SDK
	name       string
	slug       string // as an owner on the wire
	inCode     profiles.Name
	profile    *profiles.Profile
	params     otelprop.Params // what the wire of each attempt says
	mode       profiles.Mode
	disabled   bool
	external   profiles.Placement
	anyHost    bool // the catalog gives it no hosts
	failOpen   bool
	failClosed bool
	mesh       profiles.Mesh
	deposit    int64 // thousandths of a token that one unit of funding pays in

	breaker    *breaker.Breaker
	bucket     bucket
	latency    latency
	operations operations
	floor      floor
	counters   dependencyCounters

	lastHost atomic.Pointer[hostVerdict]
	shared   atomic.Pointer[string]                // the host that last answered over HTTP/2 without visible TLS
	refused  atomic.Pointer[ownership.DeniedError] // what Refusal returns until the breaker's state changes
}

// hostVerdict is the last answer of External, so that a dependency with one host looks it up once.
type hostVerdict struct {
	host     string
	external bool
}

func newDependency(s *SDK, name string, inCode profiles.Name, e profiles.Effective) *Dependency {
	d := &Dependency{
		sdk: s, name: name, slug: otelprop.Slug(name, otelprop.MaxEntry), inCode: inCode, profile: e.Profile,
		params: otelprop.NewParams(s.callerSlug, string(e.Profile.Name), e.Profile.Digest()), mode: e.Mode, disabled: e.RetriesDisabled, external: e.External,
		failOpen: e.OnFailure == profiles.OnFailureOpen, failClosed: e.OnFailure == profiles.OnFailureClosed, mesh: e.Mesh, breaker: breaker.New(name, e.Profile.Breaker, nil),
		deposit: int64(e.Profile.Budget.Ratio*wholeToken + 0.5),
	}
	declared := s.catalog.Dependencies[name]
	d.anyHost = declared == nil || len(declared.Hosts) == 0
	if s.forced != profiles.ModeInherit {
		d.mode = s.forced
	}
	d.bucket.fill(e.Profile.Budget)
	d.floor.init(e.Profile)
	return d
}

// Name returns the dependency's name.
func (d *Dependency) Name() string { return d.name }

// Profile returns the profile in force. It must not be written.
func (d *Dependency) Profile() *profiles.Profile { return d.profile }

// Mode returns the mode in force for this dependency.
func (d *Dependency) Mode() profiles.Mode { return d.mode }

// SDK returns the SDK that the dependency belongs to.
func (d *Dependency) SDK() *SDK { return d.sdk }

// Mesh returns the name of the mesh that repeats requests below, or profiles.MeshNone.
func (d *Dependency) Mesh() profiles.Mesh { return d.mesh }

// Breaker returns the dependency's breaker, nil if its profile has none.
func (d *Dependency) Breaker() *breaker.Breaker { return d.breaker }

// Typical returns the typical time of a successful attempt, 0 while it is not known.
func (d *Dependency) Typical() time.Duration { return d.latency.typical() }

// Refusal returns the error of a call that the breaker refuses before its first attempt, or nil if the call may go on.
// It is the short way for the case in which many calls come and none may pass: nothing is allocated. A call that
// somebody watches takes the long way, and so does one that an outer layer decides.
func (d *Dependency) Refusal(ctx context.Context) *ownership.DeniedError {
	err := d.breaker.Refuses()
	if err == nil || d.sdk.observe != nil || trace.SpanFromContext(ctx).IsRecording() {
		return nil
	}
	if above, _ := ctx.Value(ctxkey.Call{}).(*Call); above != nil && above.dep == d {
		return nil
	}
	e := d.refused.Load()
	if e == nil || e.Err != err {
		e = &ownership.DeniedError{
			Reason: ownership.ReasonBreakerOpen, Dependency: d.name, Owner: d.slug, OwnerDepth: 1, Claim: ownership.ClaimUnclaimed,
			RetryAfter: d.profile.Breaker.OpenFor, FailOpen: d.failOpen, FailClosed: d.failClosed, Err: err,
		}
		d.refused.Store(e)
	}
	d.counters.calls.Add(1)
	d.counters.denied[ownership.ReasonBreakerOpen].Add(1)
	if in := FromContext(ctx); in != nil {
		in.callees.add(d)
		in.Tracker.Failed(e)
	}
	return e
}

// External reports whether a host is outside: nothing of the wire goes there. It is asked for each request, so that a
// redirect elsewhere carries nothing.
func (d *Dependency) External(host string) bool {
	switch d.external {
	case profiles.PlacementExternal:
		return true
	case profiles.PlacementInternal:
		// With hosts, the declaration is about those: a redirect elsewhere is judged by where it leads.
		if name, ok := d.sdk.catalog.DependencyForHost(host); d.anyHost || ok && name == d.name {
			return false
		}
	}
	if v := d.lastHost.Load(); v != nil && v.host == host {
		return v.external
	}
	external := !d.sdk.catalog.Internal(host)
	d.lastHost.Store(&hostVerdict{host: host, external: external})
	if external {
		d.sdk.warnOnce("external:"+d.name, "chainbudget: a dependency is external by its host: it gets no budget; "+
			"declare it in the catalog (external: true, or internal_hosts) to say which", "dependency", d.name, "host", host)
	}
	return external
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
// retry is only more load.
type floor struct {
	window *rolling.Window
	below  atomic.Bool
	stop   float64
	resume float64
}

const (
	floorSamples    = 20
	floorHysteresis = 0.1
)

func (f *floor) init(p *profiles.Profile) {
	if p.AvailabilityFloor <= 0 {
		return
	}
	f.window = rolling.NewWindow(floorWindow)
	f.stop = p.AvailabilityFloor
	f.resume = min(1, p.AvailabilityFloor+floorHysteresis)
}

const floorWindow = 10 * time.Second

// add counts a first attempt.
func (f *floor) add(now time.Time, success bool) {
	if f.window == nil {
		return
	}
	f.window.AddAt(now, success)
}

// refuses reports whether the dependency is below its floor.
func (f *floor) refuses() bool {
	if f.window == nil {
		return false
	}
	ok, total := f.window.Ratio()
	if total < floorSamples {
		f.set(false)
		return false
	}
	share := float64(ok) / float64(total)
	switch {
	case share < f.stop:
		f.set(true)
	case share >= f.resume:
		f.set(false)
	}
	return f.below.Load()
}

func (f *floor) set(below bool) {
	if f.below.Load() != below {
		f.below.Store(below)
	}
}
