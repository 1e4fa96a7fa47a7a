package profiles

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder walks the trees of the catalog's files and collects every problem instead of stopping at the first. Its read
// functions return ok = false after they have reported why.
type decoder struct {
	list     problemList
	warnings problemList
	builtin  bool // the file is the built-in one
	sources  []sourceFile
	partial  bool // some file could not be read at all: that a name is not known may be its fault
	hosts    map[*hostIndex]map[hostPattern]*yaml.Node
}

// sourceFile is where one file's lines begin. Nodes know their line and not their file; so the lines of all files are
// counted on, and one number says both.
type sourceFile struct {
	name string
	base int // line n of the file is base + n
	end  int // no line of it is beyond
}

// begin makes f the file that is parsed next.
func (d *decoder) begin(f *file) {
	base := 0
	if n := len(d.sources); n > 0 {
		base = d.sources[n-1].end
	}
	d.sources = append(d.sources, sourceFile{name: clip(f.name, maxText), base: base, end: base + len(f.data) + 2})
}

func (d *decoder) base() int { return d.sources[len(d.sources)-1].base }

// place returns where n stands.
func (d *decoder) place(n *yaml.Node) (file string, line, column int) {
	i, _ := slices.BinarySearchFunc(d.sources, n.Line, func(s sourceFile, line int) int { return cmp.Compare(s.end, line) })
	s := d.sources[min(i, len(d.sources)-1)]
	return s.name, n.Line - s.base, n.Column
}

func (d *decoder) report(n *yaml.Node, path, what, fix string) {
	d.list.add(d.problem(n, path, what, fix))
}

func (d *decoder) problem(n *yaml.Node, path, what, fix string) Problem {
	file, line, column := d.place(n)
	return Problem{File: file, Line: line, Column: column, Path: path, What: what, Fix: fix}
}

// already says where first stands, as seen from n: "already, in line 3" or, in another file, its whole place.
func (d *decoder) already(first, n *yaml.Node) string {
	file, line, column := d.place(first)
	if here, _, _ := d.place(n); here == file {
		return fmt.Sprintf("already, in line %d", line)
	}
	return fmt.Sprintf("already, at %s:%d:%d", file, line, column)
}

// A key is one setting of a mapping and the function that reads its value.
type key struct {
	name string
	read func(n *yaml.Node, path string)
}

// mapping reads a mapping whose keys are fixed. It returns the place of each key that is there.
func (d *decoder) mapping(n *yaml.Node, path string, keys ...key) (places map[string]*yaml.Node) {
	places = map[string]*yaml.Node{}
	d.entries(n, path, func(k, v *yaml.Node, name, at string) {
		i := slices.IndexFunc(keys, func(f key) bool { return f.name == name })
		if i < 0 {
			names := make([]string, len(keys))
			for j, f := range keys {
				names[j] = f.name
			}
			slices.Sort(names)
			d.report(k, at, "unknown key", "known are "+listNames(names)+d.suggest(name, names))
			return
		}
		places[name] = v
		keys[i].read(v, at)
	})
	return places
}

// entries walks a mapping whose keys are names that the file chooses, each once.
func (d *decoder) entries(n *yaml.Node, path string, each func(k, v *yaml.Node, name, at string)) {
	if n.Kind != yaml.MappingNode {
		d.report(n, path, "expected keys with values, not "+kindOf(n), `write them as "key: value"`)
		return
	}
	if len(n.Content)/2 > maxEntries {
		d.report(n, path, fmt.Sprintf("%d keys", len(n.Content)/2), fmt.Sprintf("use at most %d", maxEntries))
		return
	}
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		at := join(path, k.Value)
		switch {
		case k.Kind != yaml.ScalarNode:
			d.report(k, path, "a key is "+kindOf(k), "use plain text as the key")
		case k.ShortTag() == "!!merge":
			d.report(k, path, "merge keys are not supported", "use extends")
		case k.Value == "":
			d.report(k, path, "a key is empty", "give it a name or remove it")
		case seen[k.Value] != nil:
			d.report(k, at, "is there "+d.already(seen[k.Value], k), "keep one of them")
		default:
			seen[k.Value] = k
			each(k, v, k.Value, at)
		}
	}
}

