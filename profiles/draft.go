package profiles

import (
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// draft is a profile as one file states it: what it sets, before what it inherits is known.
type draft struct {
	name    Name
	key     *yaml.Node // of its name
	path    string
	extends Name
	parent  *yaml.Node            // of extends
	set     []func(*Profile)      // what it sets, in the file's order
	places  map[string]*yaml.Node // by setting, such as "retry.max_attempts"
	unread  map[string]bool       // settings whose value is not one; that has been reported
	fresh   map[string]bool       // see freshGroups

	done    *Profile // the result, also of a profile that has problems
	waiting bool     // for its parent, just now
}

// profiles reads the profiles into c. They may extend each other in any order.
func (d *decoder) profiles(n *yaml.Node, path string, c, base *Catalog) {
	drafts := map[Name]*draft{}
	var order []*draft
	d.entries(n, path, func(k, v *yaml.Node, name, at string) {
		if !validProfileName(name) {
			d.report(k, at, quote(name)+" is not a profile name", fixProfileName)
			return
		}
		if base != nil && base.Profiles[Name(name)] != nil {
			d.report(k, at, "is a built-in profile", "choose another name, and write extends: "+name+" to start from it")
			return
		}
		p := &draft{name: Name(name), key: k, path: at, places: map[string]*yaml.Node{}, unread: map[string]bool{}}
		d.draft(v, p)
		drafts[p.name], order = p, append(order, p)
	})
	names := sync.OnceValue(func() []string { return knownNames(drafts, c.Profiles) })
	for _, p := range order {
		c.Profiles[p.name] = d.finish(p, drafts, c.Profiles, names)
		c.from.profiles[p.name] = d.origin(p, base == nil)
	}
}

// finish applies what the draft sets to what it extends. It always returns a complete profile.
func (d *decoder) finish(p *draft, drafts map[Name]*draft, known map[Name]*Profile, names func() []string) *Profile {
	if p.done != nil {
		return p.done
	}
	result := Default()
	// With a parent that is at fault itself, the same fault here would be reported twice.
	p.waiting = true
	switch parent := drafts[p.extends]; {
	case p.extends == "":
		if p.places["retry.max_attempts"] == nil && p.parent == nil {
			d.report(p.key, p.path+".retry.max_attempts", "is missing", "write 1 to 99, or extend a profile that says it")
		}
	case parent != nil && parent.waiting:
		d.report(p.parent, p.path+".extends", "goes round in a circle: "+circle(p, drafts), "let one of them extend something else")
	case parent != nil:
		result = *d.finish(parent, drafts, known, names)
	case known[p.extends] != nil:
		result = *known[p.extends]
	case !d.partial:
		d.report(p.parent, p.path+".extends", "unknown profile "+quote(string(p.extends)),
			"known are "+listNames(names())+d.suggest(string(p.extends), names()))
	}
	p.waiting = false
	inherited := result
	result.Name, result.Extends = p.name, p.extends
	result.Retry.Statuses = slices.Clone(result.Retry.Statuses)
	for _, set := range p.set {
		set(&result)
	}
	p.fresh = freshGroups(p, &inherited, &result)
	checkProfile(&result, p.wrote, func(what, fix string, keys ...string) {
		if key, at := p.place(keys); at != nil {
			d.report(at, p.path+"."+key, what, fix)
		}
	})
	d.warnDraft(p, &result)
	slices.Sort(result.Retry.Statuses)
	p.done = &result
	return p.done
}

// wrote reports whether the profile itself sets something in a group.
func (p *draft) wrote(group string) bool {
	for key := range p.places {
		if strings.HasPrefix(key, group+".") {
			return true
		}
	}
	return false
}

// place returns the first of the keys that this profile sets itself. What only its parent sets has been reported there, and
// of what could not be read nothing else is to be said.
func (p *draft) place(keys []string) (key string, at *yaml.Node) {
	if slices.ContainsFunc(keys, func(key string) bool { return p.unread[key] }) {
		return "", nil
	}
	for _, key := range keys {
		if at := p.places[key]; at != nil {
			return key, at
		}
	}
	// A group that turned something on is to blame for what it left out: {hedge: {max: 1}} has no after.
	group, _, _ := strings.Cut(keys[0], ".")
	if p.places[group+" on"] != nil && p.fresh[group] {
		return keys[0], p.places[group+" on"]
	}
	return "", nil
}

func circle(p *draft, drafts map[Name]*draft) string {
	names := []Name{p.name}
	for next := drafts[p.extends]; next != nil && next != p && len(names) < 10; next = drafts[next.extends] {
		names = append(names, next.name)
	}
	return strings.ReplaceAll(listNames(append(names, p.name)), ", ", " > ")
}

func knownNames(drafts map[Name]*draft, known map[Name]*Profile) []string {
	var list []string
	for n := range known {
		list = append(list, string(n))
	}
	for n := range drafts {
		if known[n] == nil {
			list = append(list, string(n))
		}
	}
	slices.Sort(list)
	return list
}

// draft reads one profile. Values are checked for their type here, and for their range once it is complete.
func (d *decoder) draft(n *yaml.Node, p *draft) {
	d.mapping(n, p.path,
		key{"extends", func(n *yaml.Node, path string) {
			p.parent = n
			if s, ok := d.text(n, path, maxNameLen); ok {
				p.extends = Name(s)
			}
		}},
		key{"retry", func(n *yaml.Node, path string) { d.draftRetry(n, path, p) }},
		key{"backoff", func(n *yaml.Node, path string) { d.draftBackoff(n, path, p) }},
		key{"budget", func(n *yaml.Node, path string) { d.draftBudget(n, path, p) }},
		key{"breaker", func(n *yaml.Node, path string) { d.draftBreaker(n, path, p) }},
		key{"hedge", func(n *yaml.Node, path string) { d.draftHedge(n, path, p) }},
		key{"adaptive_throttle", func(n *yaml.Node, path string) { d.draftThrottle(n, path, p) }},
		setting(p, "process_budget", d.int, func(q *Profile, v int) { q.ProcessBudget = v }),
		setting(p, "availability_floor", d.ratio, func(q *Profile, v float64) { q.AvailabilityFloor = v }),
		setting(p, "external", d.flag, func(q *Profile, v bool) { q.External = v }),
	)
}

// setting returns the key that reads one value and remembers how, and from where, to set it.
func setting[T any](p *draft, name string, read func(*yaml.Node, string) (T, bool), set func(*Profile, T)) key {
	full := name
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		name = name[i+1:]
	}
	return key{name, func(n *yaml.Node, path string) {
		// The place counts even if the value is unreadable, so that it is not missing as well.
		p.places[full] = n
		if v, ok := read(n, path); ok {
			p.set = append(p.set, func(q *Profile) { set(q, v) })
		} else {
			p.unread[full] = true
		}
	}}
}

