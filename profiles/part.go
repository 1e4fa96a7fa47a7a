package profiles

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// parts are the values of the top-level keys of all files, in the order of the files.
type parts struct {
	files                              int
	chain, profiles, dependencies      []*yaml.Node
	services, internalHosts, overrides []*yaml.Node
}

// part takes one file apart. Every file is a catalog with the same keys, and states the version that its keys are of:
// it can be read, moved and reviewed by itself. What a subfolder's file may hold is bounded by its name, so that a rule
// about who reviews which path says who reviews what.
func (d *decoder) part(root *yaml.Node, f *file, p *parts) {
	p.files++
	var own *yaml.Node // of f.group
	take := func(name string, to *[]*yaml.Node) key {
		return key{name, func(n *yaml.Node, path string) {
			if f.group != "" && name != f.group {
				d.report(n, path, "does not belong into a file of "+f.group+"/", "move it to "+home(name))
				return
			}
			own = n
			*to = append(*to, n)
		}}
	}
	places := d.mapping(root, "",
		key{"version", d.version},
		take("chain", &p.chain),
		take("profiles", &p.profiles),
		take("dependencies", &p.dependencies),
		take("services", &p.services),
		take("internal_hosts", &p.internalHosts),
		take("overrides", &p.overrides),
	)
	if root.Kind != yaml.MappingNode {
		return
	}
	if places["version"] == nil {
		d.report(root, "version", "is missing", `begin the file with "version: 1"`)
	}
	if f.entry != "" {
		d.onlyEntry(root, own, f)
	}
}

// home says where a key may be.
func home(name string) string {
	const top = "a file at the top of the folder"
	for _, sub := range subfolders {
		switch {
		case name == sub.group && sub.named:
			return name + "/<name>.yaml, or to " + top
		case name == sub.group:
			return name + "/, or to " + top
		}
	}
	return top
}

// onlyEntry checks that the file has the one entry that it is named after.
func (d *decoder) onlyEntry(root, group *yaml.Node, f *file) {
	fix := "write " + f.group + ": {" + quoteName(f.entry) + ": {...}}, or rename the file"
	if group == nil {
		d.report(root, f.group, "is missing: the file is named after "+quote(f.entry), fix)
		return
	}
	if group.Kind != yaml.MappingNode {
		return // is told when it is read
	}
	if len(group.Content) == 0 {
		d.report(group, f.group, "is empty: the file is named after "+quote(f.entry), fix)
	}
	for i := 0; i+1 < len(group.Content); i += 2 {
		if k := group.Content[i]; k.Kind == yaml.ScalarNode && k.Value != "" && k.Value != f.entry {
			d.report(k, join(f.group, k.Value), "is in a file that is named after "+quote(f.entry),
				"correct one of the two names, or move it to a file of its own")
		}
	}
}

// quoteName writes a name as a key of YAML.
func quoteName(name string) string {
	if join("", name) == name && !isSwitch(name) && strings.Trim(name, "0123456789.-_") != "" {
		return name
	}
	return quote(name)
}

// merge makes one mapping of those that several files have under the same key. A name that two of them have is found
// when it is read.
func (d *decoder) merge(nodes []*yaml.Node, path string) *yaml.Node {
	if len(nodes) == 0 {
		return nil
	}
	if len(nodes) == 1 {
		return nodes[0]
	}
	whole := &yaml.Node{Kind: yaml.MappingNode, Line: nodes[0].Line, Column: nodes[0].Column}
	for _, n := range nodes {
		if n.Kind != yaml.MappingNode {
			d.entries(n, path, nil) // which says so
			continue
		}
		whole.Content = append(whole.Content, n.Content...)
	}
	return whole
}

// mergeOverrides merges one level deeper: each file may switch dependencies of its own.
func (d *decoder) mergeOverrides(nodes []*yaml.Node) *yaml.Node {
	if len(nodes) < 2 {
		return d.merge(nodes, "overrides")
	}
	var rest, lists []*yaml.Node
	var name *yaml.Node
	for _, n := range nodes {
		if n.Kind != yaml.MappingNode {
			rest = append(rest, n)
			continue
		}
		others := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
		taken := false
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			if !taken && k.Kind == yaml.ScalarNode && k.Value == "dependencies" { // the second of one file stays, and is an error
				taken, lists = true, append(lists, v)
				if name == nil {
					name = k
				}
				continue
			}
			others.Content = append(others.Content, k, v)
		}
		rest = append(rest, others)
	}
	whole := d.merge(rest, "overrides")
	if name != nil {
		// In front, so that a second one of the same file is the one to be reported.
		whole.Content = append([]*yaml.Node{name, d.merge(lists, "overrides.dependencies")}, whole.Content...)
	}
	return whole
}
