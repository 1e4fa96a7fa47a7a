package profiles

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// DefaultChain returns the chain settings of a catalog that sets none.
func DefaultChain() Chain {
	return Chain{Budget: 3, MaxBudget: 10, OrphanBudget: 1, Mode: ModeEnforce, Grace: time.Hour}
}

// catalog reads all parts into c. What refers to something else is read after it, whatever the order of files and keys.
func (d *decoder) catalog(p *parts, c, base *Catalog) {
	if chain := d.merge(p.chain, "chain"); chain != nil {
		c.from.chain = d.chain(chain, "chain", &c.Chain)
	}
	for i, n := range p.internalHosts {
		if i > 0 { // a list is reviewed as a whole
			d.report(n, "internal_hosts", "is set "+d.already(p.internalHosts[0], n), "keep one of them")
			continue
		}
		d.internalHosts(n, "internal_hosts", c)
	}
	if base != nil {
		maps.Copy(c.Profiles, base.Profiles)
		maps.Copy(c.from.profiles, base.from.profiles)
	}
	if profiles := d.merge(p.profiles, "profiles"); profiles != nil {
		d.profiles(profiles, "profiles", c, base)
	}
	if dependencies := d.merge(p.dependencies, "dependencies"); dependencies != nil {
		d.dependencies(dependencies, "dependencies", c)
	}
	if services := d.merge(p.services, "services"); services != nil {
		d.services(services, "services", c)
	}
	if overrides := d.mergeOverrides(p.overrides); overrides != nil {
		d.overrides(overrides, "overrides", c)
	}
}

func (d *decoder) version(n *yaml.Node, path string) {
	if v, ok := d.int(n, path); ok && v != SchemaVersion {
		d.report(n, path, strconv.Itoa(v)+" is not known here",
			fmt.Sprintf("write %d, or use a release that knows this version", SchemaVersion))
	}
}

func (d *decoder) chain(n *yaml.Node, path string, c *Chain) map[string]place {
	invalid := map[*int]bool{}
	count := func(dst *int, r span[int]) func(*yaml.Node, string) {
		return func(n *yaml.Node, path string) {
			if v, ok := d.integer(n, path, r); ok {
				*dst = v
			} else {
				invalid[dst] = true
			}
		}
	}
	places := d.mapping(n, path,
		key{"budget", count(&c.Budget, rangeTokens)},
		key{"max_budget", count(&c.MaxBudget, rangeTokens)},
		key{"orphan_budget", count(&c.OrphanBudget, rangeTokens)},
		key{"process_budget", count(&c.ProcessBudget, rangeOptional)},
		key{"deadlines", func(n *yaml.Node, path string) { readWord(d, n, path, deadlinesWords, &c.Deadlines) }},
		key{"mode", func(n *yaml.Node, path string) { readWord(d, n, path, modeWords, &c.Mode) }},
		key{"unknown", func(n *yaml.Node, path string) { readWord(d, n, path, unknownWords, &c.Unknown) }},
		key{"learn", func(n *yaml.Node, path string) { readWord(d, n, path, learningWords, &c.Learn) }},
		key{"holdout", func(n *yaml.Node, path string) {
			if v, ok := d.ratio(n, path); ok && d.inRange(n, path, rangeShare.holds(v), show(v), rangeShare.String()) {
				c.Holdout = v
			}
		}},
		key{"grace", func(n *yaml.Node, path string) {
			if v, ok := d.duration(n, path); ok && d.inRange(n, path, rangeGrace.holds(v), show(v), rangeGrace.String()) {
				c.Grace = v
			}
		}},
	)
	// A budget above the largest grant would be minted here and cut down by every callee.
	for _, b := range []struct {
		name   string
		tokens *int
	}{{"budget", &c.Budget}, {"orphan_budget", &c.OrphanBudget}} {
		at := places[b.name]
		if at == nil {
			at = places["max_budget"]
		}
		if at != nil && *b.tokens > c.MaxBudget && !invalid[b.tokens] && !invalid[&c.MaxBudget] {
			d.report(at, join(path, b.name), fmt.Sprintf("%d is above max_budget %d", *b.tokens, c.MaxBudget),
				"lower it or raise max_budget")
		}
	}
	return d.placesOf(places)
}

func (d *decoder) inRange(n *yaml.Node, path string, ok bool, value, want string) bool {
	if !ok {
		d.report(n, path, value+" is out of range", "use "+want)
	}
	return ok
}

func readWord[T ~uint8](d *decoder, n *yaml.Node, path string, words []string, dst *T) {
	if i, ok := d.word(n, path, words); ok {
		*dst = T(i)
	}
}

