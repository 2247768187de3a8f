package server

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
)

// operatorTag is the key of the tag of a field whose value means that the operator says
// so. Its value is a rule of operatorRules. Such a field of a request is refused for every
// other caller, by allowOperatorFields and nowhere else.
const operatorTag = "operator"

// operatorKey is the key of the rule, in the description of a field.
const operatorKey = "x-operator"

// operatorRule refuses a value of a field that a caller who is not the operator may not
// send. The value is not zero, and name is that of the field.
type operatorRule func(c *call, name string, value reflect.Value) error

// operatorRules returns the rules by the values of the tag.
func operatorRules() map[string]operatorRule {
	return map[string]operatorRule{
		"adds": patternsThatAdd,
	}
}

// patternsThatAdd refuses patterns that take back what other rules leave out.
func patternsThatAdd(_ *call, name string, value reflect.Value) error {
	for i := range value.Len() {
		if p := value.Index(i).String(); strings.HasPrefix(p, "!") {
			return api.Refusef(api.CodeForbidden, `leave it out, or write a name that begins with ! as \!`,
				"%s: the pattern %q takes a rule back, which only the operator may", name, p)
		}
	}
	return nil
}

// isOperator reports whether the sender is the operator: the daemon's own user, or a token
// of the scope admin without bounds. Every other sender only narrows.
func (c sender) isOperator() bool { return c.local || c.only == "" && c.grant.IsOperator() }

// allowOperatorFields refuses an input of a route that has the operator's word in it,
// unless the sender is the operator.
func (c *call) allowOperatorFields(_ context.Context, in any) error {
	if c.caller.isOperator() {
		return nil
	}
	rules := operatorRules()
	return eachOperatorField(reflect.ValueOf(in), "", func(name, rule string, value reflect.Value) error {
		return rules[rule](c, name, value)
	})
}

// eachOperatorField calls fn for each field with the tag, in a value of the types that
// requests have: structs, pointers to them, lists and maps of them. Types that contain
// themselves have values without an end only where a caller sent one, which JSON cannot.
func eachOperatorField(v reflect.Value, name string, fn func(name, rule string, value reflect.Value) error) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return eachOperatorField(v.Elem(), name, fn)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := eachOperatorField(v.Index(i), name, fn); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if err := eachOperatorField(v.MapIndex(key), name, fn); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return eachFieldOf(v, fn)
	default:
	}
	return nil
}

func eachFieldOf(v reflect.Value, fn func(name, rule string, value reflect.Value) error) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name := fieldName(f)
		if rule := f.Tag.Get(operatorTag); rule != "" && !v.Field(i).IsZero() {
			if err := fn(name, rule, v.Field(i)); err != nil {
				return err
			}
		}
		if err := eachOperatorField(v.Field(i), name, fn); err != nil {
			return err
		}
	}
	return nil
}

// fieldName returns the name of a field as callers write it.
func fieldName(f reflect.StructField) string {
	for _, key := range []string{"json", "query"} {
		if name, _, _ := strings.Cut(f.Tag.Get(key), ","); name != "" {
			return name
		}
	}
	return f.Name
}

// describeOperatorFields adds the rules to the description of the API.
func describeOperatorFields(registry huma.Registry) {
	schemas := registry.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		t := registry.TypeFromRef("#/components/schemas/" + name)
		if t == nil || t.Kind() != reflect.Struct {
			continue
		}
		for _, f := range reflect.VisibleFields(t) {
			rule, p := f.Tag.Get(operatorTag), schemas[name].Properties[fieldName(f)]
			if rule == "" || p == nil {
				continue
			}
			if p.Extensions == nil {
				p.Extensions = map[string]any{}
			}
			p.Extensions[operatorKey] = rule
		}
	}
}
