package livepage

import (
	"reflect"
	"strings"
	"unicode"
)

// numbers are an engine's totals by name: each field in snake case. A number that the engine begins to count is in the JSON
// without another line, by the same name as in the documents.
type numbers map[string]any

// numbersOf names the fields of a struct. What there is of each dependency is beside the dependency.
func numbersOf(totals any) numbers {
	v := reflect.ValueOf(totals)
	n := make(numbers, v.NumField())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Name == "Dependencies" || !f.IsExported() {
			continue
		}
		value := v.Field(i)
		if value.Kind() == reflect.Map && value.IsNil() {
			value = reflect.MakeMap(f.Type)
		}
		n[snake(f.Name)] = value.Interface()
	}
	return n
}

// snake writes NoPurse as no_purse.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
