package profiles

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// reason is why a built-in profile has a value: the remark beside it in builtin.yaml.
type reason struct{ key, why string }

// builtinReasons returns the remark of each built-in profile, and of each key that it sets, in the file's order.
func builtinReasons(t *testing.T) (order []Name, about map[Name]string, reasons map[Name][]reason) {
	t.Helper()
	var doc yaml.Node
	require.NoError(t, yaml.Unmarshal(builtinFile, &doc))
	about, reasons = map[Name]string{}, map[Name][]reason{}
	remark := func(k, v *yaml.Node) string {
		var words []string
		for _, c := range []string{k.HeadComment, k.LineComment, v.LineComment} {
			for line := range strings.Lines(c) {
				words = append(words, strings.Fields(strings.TrimLeft(line, "# "))...)
			}
		}
		return strings.Join(words, " ")
	}
	pairs := func(n *yaml.Node, each func(k, v *yaml.Node)) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			each(n.Content[i], n.Content[i+1])
		}
	}
	pairs(doc.Content[0], func(k, v *yaml.Node) {
		if k.Value != "profiles" {
			return
		}
		pairs(v, func(k, v *yaml.Node) {
			name := Name(k.Value)
			order, about[name] = append(order, name), remark(k, v)
			add := func(key string, k, v *yaml.Node) {
				reasons[name] = append(reasons[name], reason{key, remark(k, v)})
			}
			pairs(v, func(k, v *yaml.Node) {
				if v.Kind != yaml.MappingNode {
					if k.Value != "extends" {
						add(k.Value, k, v)
					}
					return
				}
				// A remark above a group is about its first key.
				first := remark(k, v)
				pairs(v, func(sub, v *yaml.Node) {
					add(k.Value+"."+sub.Value, sub, v)
					if list := reasons[name]; first != "" {
						list[len(list)-1].why = strings.TrimSpace(first + " " + list[len(list)-1].why)
						first = ""
					}
				})
			})
		})
	})
	return order, about, reasons
}

// cell keeps a value inside its cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "*", "\\*").Replace(s)
}

func profilesDocument(t *testing.T) string {
	t.Helper()
	order, about, reasons := builtinReasons(t)
	c := Builtin()
	var b strings.Builder
	b.WriteString(`# Built-in profiles

What each built-in profile comes to, and why. This page is written by ` + "`make schema`" + ` from ` + "`profiles/builtin.yaml`" + ` and the code, and
compared with them by a test: do not edit it. ` + "`chainbudget catalog explain DEPENDENCY --profile NAME`" + ` prints the same for one of them,
with the line of each value.

A catalog may extend them under other names, and cannot redefine them. What the request is allowed to repeat is decided by its method, its
key, or proof that it never left, and never by the name of its profile.

| profile | for | digest |
|---|---|---|
`)
	for _, name := range order {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | `%s` |\n", name, name, cell(about[name]), c.Profiles[name].Digest())
	}
	b.WriteString("\n## All values\n\nSettings that mean nothing beside others are left out of a profile's column.\n\n| setting |")
	for _, name := range order {
		b.WriteString(" " + string(name) + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(order)) + "\n")
	values := map[Name]map[string]string{}
	for _, name := range order {
		values[name] = settingsMap(c.Profiles[name])
	}
	row := func(key string) {
		cells, some := "", false
		for _, name := range order {
			v := values[name][key]
			some = some || v != ""
			cells += " " + cell(v) + " |"
		}
		if some {
			b.WriteString("| `" + key + "` |" + strings.ReplaceAll(cells, "  |", " |") + "\n")
		}
	}
	last := ""
	for _, k := range profileKeys() {
		if group := k.group(); group != last {
			last = group
			row(group) // where some have it disabled
		}
		row(k.name)
	}
	for _, name := range order {
		p := c.Profiles[name]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", name, about[name])
		if p.Extends != "" {
			fmt.Fprintf(&b, "The rest is as in [%s](#%s).\n\n", p.Extends, p.Extends)
		} else {
			b.WriteString("The rest is the schema's default.\n\n")
		}
		b.WriteString("| setting | value | why |\n|---|---|---|\n")
		for _, r := range reasons[name] {
			why := r.why
			if why == "" {
				why = "as above"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.key, cell(values[name][r.key]), cell(why))
		}
	}
	return b.String()
}

func TestDocument_of_the_builtin_profiles_is_recorded(t *testing.T) {
	recorded(t, "../docs/profiles.md", profilesDocument(t))
}

// Every number of a built-in profile has its reason. Of a group of values one remark may be about all.
func TestBuiltin_every_value_has_a_reason(t *testing.T) {
	order, about, reasons := builtinReasons(t)
	require.Len(t, order, len(Builtin().Profiles))
	for _, name := range order {
		require.NotEmpty(t, about[name], name)
		require.NotEmpty(t, reasons[name], name)
		var known []string
		for _, k := range profileKeys() {
			known = append(known, k.name, k.group())
		}
		group := "" // of the last key with a reason
		for _, r := range reasons[name] {
			require.True(t, slices.Contains(known, r.key), "%s: %s", name, r.key)
			own, _, _ := strings.Cut(r.key, ".")
			if r.why != "" {
				group = own
			}
			require.Equal(t, group, own, "%s: %s has no reason, nor has one of its group above it", name, r.key)
		}
	}
}
