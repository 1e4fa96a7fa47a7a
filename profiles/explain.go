package profiles

import (
	"strings"
	"unicode/utf8"
)

// An Explanation says what holds for one dependency, and where each value comes from.
type Explanation struct {
	Dependency string
	// Lines are in a fixed order: the dependency's own keys, the settings of its profile, the chain's. A group that is
	// off is one line, such as breaker = disabled. Settings that mean nothing beside others are left out.
	Lines []Line
}

// A Line is one value of an [Explanation].
type Line struct {
	Key   string // as in the catalog, such as retry.max_attempts; those of the chain begin with "chain."
	Value string // as the catalog would write it
	From  string // such as "retry-catalog.yaml:7:10", "built-in read-heavy (builtin.yaml:12)" or "default of the schema"
}

// Explain says what holds for the dependency when code names the profile inCode, as [Catalog.Resolve] does, and where
// each value comes from: the place in the file, through extends with the profile that says it; the built-in profile; or
// the schema's default. Names that do not exist are explained as well: what is used in their place is in the line
// "profile". Modes and switches that the environment sets are not known here.
func (c *Catalog) Explain(dependency string, inCode Name) Explanation {
	c = c.orBuiltin()
	effective, err := c.Resolve(dependency, inCode)
	e := Explanation{Dependency: dependency}
	add := func(key, value, from string) { e.Lines = append(e.Lines, Line{Key: key, Value: value, From: from}) }

	p := effective.Profile
	add("catalog", quoteFile(c.Source), "digest "+c.Digest())
	add("profile", string(p.Name), c.profileFrom(&effective, err))
	add("digest", p.Digest(), "computed from the profile's settings")
	own := func(key string) string { return c.from.dependencyKey(dependency, key) }
	declared := c.Dependencies[dependency]
	if declared == nil {
		declared = &Dependency{}
	}
	add("owner", orNone(effective.Owner), own("owner"))
	add("on_failure", effective.OnFailure.String(), own("on_failure"))
	add("hosts", orNone(strings.Join(declared.Hosts, ", ")), own("hosts"))
	add("external", effective.External.String(), c.externalFrom(declared, p, own("external")))
	add("mesh", orNone(string(effective.Mesh)), own("mesh"))
	if declared.Mode != ModeInherit {
		add("mode", effective.Mode.String(), own("mode"))
	} else {
		add("mode", effective.Mode.String(), c.from.chainKey("mode"))
	}
	if effective.RetriesDisabled {
		from := c.from.override(dependency)
		if from == "" {
			from = fromCode
		}
		add("retries", "disabled", from)
	} else {
		add("retries", "enabled", fromSchema)
	}

	from := c.profileOrigins(p)
	settingsOf(p, func(key, value string) {
		if key != "external" { // stands above, as it holds for this dependency
			add(key, value, from.profileKey(p.Name, key))
		}
	})
	for _, k := range chainKeys() {
		add("chain."+k.name, k.value(&c.Chain), c.from.chainKey(k.name))
	}
	return e
}

// profileFrom says who chose the profile.
func (c *Catalog) profileFrom(e *Effective, err error) string {
	switch {
	case e.Differs:
		return c.from.dependencyKey(e.Dependency, "profile") + "; code names " + clip(string(e.InCode), maxQuote)
	case e.Pinned:
		return c.from.dependencyKey(e.Dependency, "profile")
	case err != nil && e.InCode == "":
		return "neither the catalog nor code names one"
	case err != nil:
		return "code names " + quote(string(e.InCode)) + ", which does not exist"
	}
	return "named in code"
}

// externalFrom says who decides whether a dependency is external.
func (c *Catalog) externalFrom(declared *Dependency, p *Profile, own string) string {
	switch {
	case p.External && declared.External != PlacementExternal:
		return c.profileOrigins(p).profileKey(p.Name, "external")
	case declared.External == PlacementByHost && c.InternalHosts != nil:
		return "internal_hosts"
	}
	return own
}

// profileOrigins returns where the values of p are remembered. Where a catalog lacks a profile, the built-in one stands in.
func (c *Catalog) profileOrigins(p *Profile) *origins {
	if c.Profiles[p.Name] != p {
		return &Builtin().from
	}
	return &c.from
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// nothing says what a value of 0 stands for, where it is not the number: "no limit" and "none at all" look alike.
func nothing(l Line) string {
	if l.Value != "0" && l.Value != "0s" && l.Value != "0%" {
		return ""
	}
	says := ""
	for _, k := range profileKeys() {
		if k.name == l.Key {
			says = k.shape.text + "; " + k.about
		}
	}
	for _, k := range chainKeys() {
		if "chain."+k.name == l.Key {
			says = k.about
		}
	}
	_, means, found := strings.Cut(says, "; "+l.Value+" = ")
	if !found {
		return ""
	}
	means, _, _ = strings.Cut(means, "; ")
	return "; " + l.Value + " = " + strings.TrimSuffix(means, ".")
}

// String returns a heading and one line for each value: the key, the value and, after a #, where it comes from and what a
// zero stands for, in columns. That of a zero Explanation says that there is nothing to explain.
func (e Explanation) String() string {
	if len(e.Lines) == 0 {
		return "no dependency: every call is made once, and nothing is counted\n"
	}
	var keys, values int
	for _, l := range e.Lines {
		keys, values = max(keys, utf8.RuneCountInString(l.Key)), max(values, min(utf8.RuneCountInString(l.Value), maxColumn))
	}
	var b strings.Builder
	b.WriteString("dependency " + clip(e.Dependency, maxText) + "\n")
	for _, l := range e.Lines {
		b.WriteString("  " + pad(l.Key, keys) + "  ")
		if l.From == "" {
			b.WriteString(l.Value + "\n")
			continue
		}
		b.WriteString(pad(l.Value, values) + "  # " + l.From + nothing(l) + "\n")
	}
	return b.String()
}

// maxColumn is the widest column of values; a list of hosts may be wider and stands out of it.
const maxColumn = 40

func pad(s string, width int) string {
	if n := width - utf8.RuneCountInString(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}
