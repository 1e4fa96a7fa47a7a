package architecture

import (
	"bytes"
	"cmp"
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// A kind is what a symbol counts as.
type kind int

const (
	typeSymbol   kind = iota
	funcSymbol        // functions of the package
	valueSymbol       // constants and variables, but not members of an enum
	methodSymbol      // methods that users call or implement
	memberSymbol      // members of an enum: constants of a type that the package declares
	fieldSymbol       // fields of structs
)

// A symbol is one exported thing, as one line of api/*.txt.
type symbol struct {
	kind kind
	line string
}

// symbols lists what a package exports, sorted by line.
func symbols(pkg *types.Package) []symbol {
	var list []symbol
	add := func(k kind, format string, args ...any) {
		list = append(list, symbol{k, fmt.Sprintf(format, args...)})
	}
	qualify := func(other *types.Package) string {
		if other == pkg {
			return ""
		}
		return other.Name()
	}
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		obj := scope.Lookup(name)
		if !obj.Exported() {
			continue
		}
		typ := types.TypeString(obj.Type(), qualify)
		switch obj := obj.(type) {
		case *types.Const:
			k := valueSymbol
			if named, ok := obj.Type().(*types.Named); ok && named.Obj().Pkg() == pkg {
				k = memberSymbol
			}
			add(k, "const %s %s = %s", name, typ, obj.Val().ExactString())
		case *types.Var:
			add(valueSymbol, "var %s %s", name, typ)
		case *types.Func:
			add(funcSymbol, "func %s%s", name, signature(obj, qualify))
		case *types.TypeName:
			addType(obj, qualify, add)
		}
	}
	slices.SortFunc(list, func(a, b symbol) int { return cmp.Compare(a.line, b.line) })
	return list
}

func signature(f *types.Func, qualify types.Qualifier) string {
	var buf bytes.Buffer
	types.WriteSignature(&buf, f.Signature(), qualify)
	return buf.String()
}

// addType adds a type with its exported fields and methods.
func addType(obj *types.TypeName, qualify types.Qualifier, add func(kind, string, ...any)) {
	name := obj.Name()
	if obj.IsAlias() {
		target := obj.Type()
		if alias, ok := target.(*types.Alias); ok {
			target = alias.Rhs()
		}
		add(typeSymbol, "type %s = %s", name, types.TypeString(target, qualify))
		return
	}
	named := obj.Type().(*types.Named)
	params := typeParams(named, qualify)
	switch under := named.Underlying().(type) {
	case *types.Struct:
		add(typeSymbol, "type %s%s struct", name, params)
		addFields(name, under, qualify, add)
		// What an unexported embedded type brings along is exported all the same. An exported one is a field of the
		// list, and its own package says what it has.
		set := types.NewMethodSet(types.NewPointer(named))
		for selection := range set.Methods() {
			index := selection.Index()
			if len(index) > 1 && selection.Obj().Exported() && !under.Field(index[0]).Exported() {
				method := selection.Obj().(*types.Func)
				add(methodSymbol, "method (%s) %s%s (promoted)", name, method.Name(), signature(method, qualify))
			}
		}
	case *types.Interface:
		sealed := ""
		for method := range under.Methods() {
			if !method.Exported() {
				sealed = " (sealed)"
				continue
			}
			add(methodSymbol, "method %s.%s%s", name, method.Name(), signature(method, qualify))
		}
		if under.IsMethodSet() {
			add(typeSymbol, "type %s%s interface%s", name, params, sealed)
		} else {
			add(typeSymbol, "type %s%s %s", name, params, types.TypeString(under, qualify))
		}
	default:
		add(typeSymbol, "type %s%s %s", name, params, types.TypeString(under, qualify))
	}
	for method := range named.Methods() {
		if !method.Exported() {
			continue
		}
		receiver := types.TypeString(method.Signature().Recv().Type(), qualify)
		add(methodSymbol, "method (%s) %s%s", receiver, method.Name(), signature(method, qualify))
	}
}

// addFields adds the exported fields of a struct, those of its unexported embedded structs included.
func addFields(name string, s *types.Struct, qualify types.Qualifier, add func(kind, string, ...any)) {
	for field := range s.Fields() {
		typ := field.Type()
		switch {
		case field.Exported() && field.Embedded():
			add(fieldSymbol, "field %s.%s %s (embedded)", name, field.Name(), types.TypeString(typ, qualify))
		case field.Exported():
			add(fieldSymbol, "field %s.%s %s", name, field.Name(), types.TypeString(typ, qualify))
		case field.Embedded():
			if pointer, ok := typ.Underlying().(*types.Pointer); ok {
				typ = pointer.Elem()
			}
			if inner, ok := typ.Underlying().(*types.Struct); ok {
				addFields(name, inner, qualify, add)
			}
		}
	}
}

// typeParams returns the type parameters of a generic type with their constraints, or nothing.
func typeParams(named *types.Named, qualify types.Qualifier) string {
	var list []string
	for param := range named.TypeParams().TypeParams() {
		list = append(list, param.Obj().Name()+" "+types.TypeString(param.Constraint(), qualify))
	}
	if list == nil {
		return ""
	}
	return "[" + strings.Join(list, ", ") + "]"
}