// items walks a list.
func (d *decoder) items(n *yaml.Node, path string, each func(n *yaml.Node, at string)) bool {
	if n.Kind != yaml.SequenceNode {
		d.report(n, path, "expected a list, not "+kindOf(n), "write it as [a, b]")
		return false
	}
	if len(n.Content) > maxEntries {
		d.report(n, path, fmt.Sprintf("%d items", len(n.Content)), fmt.Sprintf("list at most %d", maxEntries))
		return false
	}
	for i, item := range n.Content {
		each(item, path+"["+strconv.Itoa(i)+"]")
	}
	return true
}

// text reads a string, 1 to limit bytes on one line.
func (d *decoder) text(n *yaml.Node, path string, limit int) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		d.report(n, path, "expected text, not "+kindOf(n), "put it in quotes")
		return "", false
	}
	if !quoted(n) && isSwitch(n.Value) {
		d.report(n, path, "a bare "+n.Value+" is a boolean to other readers of YAML", "put it in quotes")
		return "", false
	}
	if what := checkText(n.Value, limit); what != "" {
		d.report(n, path, quote(n.Value)+" "+what, fmt.Sprintf("use 1 to %d printable bytes", limit))
		return "", false
	}
	return n.Value, true
}

func (d *decoder) int(n *yaml.Node, path string) (int, bool) {
	const fix = "write a whole number such as 3"
	if n.Kind != yaml.ScalarNode {
		d.report(n, path, "expected a number, not "+kindOf(n), fix)
		return 0, false
	}
	v, err := strconv.Atoi(n.Value)
	switch {
	case quoted(n):
		d.report(n, path, "expected a number, not text", "remove the quotes")
	case err != nil && isDecimal(n.Value):
		d.report(n, path, quote(n.Value)+" is out of range", "use a smaller number")
	case err != nil || strconv.Itoa(v) != n.Value:
		d.report(n, path, quote(n.Value)+" is not a plain whole number", fix)
	default:
		return v, true
	}
	return 0, false
}

// integer reads a whole number of a range.
func (d *decoder) integer(n *yaml.Node, path string, r span[int]) (int, bool) {
	v, ok := d.int(n, path)
	if ok && !r.holds(v) {
		d.report(n, path, strconv.Itoa(v)+" is out of range", "use "+r.String())
		return 0, false
	}
	return v, ok
}

func (d *decoder) duration(n *yaml.Node, path string) (time.Duration, bool) {
	const fix = "write a duration with its unit, such as 400ms, 5s or 1m30s"
	if n.Kind != yaml.ScalarNode {
		d.report(n, path, "expected a duration, not "+kindOf(n), fix)
		return 0, false
	}
	if tag := n.ShortTag(); !quoted(n) && (tag == "!!int" || tag == "!!float") {
		d.report(n, path, quote(n.Value)+" has no unit", fix)
		return 0, false
	}
	v, err := time.ParseDuration(n.Value)
	if err != nil || n.Value == "0" {
		d.report(n, path, quote(n.Value)+" is not a duration", fix)
		return 0, false
	}
	return v, true
}

// ratio reads "10%" or 0.1. It does not check ranges.
func (d *decoder) ratio(n *yaml.Node, path string) (float64, bool) {
	const fix = "write it as 10% or as 0.1"
	if n.Kind != yaml.ScalarNode {
		d.report(n, path, "expected a ratio, not "+kindOf(n), fix)
		return 0, false
	}
	digits, percent := strings.CutSuffix(n.Value, "%")
	if quoted(n) && !percent {
		d.report(n, path, "expected a ratio, not text", "remove the quotes")
		return 0, false
	}
	if !isDecimal(digits) || len(digits) > 32 {
		d.report(n, path, quote(n.Value)+" is not a ratio", fix)
		return 0, false
	}
	if percent {
		digits += "e-2" // one rounding: 33.3% and 0.333 are the same number
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		d.report(n, path, quote(n.Value)+" is not a ratio", fix)
		return 0, false
	}
	if v > 1 && !percent {
		d.report(n, path, quote(n.Value)+" is above 1", "write a percentage as "+clip(digits, 32)+"%, or a share of 1 such as 0.1")
		return 0, false
	}
	if v == 0 {
		v = 0 // not the negative one
	}
	return v, true
}

