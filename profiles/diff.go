package profiles

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Change is one effective value in which two catalogs differ.
type Change struct {
	Subject string // whose it is: "chain", "overrides", "dependency payments", "profile bulk", "service checkout", "hosts"
	Key     string // as in the catalog, such as "retry.max_attempts"; a group that is turned on or off is one key
	Old     string // as a catalog would write it; "none" = not there
	New     string
	Means   []string // what it does to load, time and failures, with numbers, each a sentence; may be empty
}

// Diff compares what two catalogs come to, whatever their files look like: for each dependency, what holds for it; for
// profiles that no dependency pins in both, their settings; the chain, services, internal hosts and overrides. Means is
// computed from all settings that have a part in it, and stands beside one of them that changed. The order is fixed.
// There are no changes if, and only if, both catalogs have the same [Catalog.Digest].
func Diff(old, new *Catalog) []Change {
	old, new = old.orBuiltin(), new.orBuiltin()
	d := differ{before: old, after: new}
	d.chain()
	d.overrides()
	dependencies := names(old.Dependencies, new.Dependencies)
	pinned := map[Name]bool{}
	for _, name := range dependencies {
		if p := d.dependency(name); p != "" {
			pinned[p] = true
		}
	}
	for _, name := range names(old.Profiles, new.Profiles) {
		if !pinned[name] {
			d.profile(name)
		}
	}
	for _, name := range names(old.Services, new.Services) {
		d.service(name)
	}
	d.compare("hosts", "internal_hosts", hostRules(old), hostRules(new), "",
		"hosts that are no longer listed get no tokens, those that are new do, unless their dependency says otherwise")
	return d.list
}

type differ struct {
	before, after *Catalog
	list          []Change
}

const none = "none"

// compare adds a change if the two values differ, with one of two meanings: what it means to lose the value, or else.
func (d *differ) compare(subject, key, old, new, removed, changed string) {
	if old == new {
		return
	}
	means := changed
	if removed != "" && new == none {
		means = removed
	}
	change := Change{Subject: subject, Key: key, Old: old, New: new}
	if means != "" {
		change.Means = []string{means}
	}
	d.list = append(d.list, change)
}

func (d *differ) chain() {
	before := len(d.list)
	for _, k := range chainKeys() {
		d.compare("chain", k.name, k.value(&d.before.Chain), k.value(&d.after.Chain), "", "")
	}
	d.explain(d.list[before:], chainEffects, &situation{catalog: d.before}, &situation{catalog: d.after})
}

func (d *differ) overrides() {
	word := func(off bool) string {
		if off {
			return "disabled"
		}
		return none
	}
	const off, on = "no calls are repeated, from the moment that the catalog arrives", "calls are repeated again"
	old, new := &d.before.Overrides, &d.after.Overrides
	d.compare("overrides", "retries", word(old.RetriesDisabled), word(new.RetriesDisabled), on+", except where switched off by dependency", off+", to any dependency")
	for _, name := range names(old.Dependencies, new.Dependencies) {
		removed := on
		if new.RetriesDisabled {
			removed = "none: overrides.retries disables them all"
		}
		d.compare("overrides", join("dependencies", name)+".retries", word(old.Dependencies[name]), word(new.Dependencies[name]), removed, off)
	}
}

// dependency returns the profile that both catalogs pin, "" if they do not agree on one.
func (d *differ) dependency(name string) (pinned Name) {
	subject := "dependency " + clip(name, maxText)
	old, new := d.situation(d.before, name), d.situation(d.after, name)
	declared := func(c *Catalog) *Dependency {
		if dep := c.Dependencies[name]; dep != nil {
			return dep
		}
		return &Dependency{}
	}
	was, is := declared(d.before), declared(d.after)
	before := len(d.list)
	_, wasThere := d.before.Dependencies[name]
	_, isThere := d.after.Dependencies[name]
	d.compare(subject, "dependency", there(wasThere), there(isThere), "", "")
	pin := func(s *situation) string {
		if s.profile == nil {
			return "named in code"
		}
		return string(s.profile.Name)
	}
	d.compare(subject, "profile", pin(old), pin(new), "", d.pinMeans(old, new))
	for _, v := range []struct{ key, old, new, removed, changed string }{
		{"owner", orNone(was.Owner), orNone(is.Owner), "", ""},
		{"on_failure", was.OnFailure.String(), is.OnFailure.String(), "", onFailureMeans[is.OnFailure]},
		{"hosts", orNone(hostList(was.Hosts)), orNone(hostList(is.Hosts)), "", "routers pick this dependency for these hosts only"},
		{"external", placement(was, old), placement(is, new), "", placementMeans(placement(was, old), placement(is, new))},
		{"mesh", orNone(string(was.Mesh)), orNone(string(is.Mesh)), "the proxy below may repeat requests again: each attempt can become several", "the proxy below is asked not to repeat requests"},
		{"mode", old.mode.String(), new.mode.String(), "", ""},
	} {
		d.compare(subject, v.key, v.old, v.new, v.removed, v.changed)
	}
	if old.profile != nil && new.profile != nil {
		d.settings(subject, old.profile, new.profile)
	}
	d.explain(d.list[before:], profileEffects, old, new)
	if old.profile != nil && new.profile != nil && old.profile.Name == new.profile.Name {
		return new.profile.Name
	}
	return ""
}

// situation is what one catalog says about a dependency, or with an empty name about no one of them.
func (d *differ) situation(c *Catalog, dependency string) *situation {
	e, _ := c.Resolve(dependency, "")
	s := &situation{catalog: c, dependency: dependency, mode: e.Mode}
	if e.Pinned {
		s.profile = e.Profile
	}
	return s
}