func (d *decoder) internalHosts(n *yaml.Node, path string, c *Catalog) {
	c.InternalHosts = []string{} // an empty list is a list: nothing is internal
	d.items(n, path, func(n *yaml.Node, at string) {
		s, ok := d.text(n, at, maxHostLen+8)
		if !ok {
			return
		}
		if strings.Contains(s, "/") {
			prefix, err := netip.ParsePrefix(s)
			if err != nil || prefix != prefix.Masked() {
				d.report(n, at, quote(s)+" is not a network", "write it as 10.0.0.0/8, with zeros behind the prefix")
				return
			}
			c.networks = append(c.networks, prefix)
			c.InternalHosts = append(c.InternalHosts, s)
			return
		}
		if d.host(n, at, s, &c.internal, s) {
			c.InternalHosts = append(c.InternalHosts, s)
		}
	})
}

// host enters one host pattern for owner.
func (d *decoder) host(n *yaml.Node, at, s string, index *hostIndex, owner string) bool {
	pattern, what := parseHostPattern(s)
	if what != "" {
		d.report(n, at, quote(s)+": "+what, `write a host such as "payments.internal", "*.corp.example.com" or "10.0.0.7:8080"`)
		return false
	}
	if holder, taken := index.add(pattern, owner); taken {
		d.report(n, at, quote(s)+" belongs to "+quote(holder)+" "+d.already(d.hosts[index][pattern], n), "keep one of them")
		return false
	}
	if d.hosts == nil {
		d.hosts = map[*hostIndex]map[hostPattern]*yaml.Node{}
	}
	if d.hosts[index] == nil {
		d.hosts[index] = map[hostPattern]*yaml.Node{}
	}
	d.hosts[index][pattern] = n
	return true
}

func (d *decoder) dependencies(n *yaml.Node, path string, c *Catalog) {
	known := sync.OnceValue(func() []string { return knownNames(nil, c.Profiles) })
	d.entries(n, path, func(k, v *yaml.Node, name, at string) {
		if !d.name(k, at, name) {
			return
		}
		dep := &Dependency{Name: name}
		places := d.mapping(v, at,
			key{"profile", func(n *yaml.Node, path string) {
				if s, ok := d.text(n, path, maxNameLen); ok {
					dep.Profile = Name(s)
					if c.Profiles[dep.Profile] == nil && !d.partial {
						d.report(n, path, "unknown profile "+quote(s), "known are "+listNames(known())+d.suggest(s, known()))
					}
				}
			}},
			key{"owner", func(n *yaml.Node, path string) { dep.Owner, _ = d.text(n, path, maxNameLen) }},
			key{"on_failure", func(n *yaml.Node, path string) { readWord(d, n, path, onFailureWords, &dep.OnFailure) }},
			key{"hosts", func(n *yaml.Node, path string) {
				d.items(n, path, func(n *yaml.Node, at string) {
					if s, ok := d.text(n, at, maxHostLen+8); ok && d.host(n, at, s, &c.hosts, name) {
						dep.Hosts = append(dep.Hosts, strings.ToLower(s))
					}
				})
			}},
			key{"external", func(n *yaml.Node, path string) {
				if v, ok := d.flag(n, path); ok {
					dep.External = PlacementInternal
					if v {
						dep.External = PlacementExternal
					}
				}
			}},
			key{"mesh", func(n *yaml.Node, path string) {
				if i, ok := d.word(n, path, meshWords); ok {
					dep.Mesh = Mesh(meshWords[i])
				}
			}},
			key{"mode", func(n *yaml.Node, path string) { readWord(d, n, path, modeWords, &dep.Mode) }},
		)
		if p := c.Profiles[dep.Profile]; p != nil && p.External && dep.External == PlacementInternal {
			d.report(places["external"], at+".external", "contradicts profile "+quote(string(p.Name))+", which is always external",
				"remove it, or use another profile")
		}
		d.warnMesh(places["mesh"], at, dep, c.Profiles[dep.Profile])
		c.Dependencies[name] = dep
		c.from.dependencies[name] = d.placesOf(places)
	})
}

// name checks the name of a dependency or a service, which may be any text that can be shown.
func (d *decoder) name(k *yaml.Node, at, name string) bool {
	what := checkText(name, maxNameLen)
	if what != "" {
		d.report(k, at, "the name "+what, fmt.Sprintf("use 1 to %d printable bytes", maxNameLen))
	}
	return what == ""
}

func (d *decoder) services(n *yaml.Node, path string, c *Catalog) {
	known := sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(c.Dependencies)) })
	d.entries(n, path, func(k, v *yaml.Node, name, at string) {
		if !d.name(k, at, name) {
			return
		}
		s := &Service{Name: name}
		d.mapping(v, at,
			key{"serves", func(n *yaml.Node, path string) { s.Serves = d.serves(n, path, c, known) }},
			key{"routes", func(n *yaml.Node, path string) { d.routes(n, path, s, &c.Chain) }},
			key{"idempotent", func(n *yaml.Node, path string) { d.idempotent(n, path, s) }},
			key{"failure_statuses", func(n *yaml.Node, path string) { s.FailureStatuses = d.failureStatuses(n, path) }},
		)
		if len(s.Serves) == 0 {
			s.Serves = []string{name}
		}
		c.Services[name] = s
	})
}

