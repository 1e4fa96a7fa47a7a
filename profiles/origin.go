package profiles

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// place is where in a file a value stands. The zero place is nowhere.
type place struct {
	file         string
	line, column int
}

func (p place) String() string {
	return p.file + ":" + strconv.Itoa(p.line) + ":" + strconv.Itoa(p.column)
}

// origins remembers where the files of a catalog set what. A catalog made in code has none. It keeps places and not
// nodes, which would hold on to the whole tree.
type origins struct {
	profiles     map[Name]*profileOrigin
	chain        map[string]place
	dependencies map[string]map[string]place // name → key
	overrides    map[string]place            // by dependency
	all          place                       // of overrides.retries
}

// profileOrigin is what one profile sets itself. What it inherits is found by following extends, so that a profile of
// three keys costs three places and not forty.
type profileOrigin struct {
	builtin bool
	extends Name
	set     map[string]place // by setting, such as "retry.max_attempts"; "budget off" where a group is disabled
	fresh   map[string]bool  // settings, and groups turned on here, that have the schema's default whatever the parent has
}

func newOrigins() origins {
	return origins{
		profiles: map[Name]*profileOrigin{}, chain: map[string]place{},
		dependencies: map[string]map[string]place{}, overrides: map[string]place{},
	}
}

func (d *decoder) placeOf(n *yaml.Node) place {
	file, line, column := d.place(n)
	return place{file, line, column}
}

func (d *decoder) placesOf(nodes map[string]*yaml.Node) map[string]place {
	places := make(map[string]place, len(nodes))
	for key, n := range nodes {
		places[key] = d.placeOf(n)
	}
	return places
}

// origin is what a finished draft leaves behind.
func (d *decoder) origin(p *draft, builtin bool) *profileOrigin {
	return &profileOrigin{builtin: builtin, extends: p.extends, set: d.placesOf(p.places), fresh: p.fresh}
}

// freshGroups says which settings of p do not come from its parent although p does not set them: a group that p turns on,
// or a budget of another kind, starts from the schema's defaults.
func freshGroups(p *draft, parent, result *Profile) map[string]bool {
	fresh := map[string]bool{}
	add := func(key string, is bool) {
		if is {
			fresh[key] = true
		}
	}
	add("budget", p.places["budget on"] != nil && (!parent.Budget.Enabled() || parent.Budget.Kind != result.Budget.Kind))
	add("breaker", p.places["breaker on"] != nil && !parent.Breaker.Enabled())
	add("hedge", p.places["hedge on"] != nil && !parent.Hedge.Enabled())
	add("adaptive_throttle", p.places["adaptive_throttle on"] != nil && !parent.Throttle.Enabled())
	add("breaker.slow_ratio", result.Breaker.SlowRatio != 0 && parent.Breaker.SlowRatio == 0)
	return fresh
}

// What stands in the place of a file.
const (
	fromSchema = "default of the schema"
	fromCode   = "set in code"
)

// profileKey says where the value of one setting of a profile comes from. key is a setting such as "retry.max_attempts", or
// a group that is disabled as a whole.
func (o *origins) profileKey(name Name, key string) string {
	group, _, _ := strings.Cut(key, ".")
	if o.profiles[name] == nil {
		return fromCode
	}
	// A loaded profile's parents are no circle; the count is for one that somebody changed in spite of all.
	for at, left := name, len(o.profiles); left > 0; left-- {
		p := o.profiles[at]
		if p == nil {
			break
		}
		if where, ok := p.set[key]; ok {
			return p.say(at, where, at != name)
		}
		if where, ok := p.set[group+" off"]; ok {
			return p.say(at, where, at != name)
		}
		if p.fresh[key] || p.fresh[group] {
			break
		}
		at = p.extends
	}
	return fromSchema
}

func (p *profileOrigin) say(name Name, where place, inherited bool) string {
	switch {
	case p.builtin:
		return "built-in " + string(name) + " (" + where.file + ":" + strconv.Itoa(where.line) + ")"
	case inherited:
		return where.String() + " (profile " + string(name) + ")"
	}
	return where.String()
}

func (o *origins) chainKey(key string) string { return placeOr(o.chain, key) }

func (o *origins) dependencyKey(dependency, key string) string {
	return placeOr(o.dependencies[dependency], key)
}

func placeOr(places map[string]place, key string) string {
	if where, ok := places[key]; ok {
		return where.String()
	}
	return fromSchema
}

// override says what disables the retries of a dependency, "" = nothing that a file says.
func (o *origins) override(dependency string) string {
	if o.all != (place{}) {
		return o.all.String()
	}
	if where, ok := o.overrides[dependency]; ok {
		return where.String()
	}
	return ""
}
