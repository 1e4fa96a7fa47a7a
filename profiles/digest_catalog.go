package profiles

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// canonical writes what holds, one line for each thing: settings of the chain that differ from the schema's default,
// then everything that has a name, sorted, with what it sets. Profiles stand there by their digests, hosts as they are
// looked up, modes and places as they come out.
func (c *Catalog) canonical() string {
	var b strings.Builder
	b.WriteString("chainbudget catalog v" + strconv.Itoa(SchemaVersion) + "\n")
	own, base := c.Chain.settings(), DefaultChain().settings()
	for i, s := range own {
		if s != base[i] {
			b.WriteString("chain." + s + "\n")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		if p := c.Profiles[name]; p != nil {
			b.WriteString("profile " + strconv.Quote(string(name)) + " " + p.Digest() + "\n")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Dependencies)) {
		if d := c.Dependencies[name]; d != nil {
			b.WriteString("dependency " + strconv.Quote(name) + d.settings(c) + "\n")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		if s := c.Services[name]; s != nil {
			b.WriteString("service " + strconv.Quote(name) + s.settings() + "\n")
		}
	}
	if c.InternalHosts != nil {
		b.WriteString("internal_hosts" + quotedList(canonicalHosts(c.InternalHosts)) + "\n")
	}
	if c.Overrides.RetriesDisabled {
		b.WriteString("override retries=disabled\n") // and those by dependency add nothing
		return b.String()
	}
	for _, name := range slices.Sorted(maps.Keys(c.Overrides.Dependencies)) {
		if c.Overrides.Dependencies[name] {
			b.WriteString("override " + strconv.Quote(name) + " retries=disabled\n")
		}
	}
	return b.String()
}

func (c Chain) settings() []string {
	if c.Mode == ModeInherit {
		c.Mode = ModeEnforce // a Catalog made in code may leave it unset
	}
	return []string{
		"budget=" + strconv.Itoa(c.Budget),
		"deadlines=" + c.Deadlines.String(),
		"grace=" + nanos(c.Grace),
		"holdout=" + strconv.FormatFloat(c.Holdout, 'g', -1, 64),
		"learn=" + c.Learn.String(),
		"max_budget=" + strconv.Itoa(c.MaxBudget),
		"mode=" + c.Mode.String(),
		"orphan_budget=" + strconv.Itoa(c.OrphanBudget),
		"process_budget=" + strconv.Itoa(c.ProcessBudget),
		"unknown=" + c.Unknown.String(),
	}
}

func (d *Dependency) settings(c *Catalog) string {
	var b strings.Builder
	external := d.External
	if p := c.Profiles[d.Profile]; p != nil && p.External {
		external = PlacementExternal
	}
	if external != PlacementByHost {
		b.WriteString(" external=" + strconv.Quote(external.String()))
	}
	if len(d.Hosts) > 0 {
		b.WriteString(" hosts" + quotedList(canonicalHosts(d.Hosts)))
	}
	if d.Mesh != MeshNone {
		b.WriteString(" mesh=" + strconv.Quote(string(d.Mesh)))
	}
	if d.Mode != ModeInherit && d.Mode != c.Chain.Mode {
		b.WriteString(" mode=" + d.Mode.String())
	}
	if d.OnFailure != OnFailureUndeclared {
		b.WriteString(" on_failure=" + d.OnFailure.String())
	}
	if d.Owner != "" {
		b.WriteString(" owner=" + strconv.Quote(d.Owner))
	}
	if d.Profile != "" {
		b.WriteString(" profile=" + strconv.Quote(string(d.Profile)))
	}
	return b.String()
}

func (s *Service) settings() string {
	var b strings.Builder
	if len(s.FailureStatuses) > 0 {
		b.WriteString(" failure_statuses=")
		for i, status := range slices.Sorted(slices.Values(s.FailureStatuses)) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Itoa(status))
		}
	}
	if len(s.Idempotent) > 0 {
		b.WriteString(" idempotent" + quotedList(s.Idempotent))
	}
	for _, pattern := range slices.Sorted(maps.Keys(s.Routes)) {
		b.WriteString(" route " + strconv.Quote(pattern) + " budget=" + strconv.Itoa(s.Routes[pattern].Budget))
	}
	if len(s.Serves) > 0 && !slices.Equal(s.Serves, []string{s.Name}) {
		b.WriteString(" serves" + quotedList(s.Serves))
	}
	return b.String()
}

// quotedList writes the texts sorted, as =["a","b"].
func quotedList(list []string) string {
	var b strings.Builder
	b.WriteString("=[")
	for i, s := range slices.Sorted(slices.Values(list)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(s))
	}
	b.WriteByte(']')
	return b.String()
}

// canonicalHosts spells hosts and networks as they are compared.
func canonicalHosts(hosts []string) []string {
	list := make([]string, len(hosts))
	for i, s := range hosts {
		list[i] = s
		if prefix, err := netip.ParsePrefix(s); err == nil {
			list[i] = prefix.String()
		} else if p, what := parseHostPattern(s); what == "" {
			list[i] = p.key()
			if p.suffix {
				list[i] = "*" + list[i]
			}
		}
	}
	return list
}