func wordReader[T ~uint8](d *decoder, words []string) func(*yaml.Node, string) (T, bool) {
	return func(n *yaml.Node, path string) (T, bool) {
		i, ok := d.word(n, path, words)
		return T(i), ok
	}
}

// group reads a mapping that `disabled` can stand for. A profile that turns on what its parent has off starts from the
// defaults.
func (d *decoder) group(n *yaml.Node, path, name string, p *draft, on, off func(*Profile), keys ...key) {
	if n.Kind == yaml.ScalarNode {
		p.places[name+" off"] = n
		if d.disabled(n, path) {
			p.set = append(p.set, off)
		}
		return
	}
	p.places[name+" on"] = n
	p.set = append(p.set, on)
	d.mapping(n, path, keys...)
}

func (d *decoder) draftRetry(n *yaml.Node, path string, p *draft) {
	d.mapping(n, path,
		setting(p, "retry.max_attempts", d.int, func(q *Profile, v int) { q.Retry.MaxAttempts = v }),
		setting(p, "retry.statuses", d.statuses, func(q *Profile, v []int) { q.Retry.Statuses = slices.Clone(v) }),
		setting(p, "retry.attempt_timeout", d.duration, func(q *Profile, v time.Duration) { q.Retry.AttemptTimeout = v }),
		setting(p, "retry.timeout", d.duration, func(q *Profile, v time.Duration) { q.Retry.Timeout = v }),
		setting(p, "retry.reserve", d.int, func(q *Profile, v int) { q.Retry.Reserve = v }),
		setting(p, "retry.repeats", wordReader[Repeats](d, repeatsWords), func(q *Profile, v Repeats) { q.Retry.Repeats = v }),
		setting(p, "retry.missing", wordReader[Missing](d, missingWords), func(q *Profile, v Missing) { q.Retry.Missing = v }),
	)
}

func (d *decoder) draftBackoff(n *yaml.Node, path string, p *draft) {
	d.mapping(n, path,
		setting(p, "backoff.base", d.duration, func(q *Profile, v time.Duration) { q.Backoff.Base = v }),
		setting(p, "backoff.throttled_base", d.duration, func(q *Profile, v time.Duration) { q.Backoff.ThrottledBase = v }),
		setting(p, "backoff.cap", d.duration, func(q *Profile, v time.Duration) { q.Backoff.Cap = v }),
		setting(p, "backoff.hint", wordReader[HintRule](d, hintWords), func(q *Profile, v HintRule) { q.Backoff.Hint = v }),
	)
}