// number reads a plain decimal number such as 2 or 1.5. It does not check ranges.
func (d *decoder) number(n *yaml.Node, path string) (float64, bool) {
	const fix = "write a plain number such as 2 or 1.5"
	switch {
	case n.Kind != yaml.ScalarNode:
		d.report(n, path, "expected a number, not "+kindOf(n), fix)
		return 0, false
	case quoted(n):
		d.report(n, path, "expected a number, not text", "remove the quotes")
		return 0, false
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || !isDecimal(n.Value) || len(n.Value) > 32 {
		d.report(n, path, quote(n.Value)+" is not a plain number", fix)
		return 0, false
	}
	return v, true
}

// word reads one of a fixed set of words and returns its index.
func (d *decoder) word(n *yaml.Node, path string, words []string) (uint8, bool) {
	known := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	fix := "write one of " + listNames(known)
	if len(known) == 1 {
		fix = "write " + known[0] + ", or remove the key"
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		d.report(n, path, "expected a word, not "+kindOf(n), fix)
	case isSwitch(n.Value):
		d.report(n, path, "a bare "+clip(n.Value, maxQuote)+" does not say what is meant", fix)
	default:
		if i := slices.Index(words, n.Value); i >= 0 && n.Value != "" {
			return uint8(i), true
		}
		d.report(n, path, quote(n.Value)+" is not known here", fix+d.suggest(n.Value, known))
	}
	return 0, false
}

// flag reads true or false, and no other spelling.
func (d *decoder) flag(n *yaml.Node, path string) (bool, bool) {
	if n.Kind == yaml.ScalarNode && !quoted(n) {
		switch n.Value {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	}
	d.report(n, path, "expected true or false, not "+kindOf(n), "write true or false")
	return false, false
}

// disabled reads the one word that switches something off.
func (d *decoder) disabled(n *yaml.Node, path string) bool {
	_, ok := d.word(n, path, []string{"disabled"})
	return ok
}

// checkTree refuses what a catalog has no use for, and what makes files that are small on disk and large in memory.
func (d *decoder) checkTree(n *yaml.Node, depth int) bool {
	const maxDepth = 16
	ok := true
	n.Line += d.base() // each node comes by here once
	switch {
	case n.Kind == yaml.AliasNode, n.Anchor != "":
		d.report(n, "", "anchors and aliases are not supported", "write the value out, or use extends")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		d.report(n, "", "the tag "+quote(n.Tag)+" is not supported", "remove it")
		ok = false
	case depth > maxDepth:
		d.report(n, "", fmt.Sprintf("is nested more than %d deep", maxDepth), "no setting is that deep")
		return false
	}
	for _, child := range n.Content {
		ok = d.checkTree(child, depth+1) && ok
	}
	return ok
}

func quoted(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	return quote(n.Value)
}

// join adds a key to a path; a key that is not a plain word goes in brackets and quotes.
func join(path, name string) string {
	plain := name != "" && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
	switch {
	case !plain:
		return path + "[" + quote(name) + "]"
	case path == "":
		return clip(name, maxText)
	}
	return path + "." + clip(name, maxText)
}

// isSwitch reports whether s is a word that YAML 1.1 reads as a boolean.
func isSwitch(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false":
		return true
	}
	return false
}

// isDecimal reports whether s is digits with at most one point inside and a sign at most in front.
func isDecimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole, frac, point := strings.Cut(s, ".")
	return isDigits(whole) && (!point || isDigits(frac))
}

func isDigits(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

func checkText(s string, limit int) (what string) {
	switch {
	case s == "":
		return "is empty"
	case len(s) > limit:
		return "is too long"
	case strings.TrimSpace(s) != s:
		return "begins or ends with white space"
	case strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0:
		return "has characters that cannot be printed"
	}
	return ""
}

// suggest returns `; did you mean "x"?` for a near miss. It compares with few and short names only, and not for problems
// that nobody will see: its cost stays far below that of reading the file.
func (d *decoder) suggest(name string, known []string) string {
	if len(name) > 64 || len(known) > 500 || d.list.full() {
		return ""
	}
	best, least := "", 3
	for _, k := range known {
		if len(k) > 64 {
			continue
		}
		if dist := distance(name, k); dist < least && dist < len(k) {
			best, least = k, dist
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + strconv.Quote(best) + "?"
}

// distance is the edit distance of two short strings.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
