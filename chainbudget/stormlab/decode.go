package stormlab

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// read reads a mapping into the struct that into points to.
func (r *reader) read(n *yaml.Node, path string, into any) {
	r.value(n, path, reflect.ValueOf(into).Elem())
}

// value reads n into v, by v's type.
func (r *reader) value(n *yaml.Node, path string, v reflect.Value) {
	r.places[path] = n
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.refuse(n, path, "anchors and aliases are not supported", "write the value out")
		return
	case n.Style&yaml.TaggedStyle != 0:
		r.refuse(n, path, fmt.Sprintf("the tag %.48q is not supported", n.Tag), "remove it")
		return
	}
	switch to := v.Addr().Interface().(type) {
	case *time.Duration:
		*to = r.duration(n, path)
		return
	case *Latency:
		if n.Kind == yaml.ScalarNode {
			d := r.duration(n, path)
			*to = Latency{Min: d, Max: d}
			return
		}
	case *Call:
		if n.Kind == yaml.ScalarNode {
			to.To = r.text(n, path)
			r.places[path+".to"] = n
			return
		}
	case **float64:
		bound := r.bound(n, path)
		*to = &bound
		return
	case **profiles.Catalog:
		*to = r.catalog(n, path)
		return
	case *PolicyKind:
		if *to = PolicyKind(r.text(n, path)); *to == "sdk" {
			*to = PolicySDK
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.mapping(n, path, v)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.refuse(n, path, "expected a list, not "+kindOf(n), "write it as [a, b]")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			r.value(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		r.entries(n, path, func(k, value *yaml.Node, at string) {
			item := reflect.New(v.Type().Elem()).Elem()
			r.value(value, at, item)
			v.SetMapIndex(reflect.ValueOf(k.Value), item)
		})
	case reflect.String:
		v.SetString(r.text(n, path))
	case reflect.Bool:
		v.SetBool(r.flag(n, path))
	case reflect.Int:
		v.SetInt(r.integer(n, path))
	case reflect.Uint64:
		v.SetUint(uint64(r.integer(n, path)))
	case reflect.Float64:
		v.SetFloat(r.number(n, path))
	default:
		panic("stormlab: a scenario has a " + v.Type().String()) // a mistake of this package
	}
}

// mapping reads keys into the fields of a struct.
func (r *reader) mapping(n *yaml.Node, path string, v reflect.Value) {
	fields := make(map[string]reflect.Value)
	var known []string
	var collect func(v reflect.Value)
	collect = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Tag.Get("lab") == "inline" {
				collect(v.Field(i))
				continue
			}
			key := snake(f.Name)
			fields[key] = v.Field(i)
			known = append(known, key)
		}
	}
	collect(v)
	r.entries(n, path, func(k, value *yaml.Node, at string) {
		field, ok := fields[k.Value]
		if !ok {
			r.strange[path] = true
			r.report(k, at, "is not a known key", "known are "+strings.Join(known, ", "))
			return
		}
		r.value(value, at, field)
	})
}

// entries walks a mapping, each key once.
func (r *reader) entries(n *yaml.Node, path string, each func(k, value *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode {
		r.refuse(n, path, "expected keys with values, not "+kindOf(n), `write them as "key: value"`)
		return
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(path+"."+k.Value, ".")
		switch {
		case k.Kind != yaml.ScalarNode || k.Value == "" || k.ShortTag() == "!!merge":
			r.report(k, path, "a key is not plain text", "write a plain name before the colon")
		case seen[k.Value]:
			r.report(k, at, "is there already", "keep one of them")
		default:
			seen[k.Value] = true
			each(k, value, at)
		}
	}
}

// snake turns MaxInFlight into max_in_flight, and P50 into p50.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

func (r *reader) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || n.Value == "" {
		r.refuse(n, path, "expected text, not "+kindOf(n), "put it in quotes")
	}
	return n.Value
}

func (r *reader) flag(n *yaml.Node, path string) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" || n.ShortTag() != "!!bool" {
		r.refuse(n, path, "expected true or false, not "+kindOf(n), "write true or false")
	}
	return n.Value == "true"
}

func (r *reader) integer(n *yaml.Node, path string) int64 {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil || v < 0 {
		r.refuse(n, path, "expected a whole number, not "+kindOf(n), "write a number such as 3")
		return 0
	}
	return v
}

func (r *reader) duration(n *yaml.Node, path string) time.Duration {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || err != nil {
		r.refuse(n, path, "expected a duration, not "+kindOf(n), "write a duration with its unit, such as 400ms, 5s or 1m30s")
		return 0
	}
	return d
}

// number reads 0.1, 10 or 10%.
func (r *reader) number(n *yaml.Node, path string) float64 {
	digits, percent := strings.CutSuffix(n.Value, "%")
	v, err := strconv.ParseFloat(digits, 64)
	tag := n.ShortTag()
	if n.Kind != yaml.ScalarNode || err != nil || !percent && tag != "!!int" && tag != "!!float" || v != v || v > 1e12 || v < -1e12 {
		r.refuse(n, path, "expected a number, not "+kindOf(n), "write it as 0.1, 10 or 10%")
		return 0
	}
	if percent {
		v /= 100
	}
	return v
}

// bound reads a number, or a duration as seconds.
func (r *reader) bound(n *yaml.Node, path string) float64 {
	if d, err := time.ParseDuration(n.Value); err == nil && n.Kind == yaml.ScalarNode && n.Value != "0" {
		return d.Seconds()
	}
	return r.number(n, path)
}

// catalog reads the catalog that a variant names: a text with several lines is the catalog itself, one line is its file.
func (r *reader) catalog(n *yaml.Node, path string) *profiles.Catalog {
	text := r.text(n, path)
	if r.bad[path] {
		return nil
	}
	var c *profiles.Catalog
	var err error
	indent := 0
	if strings.Contains(text, "\n") {
		// Blank lines in front make the lines of its problems those of this file.
		lines := bytes.Split(r.data, []byte("\n"))
		if n.Line < len(lines) {
			indent = len(lines[n.Line]) - len(bytes.TrimLeft(lines[n.Line], " "))
		}
		c, err = profiles.Load([]byte(strings.Repeat("\n", n.Line)+text), r.name)
	} else {
		file := text
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(r.name), file)
		}
		c, err = profiles.LoadFile(file)
	}
	if bad := (*profiles.CatalogError)(nil); errors.As(err, &bad) {
		r.spoil(path)
		for _, p := range bad.Problems {
			if p.File == r.name {
				p.Column += indent
			}
			r.add(p)
		}
		r.more += bad.More
	} else if err != nil {
		r.refuse(n, path, "the catalog cannot be read: "+err.Error(), "name a file beside the scenario, or write the catalog below with |")
	}
	return c
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys with values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null":
		return "nothing"
	}
	return fmt.Sprintf("%.48q", n.Value)
}
