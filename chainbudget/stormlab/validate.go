package stormlab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// The bounds of a scenario.
const (
	maxServices  = 1000
	maxIntervals = 10_000
	maxCells     = 64
	maxDuration  = 24 * time.Hour
	maxShows     = 200 // bytes
	maxName      = 24  // of a service, in bytes
	maxTimes     = 1000
)

// A finding is one thing wrong in a scenario: at names the value, as services[2].calls[0].to does.
// It is of no use where what stands at rests cannot be read. Where the value lacks is not there, which is at's own unless it says
// another, missing is said in place of what; and nothing is, where a key beside it is unknown: that one is meant.
type finding struct{ at, what, fix, rests, lacks, missing string }

// findings collects them.
type findings []finding

func (f *findings) add(at, what, fix string) { *f = append(*f, finding{at: at, what: what, fix: fix}) }

// need adds a finding unless ok.
func (f *findings) need(ok bool, at, what, fix string) {
	if !ok {
		f.add(at, what, fix)
	}
}

// given adds a finding unless ok, which says that the value is missing where it is not there.
func (f *findings) given(ok bool, at, what, missing, fix string) {
	if !ok {
		*f = append(*f, finding{at: at, what: what, fix: fix, missing: missing})
	}
}

// along adds a finding about what stands at one place, and lacks something of another, unless ok.
func (f *findings) along(ok bool, at, lacks, what, fix string) {
	if !ok {
		*f = append(*f, finding{at: at, what: what, fix: fix, lacks: lacks})
	}
}

const missing = "is missing"

// Validate returns an error that lists everything wrong with s, or nil.
func (s *Scenario) Validate() error {
	var problems []error
	for _, f := range s.check() {
		problems = append(problems, fmt.Errorf("stormlab: %s: %s; %s", f.at, f.what, f.fix))
	}
	return errors.Join(problems...)
}

func (s *Scenario) check() (f findings) {
	f.given(s.Duration >= time.Millisecond && s.Duration <= maxDuration, "duration", fmt.Sprintf("%v is out of range", s.Duration), missing, "use 1ms to 24h")
	f.need(s.Interval >= 0 && (s.Duration <= 0 || s.Duration > maxDuration || s.Duration/s.interval() < maxIntervals), "interval",
		fmt.Sprintf("%v is out of range", s.Interval), fmt.Sprintf("use one of which the duration has at most %d", maxIntervals))
	f.need(s.Cells >= 0 && s.Cells <= maxCells, "cells", fmt.Sprintf("%d is out of range", s.Cells), fmt.Sprintf("use 1 to %d", maxCells))
	s.Network.check(&f, "network")
	names := s.checkServices(&f)
	s.checkCycles(&f)
	s.checkTraffic(&f, names)
	s.checkFaults(&f, names)
	s.checkVariants(&f, names)
	s.checkExpect(&f, names)
	return f
}

// known reports a name that no service has.
func (f *findings) known(names []string, name, at string) bool {
	return f.named(names, name, at, missing)
}

// named is known, with what is said where there is no name.
func (f *findings) named(names []string, name, at, missing string) bool {
	if slices.Contains(names, name) {
		return true
	}
	if len(names) > 0 { // else that is what is wrong
		*f = append(*f, finding{at: at, what: fmt.Sprintf("%.48q is no service", name), fix: "name one of " + listed(names), rests: "services", missing: missing})
	}
	return false
}