func (d *decoder) serves(n *yaml.Node, path string, c *Catalog, known func() []string) (serves []string) {
	d.items(n, path, func(n *yaml.Node, at string) {
		s, ok := d.text(n, at, maxNameLen)
		switch {
		case !ok:
		case slices.Contains(serves, s):
			d.report(n, at, quote(s)+" is listed twice", "list it once")
		case c.Dependencies[s] == nil && !d.partial:
			d.report(n, at, quote(s)+" is not under dependencies", "declare it there, or correct the name"+d.suggest(s, known()))
		default:
			serves = append(serves, s)
		}
	})
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		d.report(n, path, "is empty", "remove it: a service is the dependency of its own name by default")
	}
	return serves
}

func (d *decoder) routes(n *yaml.Node, path string, s *Service, chain *Chain) {
	d.entries(n, path, func(k, v *yaml.Node, pattern, at string) {
		if s.routes == nil {
			s.routes, s.Routes = &patternSet{}, map[string]Route{}
		}
		d.pattern(k, at, pattern, s.routes)
		places := d.mapping(v, at, key{"budget", func(n *yaml.Node, path string) {
			tokens, ok := d.integer(n, path, rangeTokens)
			if ok && d.inRange(n, path, tokens <= chain.MaxBudget, strconv.Itoa(tokens), fmt.Sprintf("at most chain.max_budget %d", chain.MaxBudget)) {
				s.Routes[pattern] = Route{Budget: tokens}
			}
		}})
		if v.Kind == yaml.MappingNode && places["budget"] == nil {
			d.report(v, at, "has no budget", `write it as {budget: 2}`)
		}
	})
}

func (d *decoder) idempotent(n *yaml.Node, path string, s *Service) {
	d.items(n, path, func(n *yaml.Node, at string) {
		pattern, ok := d.text(n, at, maxPattern)
		if !ok {
			return
		}
		if s.idempotent == nil {
			s.idempotent = &patternSet{}
		}
		if d.pattern(n, at, pattern, s.idempotent) {
			s.Idempotent = append(s.Idempotent, pattern)
			d.warnIdempotent(n, at, pattern)
		}
	})
}

const maxPattern = 400

func (d *decoder) pattern(n *yaml.Node, at, pattern string, set *patternSet) bool {
	what := "is too long"
	if len(pattern) <= maxPattern {
		what = set.add(pattern)
	}
	if what != "" {
		d.report(n, at, what, `write a pattern of net/http.ServeMux, such as "POST /orders/{id}"`)
	}
	return what == ""
}

func (d *decoder) failureStatuses(n *yaml.Node, path string) []int {
	statuses, _ := d.statuses(n, path)
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		d.report(n, path, "is empty", "remove it for the default: every 5xx, and 429")
	}
	slices.Sort(statuses)
	return statuses
}

// statuses reads and checks a list of HTTP statuses. It is not ok, and then not to be used, after any problem.
func (d *decoder) statuses(n *yaml.Node, path string) (statuses []int, ok bool) {
	type place struct {
		n  *yaml.Node
		at string
	}
	before := d.list.total
	statuses = []int{}
	places := map[string]place{"": {n, path}}
	d.items(n, path, func(n *yaml.Node, at string) {
		if v, ok := d.int(n, at); ok {
			places["["+strconv.Itoa(len(statuses))+"]"] = place{n, at}
			statuses = append(statuses, v)
		}
	})
	checkStatuses(statuses, "", func(what, fix string, keys ...string) {
		p := places[keys[0]]
		d.report(p.n, p.at, what, fix)
	})
	return statuses, d.list.total == before
}

func (d *decoder) overrides(n *yaml.Node, path string, c *Catalog) {
	d.mapping(n, path,
		key{"retries", func(n *yaml.Node, path string) {
			c.Overrides.RetriesDisabled = d.disabled(n, path)
			c.from.all = d.placeOf(n)
		}},
		key{"dependencies", func(n *yaml.Node, path string) {
			d.entries(n, path, func(k, v *yaml.Node, name, at string) {
				if !d.name(k, at, name) {
					return
				}
				// The name need not be under dependencies: the switch works for those that only code knows, too. A name with a
				// slip switches nothing, and the incident goes on.
				if c.Dependencies[name] == nil && !d.partial {
					d.warn(k, at, "is not under dependencies: it switches only a dependency that code names so",
						"correct the name, or declare it there"+d.suggest(name, slices.Sorted(maps.Keys(c.Dependencies))))
				}
				places := d.mapping(v, at, key{"retries", func(n *yaml.Node, path string) {
					if d.disabled(n, path) {
						c.Overrides.Dependencies[name] = true
						c.from.overrides[name] = d.placeOf(n)
					}
				}})
				if v.Kind == yaml.MappingNode && places["retries"] == nil {
					d.report(v, at, "says nothing", "write it as {retries: disabled}, or remove it")
				}
			})
		}},
	)
}