func (d *differ) pinMeans(old, new *situation) string {
	switch {
	case new.profile == nil:
		return "each caller uses what its code names, and no caller is told when it differs from others"
	case old.profile == nil:
		return "every caller gets it, whatever its code names: " + new.summary()
	}
	return ""
}

func (d *differ) profile(name Name) {
	subject := "profile " + string(name)
	old, new := d.before.Profiles[name], d.after.Profiles[name]
	before := len(d.list)
	switch {
	case old == new: // the built-in ones
	case old == nil:
		s := &situation{catalog: d.after, profile: new}
		d.compare(subject, "profile", none, "declared", "", s.summary())
	case new == nil:
		d.compare(subject, "profile", "declared", none, "", "code that names it gets no-retry and a warning, or an error under WithStrict")
	default:
		d.settings(subject, old, new)
		d.explain(d.list[before:], profileEffects, &situation{catalog: d.before, profile: old, mode: d.before.Chain.mode()},
			&situation{catalog: d.after, profile: new, mode: d.after.Chain.mode()})
	}
}

// settings compares profiles value by value. A group that is turned on or off, or has another kind, is one change.
func (d *differ) settings(subject string, old, new *Profile) {
	was, is := settingsMap(old), settingsMap(new)
	done := ""
	for _, k := range profileKeys() {
		group := k.group()
		switch {
		case group != "" && group == done:
		case was[group] != is[group], group == "budget" && old.Budget.Kind != new.Budget.Kind:
			done = group
			d.compare(subject, group, groupOf(old, group), groupOf(new, group), "", "")
		default:
			d.compare(subject, k.name, orNone(was[k.name]), orNone(is[k.name]), "", "")
		}
	}
}

func settingsMap(p *Profile) map[string]string {
	m := map[string]string{}
	settingsOf(p, func(key, value string) { m[key] = value })
	return m
}

// groupOf writes a whole group as a catalog would, on one line.
func groupOf(p *Profile, group string) string {
	var list []string
	off := ""
	settingsOf(p, func(key, value string) {
		if key == group {
			off = value
		}
		if name, ok := strings.CutPrefix(key, group+"."); ok {
			list = append(list, name+": "+value)
		}
	})
	if off != "" {
		return off
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func (d *differ) service(name string) {
	subject := "service " + clip(name, maxText)
	old, new := d.before.Services[name], d.after.Services[name]
	d.compare(subject, "service", there(old != nil), there(new != nil), "", "")
	serves := func(c *Catalog) string { return strings.Join(slices.Sorted(slices.Values(c.Serves(name))), ", ") }
	d.compare(subject, "serves", serves(d.before), serves(d.after), "", "its callers are held to what is pinned for these")
	for _, pattern := range names(routes(old), routes(new)) {
		d.compare(subject, join("routes", pattern), budgetOf(old, pattern), budgetOf(new, pattern), "",
			"a chain that begins there brings a service on one path at most "+chainAttempts(d.routeTokens(d.before, old, pattern))+
				" -> "+chainAttempts(d.routeTokens(d.after, new, pattern))+" attempts")
	}
	d.compare(subject, "idempotent", patterns(old), patterns(new),
		"callers above no longer repeat what failed after it may have run", "what is listed may be repeated after it has run: the handler must bear it")
	d.compare(subject, "failure_statuses", statusesOf(old), statusesOf(new), "", "these answers are failures of the service, which callers may repeat")
}

func (d *differ) routeTokens(c *Catalog, s *Service, pattern string) int {
	if route, ok := routes(s)[pattern]; ok {
		return route.Budget
	}
	return c.Chain.Budget
}

func routes(s *Service) map[string]Route {
	if s == nil {
		return nil
	}
	return s.Routes
}

func budgetOf(s *Service, pattern string) string {
	route, ok := routes(s)[pattern]
	if !ok {
		return none
	}
	return "{budget: " + strconv.Itoa(route.Budget) + "}"
}

func patterns(s *Service) string {
	if s == nil || len(s.Idempotent) == 0 {
		return none
	}
	return strings.Join(slices.Sorted(slices.Values(s.Idempotent)), ", ")
}

func statusesOf(s *Service) string {
	if s == nil || len(s.FailureStatuses) == 0 {
		return "every 5xx, and 429"
	}
	return showStatuses(s.FailureStatuses)
}

func hostRules(c *Catalog) string {
	switch {
	case c.InternalHosts == nil:
		return "the default rules"
	case len(c.InternalHosts) == 0:
		return "[]"
	}
	return hostList(c.InternalHosts)
}

// placement is where a dependency is, with who says so where that is not the dependency's own key.
func placement(d *Dependency, s *situation) string {
	if s.profile != nil && s.profile.External && d.External != PlacementExternal {
		return "external by its profile"
	}
	return d.External.String()
}

// placementMeans says nothing where only the one who decided is another.
func placementMeans(old, new string) string {
	was, _, _ := strings.Cut(old, " ")
	is, _, _ := strings.Cut(new, " ")
	if was == is {
		return ""
	}
	return placements[is]
}

func there(is bool) string {
	if is {
		return "declared"
	}
	return none
}

func hostList(hosts []string) string {
	list := canonicalHosts(hosts)
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// names returns the keys of both maps, sorted.
func names[S ~string, V any](a, b map[S]V) []S {
	all := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, both := a[name]; !both {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