func (d *decoder) draftBudget(n *yaml.Node, path string, p *draft) {
	kind, hasKind := BudgetRatio, false
	on := func(q *Profile) {
		if !q.Budget.Enabled() {
			q.Budget = Default().Budget
		}
		// The settings of one kind mean nothing to the other. on runs before any of them is set.
		if hasKind && q.Budget.Kind != kind {
			q.Budget = Budget{Kind: kind}
		}
	}
	d.group(n, path, "budget", p, on, func(q *Profile) { q.Budget = Budget{} },
		setting(p, "budget.kind", func(n *yaml.Node, path string) (BudgetKind, bool) {
			kind, hasKind = wordReader[BudgetKind](d, kindWords)(n, path)
			return kind, hasKind
		}, func(*Profile, BudgetKind) {}),
		setting(p, "budget.ratio", d.ratio, func(q *Profile, v float64) { q.Budget.Ratio = v }),
		setting(p, "budget.fund", wordReader[Fund](d, fundWords), func(q *Profile, v Fund) { q.Budget.Fund = v }),
		setting(p, "budget.burst", d.int, func(q *Profile, v int) { q.Budget.Burst = v }),
		setting(p, "budget.cost", d.int, func(q *Profile, v int) { q.Budget.Cost = v }),
		setting(p, "budget.throttled_cost", d.int, func(q *Profile, v int) { q.Budget.ThrottledCost = v }),
		setting(p, "budget.min_per_second", d.int, func(q *Profile, v int) { q.Budget.MinPerSecond = v }),
		setting(p, "budget.ttl", d.duration, func(q *Profile, v time.Duration) { q.Budget.TTL = v }),
	)
}

func (d *decoder) draftBreaker(n *yaml.Node, path string, p *draft) {
	on := func(q *Profile) {
		if !q.Breaker.Enabled() {
			q.Breaker = Default().Breaker
		}
	}
	d.group(n, path, "breaker", p, on, func(q *Profile) { q.Breaker = Breaker{} },
		setting(p, "breaker.window", d.duration, func(q *Profile, v time.Duration) { q.Breaker.Window = v }),
		setting(p, "breaker.failure_ratio", d.ratio, func(q *Profile, v float64) { q.Breaker.FailureRatio = v }),
		setting(p, "breaker.min_requests", d.int, func(q *Profile, v int) { q.Breaker.MinRequests = v }),
		setting(p, "breaker.open_for", d.duration, func(q *Profile, v time.Duration) { q.Breaker.OpenFor = v }),
		setting(p, "breaker.probes", d.int, func(q *Profile, v int) { q.Breaker.Probes = v }),
		setting(p, "breaker.probe_timeout", d.duration, func(q *Profile, v time.Duration) { q.Breaker.ProbeTimeout = v }),
		setting(p, "breaker.consecutive_failures", d.int, func(q *Profile, v int) { q.Breaker.ConsecutiveFailures = v }),
		setting(p, "breaker.slow_call", d.duration, func(q *Profile, v time.Duration) { q.Breaker.SlowCall = v }),
		setting(p, "breaker.slow_ratio", d.ratio, func(q *Profile, v float64) { q.Breaker.SlowRatio = v }),
		setting(p, "breaker.max_in_flight", d.int, func(q *Profile, v int) { q.Breaker.MaxInFlight = v }),
	)
	// The ratio follows slow_call on and off, unless this profile says it.
	p.set = append(p.set, func(q *Profile) {
		switch {
		case p.places["breaker.slow_ratio"] != nil:
		case q.Breaker.SlowCall == 0:
			q.Breaker.SlowRatio = 0
		case q.Breaker.SlowRatio == 0:
			q.Breaker.SlowRatio = DefaultSlowRatio
		}
	})
}

func (d *decoder) draftHedge(n *yaml.Node, path string, p *draft) {
	d.group(n, path, "hedge", p, func(*Profile) {}, func(q *Profile) { q.Hedge = Hedge{} },
		setting(p, "hedge.after", d.duration, func(q *Profile, v time.Duration) { q.Hedge.After = v }),
		setting(p, "hedge.max", d.int, func(q *Profile, v int) { q.Hedge.Max = v }),
	)
}

func (d *decoder) draftThrottle(n *yaml.Node, path string, p *draft) {
	on := func(q *Profile) {
		if !q.Throttle.Enabled() {
			q.Throttle = Throttle{Window: DefaultThrottleWindow} // k is never assumed
		}
	}
	d.group(n, path, "adaptive_throttle", p, on, func(q *Profile) { q.Throttle = Throttle{} },
		setting(p, "adaptive_throttle.k", d.number, func(q *Profile, v float64) { q.Throttle.K = v }),
		setting(p, "adaptive_throttle.window", d.duration, func(q *Profile, v time.Duration) { q.Throttle.Window = v }),
	)
}