func listed(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func (s *Scenario) checkServices(f *findings) (names []string) {
	f.need(len(s.Services) > 0, "services", "there is none", "describe at least one")
	f.need(len(s.Services) <= maxServices, "services", fmt.Sprintf("%d of them", len(s.Services)), fmt.Sprintf("use at most %d", maxServices))
	for i := range s.Services {
		service := &s.Services[i]
		at := fmt.Sprintf("services[%d]", i)
		f.given(service.Name != "" && len(service.Name) <= maxName && strings.Trim(service.Name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == "", at+".name",
			fmt.Sprintf("%.48q is no name of a service", service.Name), missing, fmt.Sprintf("use 1 to %d of a-z, 0-9, - and _", maxName))
		f.need(!slices.Contains(names, service.Name), at+".name", fmt.Sprintf("%.48q is there already", service.Name), "give each service another name")
		names = append(names, service.Name)
	}
	for i := range s.Services {
		service := &s.Services[i]
		at := fmt.Sprintf("services[%d]", i)
		service.Work.check(f, at+".work")
		f.count(service.Workers, at+".workers")
		f.count(service.Queue, at+".queue")
		f.count(service.MaxInFlight, at+".max_in_flight")
		f.along(service.Queue == 0 || service.Workers > 0, at+".queue", at+".workers", "nobody waits where there is no limit of workers", "set workers, or remove it")
		f.share(service.Failure, at+".failure")
		f.need(service.MeshRetries >= 0 && service.MeshRetries <= 10, at+".mesh_retries", fmt.Sprintf("%d is out of range", service.MeshRetries), "use 0 to 10")
		for k := range service.Calls {
			call := &service.Calls[k]
			at := fmt.Sprintf("%s.calls[%d]", at, k)
			if f.known(names, call.To, at+".to") {
				f.need(call.To != service.Name, at+".to", "a service calls itself", "call another one")
			}
			f.need(call.Times >= 0 && call.Times <= maxTimes, at+".times", fmt.Sprintf("%d is out of range", call.Times), fmt.Sprintf("use 1 to %d", maxTimes))
			f.share(call.Share, at+".share")
		}
	}
	return names
}

// checkCycles reports services that call each other in a circle: a request would never end.
func (s *Scenario) checkCycles(f *findings) {
	index := make(map[string]int, len(s.Services))
	for i := range s.Services {
		index[s.Services[i].Name] = i
	}
	calls := make([][]int, len(s.Services))
	for i := range s.Services {
		for _, call := range s.Services[i].Calls {
			to, known := index[call.To]
			if !known { // which is said elsewhere, as it is of a service that calls itself
				to = i
			}
			calls[i] = append(calls[i], to)
		}
	}
	circles(calls, func(from, k int, circle []int) {
		var names []string
		for _, i := range circle {
			names = append(names, s.Services[i].Name)
		}
		f.add(fmt.Sprintf("services[%d].calls[%d].to", from, k), inCircle(names), "remove one of them")
	})
}

func inCircle(names []string) string {
	return "the calls go in a circle: " + strings.Join(names, " -> ")
}

// circles finds calls that close a circle, by the numbers of services: call k of from leads back to where the circle begins. Calls to
// oneself are none.
func circles(calls [][]int, found func(from, k int, circle []int)) {
	const (
		unseen = iota
		open
		closed
	)
	state := make([]int, len(calls))
	var path []int
	var visit func(i int)
	visit = func(i int) {
		state[i] = open
		path = append(path, i)
		for k, to := range calls[i] {
			switch {
			case to == i:
			case state[to] == unseen:
				visit(to)
			case state[to] == open:
				found(i, k, append(slices.Clone(path[slices.Index(path, to):]), to))
			}
		}
		path = path[:len(path)-1]
		state[i] = closed
	}
	for i := range calls {
		if state[i] == unseen {
			visit(i)
		}
	}
}

func (s *Scenario) checkTraffic(f *findings, names []string) {
	f.need(len(s.Traffic) > 0, "traffic", "there is none", "say where requests come in")
	for i := range s.Traffic {
		t := &s.Traffic[i]
		at := fmt.Sprintf("traffic[%d]", i)
		f.known(names, t.To, at+".to")
		s.window(f, t.From, t.Until, at)
		switch clients := t.Clients != 0 || t.Every != 0 || t.RetryEvery != 0; {
		case clients && (t.Rate != 0 || t.Even):
			f.add(at, "has a rate and clients", "keep one of them")
		case clients:
			f.given(t.Clients > 0 && t.Clients <= 1_000_000, at+".clients", fmt.Sprintf("%d is out of range", t.Clients), missing, "use 1 to 1000000")
			f.given(t.Every >= time.Millisecond, at+".every", fmt.Sprintf("%v is out of range", t.Every), missing, "use at least 1ms")
			f.need(t.RetryEvery == 0 || t.RetryEvery >= time.Millisecond, at+".retry_every", fmt.Sprintf("%v is out of range", t.RetryEvery), "use at least 1ms")
		default:
			f.given(t.Rate > 0 && t.Rate <= 1e6, at+".rate", fmt.Sprintf("%v is out of range", t.Rate), missing, "use requests a second, up to 1000000")
		}
	}
}

func (s *Scenario) checkFaults(f *findings, names []string) {
	for i := range s.Faults {
		fault := &s.Faults[i]
		at := fmt.Sprintf("faults[%d]", i)
		f.given(slices.Contains(faultKinds, fault.Kind), at+".kind", fmt.Sprintf("%.48q is no fault", fault.Kind), missing, "write one of "+listed(words(faultKinds)))
		f.known(names, fault.Service, at+".service")
		s.window(f, fault.From, fault.Until, at)
		f.share(fault.Share, at+".share")
		if fault.Kind == FaultNoSDK || fault.Kind == FaultNoBaggage {
			f.need(fault.Share == 0 || fault.Share == 1, at+".share", "a service runs the SDK for all requests or for none", "remove it")
		}
		if fault.Caller != "" {
			f.known(names, fault.Caller, at+".caller")
			f.along(fault.Kind == FaultCut, at+".caller", at+".kind", "only a cut is between two services", "remove it")
		}
		f.along(fault.Status == 0 || fault.Kind == FaultError && fault.Status >= 400 && fault.Status <= 599, at+".status", at+".kind",
			fmt.Sprintf("%d is out of range", fault.Status), "use 400 to 599, with kind error")
		if fault.Kind == FaultSlow {
			f.given(fault.Factor > 0 && fault.Factor <= 1e6, at+".factor", fmt.Sprintf("%v is out of range", fault.Factor), "is missing: slow needs a factor", "say how many times as long it takes")
		} else {
			f.along(fault.Factor == 0, at+".factor", at+".kind", "only slow has a factor", "remove it")
		}
	}
}

func (s *Scenario) checkVariants(f *findings, names []string) {
	f.need(len(s.Variants) > 0, "variants", "there is none", "say how the fleet retries, in one way or in several to compare")
	var seen []string
	for i := range s.Variants {
		v := &s.Variants[i]
		at := fmt.Sprintf("variants[%d]", i)
		f.given(v.Name != "", at+".name", "is empty", missing, "name it")
		f.need(!slices.Contains(seen, v.Name), at+".name", fmt.Sprintf("%.48q is there already", v.Name), "give each variant another name")
		seen = append(seen, v.Name)
		v.check(f, &v.Policy, at+".policy")
		for _, name := range sorted(v.Except) {
			policy := v.Except[name]
			f.known(names, name, at+".except."+name)
			v.check(f, &policy, at+".except."+name)
		}
		s.checkPins(f, v, at)
	}
}

// checkPins reports dependencies whose pinned profile the lab does not run.
func (s *Scenario) checkPins(f *findings, v *Variant, at string) {
	for _, name := range sorted(v.catalog().Dependencies) {
		profile := v.catalog().Profiles[v.catalog().Dependencies[name].Profile]
		called := slices.ContainsFunc(s.Services, func(s Service) bool { return s.Name == name })
		if called && profile != nil && profile.Hedge.Enabled() {
			f.add(at+".catalog", fmt.Sprintf("dependency %.48q has profile %.48q, which hedges, and the lab does not", name, profile.Name), "pin a profile without hedge")
		}
	}
}

func (v *Variant) check(f *findings, p *Policy, at string) {
	f.need(slices.Contains(policyKinds, p.Kind), at+".kind", fmt.Sprintf("%.48q is no policy", p.Kind), "write one of "+listed(words(policyKinds[1:]))+", or leave it out for the SDK")
	if p.Kind == PolicySDK {
		profile, ok := v.catalog().Profiles[p.profile()]
		f.need(ok, at+".profile", fmt.Sprintf("%.48q is no profile of the catalog", p.Profile), "name one that it has")
		if ok {
			f.need(!profile.Hedge.Enabled(), at+".profile", fmt.Sprintf("%.48q hedges, which the lab does not do", p.Profile), "use a profile without hedge")
		}
		f.along(p.Attempts == 0 && p.Timeout == 0 && p.Base == 0 && p.Cap == 0 && !p.Fixed && p.Budget == 0 && p.Ratio == 0 && p.Burst == 0, at, at+".kind",
			"has settings of another policy", "write the SDK's settings into the catalog")
		return
	}
	f.need(p.Profile == "", at+".profile", "only the SDK has profiles", "remove it")
	f.need(p.Attempts >= 0 && p.Attempts <= 100, at+".attempts", fmt.Sprintf("%d is out of range", p.Attempts), "use 1 to 100")
	f.need(p.Timeout >= 0 && p.Timeout <= maxDuration, at+".timeout", fmt.Sprintf("%v is out of range", p.Timeout), "use up to 24h")
	f.need(p.Base >= 0 && p.Base <= maxDuration, at+".base", fmt.Sprintf("%v is out of range", p.Base), "use up to 24h")
	f.need(p.Cap >= 0 && p.Cap <= maxDuration, at+".cap", fmt.Sprintf("%v is out of range", p.Cap), "use up to 24h")
	f.need(p.Budget == 0 || p.Kind == PolicyDownOnly && p.Budget > 0 && p.Budget <= 99, at+".budget", fmt.Sprintf("%d is out of range", p.Budget), "use 1 to 99, with kind down_only")
	f.need(p.Ratio == 0 || p.Kind == PolicyRatio && p.Ratio > 0 && p.Ratio <= 1, at+".ratio", fmt.Sprintf("%v is out of range", p.Ratio), "use a share above 0, with kind ratio")
	f.need(p.Burst == 0 || p.Kind == PolicyRatio && p.Burst > 0 && p.Burst <= 1_000_000, at+".burst", fmt.Sprintf("%d is out of range", p.Burst), "use 1 to 1000000, with kind ratio")
	f.need(p.Kind != PolicyDownOnly || p.Budget > 0, at+".budget", "is missing", "say how many retries a chain has")
	f.need(p.Kind != PolicyRatio || p.Ratio > 0, at+".ratio", "is missing", "say what share of the calls may be retried")
}

func (f *findings) count(n int, at string) {
	f.need(n >= 0 && n <= 1_000_000, at, fmt.Sprintf("%d is out of range", n), "use 0 to 1000000")
}

func (f *findings) share(v float64, at string) {
	f.need(v >= 0 && v <= 1, at, fmt.Sprintf("%v is out of range", v), "use 0 to 1, or 0% to 100%")
}

// window checks from when until when something is; an until that is past the end of the traffic is the end.
func (s *Scenario) window(f *findings, from, until time.Duration, at string) {
	f.need(from >= 0, at+".from", fmt.Sprintf("%v is out of range", from), "use a time from the beginning")
	f.need(until == 0 || until > from, at+".until", fmt.Sprintf("%v is not after %v", until, from), "let it end after it begins, or leave it out")
	if s.Duration > 0 && from >= s.Duration {
		*f = append(*f, finding{at: at + ".from", what: fmt.Sprintf("%v is not before the end of the traffic, %v", from, s.Duration), fix: "use an earlier time, or a longer duration", rests: "duration"})
	}
}

func (l Latency) check(f *findings, at string) {
	forms := 0
	for _, set := range []bool{l.Min != 0 || l.Max != 0, l.Mean != 0, l.P50 != 0 || l.P99 != 0} {
		if set {
			forms++
		}
	}
	f.need(forms <= 1, at, "is more than one distribution", "use min and max, or mean, or p50 and p99")
	f.need(l.Min >= 0 && l.Max >= l.Min && l.Max <= maxLatency, at, fmt.Sprintf("%v to %v is no range", l.Min, l.Max), "use min up to max, at most 1h")
	f.need(l.Mean >= 0 && l.Mean <= maxLatency, at+".mean", fmt.Sprintf("%v is out of range", l.Mean), "use up to 1h")
	f.need(l.P50 >= 0 && l.P99 >= l.P50 && l.P99 <= maxLatency && (l.P50 > 0 || l.P99 == 0), at, fmt.Sprintf("p50 %v and p99 %v are no distribution", l.P50, l.P99), "use p50 up to p99, at most 1h")
}

func unprintable(c rune) bool { return !unicode.IsPrint(c) }

func words[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var (
	faultKinds  = []FaultKind{FaultError, FaultSlow, FaultHang, FaultCrash, FaultCut, FaultDropContext, FaultNoSDK, FaultNoBaggage}
	policyKinds = []PolicyKind{PolicySDK, PolicyNone, PolicyNaive, PolicyRatio, PolicyDownOnly, PolicyChainStop, PolicyFinagle, PolicyGRPC, PolicyAWS}
	metrics     = []Metric{MetricSuccess, MetricLoad, MetricRetries, MetricRadius, MetricMeanRadius, MetricP50, MetricP95, MetricP99}
)
