package profiles

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxSavedUp is how many units of fund a full bucket of kind ratio may stand for. Beyond it, Burst retries go into an
// outage whatever Ratio says: at 1,000 calls a second they are those of 10 s.
const maxSavedUp = 10_000

// warn notes what is allowed and probably not meant. The built-in profiles are not for their readers to change.
func (d *decoder) warn(n *yaml.Node, path, what, fix string) {
	if !d.builtin {
		d.warnings.add(d.problem(n, path, what, fix))
	}
}

// warnings returns the list that a catalog shows, or nil. It is as bounded as an error is.
func (l *problemList) warnings() []Problem {
	if l.total == 0 {
		return nil
	}
	list := l.sorted(maxProblems)
	if more := l.total - len(list); more > 0 {
		list[len(list)-1] = Problem{What: strconv.Itoa(more+1) + " more warnings are not listed", Fix: "mend those that are"}
	}
	return list
}

// warnProfile looks for settings that are valid, each by itself and together, and do not do what they seem to say.
// keys are as in [reportFunc], but any of them may be to blame: what no key of the profile causes is its parent's.
func warnProfile(p *Profile, warn reportFunc) {
	warnTime(p, warn)
	if f := p.AvailabilityFloor; f > 0 && p.Breaker.Enabled() && f+p.Breaker.FailureRatio <= 1+1e-9 {
		warn(fmt.Sprintf("the floor of %s never acts: the breaker opens at %s failures, before success falls so low", show(f), show(p.Breaker.FailureRatio)),
			fmt.Sprintf("raise availability_floor above %s or set it to 0%%", show(1-p.Breaker.FailureRatio)), "availability_floor", "breaker.failure_ratio")
	}
	switch b := p.Budget; {
	case !b.Enabled():
	case b.Kind == BudgetReserve && b.MinPerSecond > 0:
		warn(fmt.Sprintf("min_per_second holds for each process: N instances allow N times %d retries a second, also into a full outage", b.MinPerSecond),
			"divide it by the number of instances, or set it to 0", "budget.min_per_second")
	case b.Kind == BudgetRatio && b.Fund == FundRequests:
		warn("fund: requests pays for retries in a full outage, too: the load stays "+show(b.Ratio)+" higher until it ends",
			"use fund: successes", "budget.fund")
	}
	if b := p.Budget; b.Kind == BudgetRatio && b.Enabled() && float64(b.Burst) > maxSavedUp*b.Ratio*(1+1e-9) {
		warn(fmt.Sprintf("burst %d is what more than %d %s pay in: the ratio of %s means little beside it", b.Burst, maxSavedUp, b.Fund, show(b.Ratio)),
			fmt.Sprintf("lower burst to at most %d", max(1, int(maxSavedUp*b.Ratio+1e-6))), "budget.burst", "budget.ratio")
	}
}

// warnTime is about attempts, waits and the limits of both.
func warnTime(p *Profile, warn reportFunc) {
	attempts, limit, whole := p.Retry.Attempts(), p.Retry.AttemptTimeout, p.Retry.Timeout
	if limit == 0 && (attempts > 1 || whole == 0) {
		what := "an attempt that hangs is never given up: nothing ends it but the caller's own deadline"
		if whole > 0 {
			what = "an attempt that hangs takes the whole timeout: nothing is left for the others"
		}
		warn(what, "set attempt_timeout a little above the slowest answer that is worth waiting for", "retry.attempt_timeout")
	}
	if probe := p.Breaker.ProbeTimeout; p.Breaker.Enabled() && probe > 0 && limit >= probe {
		warn(fmt.Sprintf("probe_timeout %v is not above attempt_timeout %v: a probe that answers in time may close nothing", probe, limit),
			"raise probe_timeout, or remove it for one that fits", "breaker.probe_timeout", "retry.attempt_timeout")
	}
	if whole == 0 || attempts < 2 {
		return
	}
	if all := time.Duration(attempts) * limit; all > whole {
		warn(fmt.Sprintf("%d attempts of %v do not fit into timeout %v, which spans them all", attempts, limit, whole),
			fmt.Sprintf("raise timeout above %v, or lower max_attempts or attempt_timeout", all), "retry.timeout", "retry.max_attempts", "retry.attempt_timeout")
	}
	// Full jitter waits half of the ceiling on average.
	var mean time.Duration
	for n := range attempts - 1 {
		mean += p.Backoff.Ceiling(n, false) / 2
	}
	if mean >= whole {
		warn(fmt.Sprintf("the waits before %d retries, %v on average, do not fit into timeout %v", attempts-1, mean, whole),
			"raise timeout, or lower base, cap or max_attempts", "retry.timeout", "retry.max_attempts", "backoff.base", "backoff.cap")
	}
}

// warnings are for what this profile's own keys cause.
func (d *decoder) warnDraft(p *draft, result *Profile) {
	warnProfile(result, func(what, fix string, keys ...string) {
		for _, key := range keys {
			if at := p.places[key]; at != nil {
				d.warn(at, p.path+"."+key, what, fix)
				return
			}
		}
		// A profile that extends nothing is the cause of what it leaves out.
		if p.extends == "" && keys[0] == "retry.attempt_timeout" {
			d.warn(p.key, p.path+".retry.attempt_timeout", what, fix)
		}
	})
}

// warnIdempotent is about an operation that callers repeat because the catalog says so.
func (d *decoder) warnIdempotent(n *yaml.Node, at, pattern string) {
	const fix = "make sure that its handler does the work of a repeated request once"
	method, _, hasMethod := strings.Cut(pattern, " ")
	switch {
	case !hasMethod || strings.Contains(method, "/"):
		d.warn(n, at, quote(pattern)+" is every method of it, POST and PATCH, too: callers repeat them without a key",
			fix+`, or name the method as in "GET /balance/{id}"`)
	case method == "POST" || method == "PATCH":
		d.warn(n, at, quote(pattern)+" is not idempotent by its method: callers repeat it without a key", fix+", or remove it and let callers send a key")
	}
}

// warnMesh is about a proxy that cannot be told anything.
func (d *decoder) warnMesh(n *yaml.Node, at string, dep *Dependency, p *Profile) {
	if n == nil || dep.Mesh == MeshNone {
		return
	}
	why := ""
	switch {
	case dep.External == PlacementExternal:
		why = "the dependency is external"
	case p != nil && p.External:
		why = "its profile " + quote(string(p.Name)) + " is always external"
	default:
		return
	}
	d.warn(n, at+".mesh", "mesh has no effect: "+why+", and no header is sent there", "remove it, and switch the proxy's own retries off where it is configured")
}
