package rest

import (
	"context"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/session"
)

// operatorKey is the key of the rule, in the description of a field.
const operatorKey = "x-operator"

// operatorField is a field of a request with the tag api.OperatorTag, and a value that is
// not zero.
type operatorField struct {
	name  string
	value reflect.Value
	cell  string // the cell that the request is about, or ""
}

// operatorRule refuses a field that has a value which only the operator may send.
type operatorRule func(ctx context.Context, c *call, f operatorField) error

// operatorRules returns the rules by the values of the tag. They are asked by
// allowFields, and nowhere else.
func operatorRules() map[string]operatorRule {
	return map[string]operatorRule{
		api.OperatorOnly:    operatorOnly,
		api.OperatorAdds:    patternsThatAdd,
		api.OperatorRoot:    unlessValue("host"),
		api.OperatorMode:    ifValue(session.Breakglass),
		api.OperatorOutput:  outputOfOthers,
		api.OperatorGrant:   grantOfToken,
		api.OperatorControl: controlOfToken,
		api.OperatorSetuid:  setuidOfToken,
		api.OperatorTarget:  targetOfToken,
	}
}

func forbiddenError(f operatorField, hint, format string, args ...any) error {
	return api.Refusef(api.CodeForbidden, hint, f.name+": "+format, args...)
}

func operatorOnly(_ context.Context, _ *call, f operatorField) error {
	return forbiddenError(f, "leave it out, or ask the operator", "only the operator may send it")
}

func unlessValue(text string) operatorRule {
	return func(ctx context.Context, c *call, f operatorField) error {
		if f.value.String() == text {
			return nil
		}
		return operatorOnly(ctx, c, f)
	}
}

func ifValue(text string) operatorRule {
	return func(ctx context.Context, c *call, f operatorField) error {
		if f.value.String() != text {
			return nil
		}
		return operatorOnly(ctx, c, f)
	}
}

// patternsThatAdd refuses patterns that take back what other rules leave out.
func patternsThatAdd(_ context.Context, _ *call, f operatorField) error {
	for i := range f.value.Len() {
		if p := f.value.Index(i).String(); strings.HasPrefix(p, "!") {
			return forbiddenError(f, `leave it out, or write a name that begins with ! as \!`, "the pattern %q takes a rule back, which only the operator may", p)
		}
	}
	return nil
}

func outputOfOthers(_ context.Context, _ *call, f operatorField) error {
	n, err := outputLimit(f.value.String())
	if err == nil && n > api.DefaultOutputLimit {
		err = forbiddenError(f, "leave it out, or send at most 64MiB", "only the operator stores more than 64MiB of a stream")
	}
	return err
}

// grantOfToken refuses what the policy that the operator gave the token does not loosen.
func grantOfToken(ctx context.Context, c *call, f operatorField) error {
	if !c.caller.ceilingGrants() {
		return operatorOnly(ctx, c, f)
	}
	ceiling, err := policy.Parse("ceiling", c.caller.grant.Ceiling.Text, policy.Options{})
	if err != nil {
		return err
	}
	granted := slices.Concat(ceiling.Process.AllowSyscalls, engine.AddressesOf(ceiling))
	for i := range f.value.Len() {
		if name := f.value.Index(i).String(); !slices.Contains(granted, name) {
			return forbiddenError(f, "leave it out, or ask the operator", "the policy of the token does not grant %q", name)
		}
	}
	return nil
}

// mayControl is the hint to callers whose token has not been given what they send.
func mayControl(pattern string) string {
	return "leave it out; `forkcell token create --allow-control " + pattern + "` makes a token that may"
}

func controlOfToken(_ context.Context, c *call, f operatorField) error {
	if len(c.caller.grant.AllowControl) > 0 {
		return nil // the engine bounds the patterns by these
	}
	return forbiddenError(f, mayControl("PATTERN"), "the caller may not have control files written")
}

func setuidOfToken(_ context.Context, c *call, f operatorField) error {
	if slices.Contains(c.caller.grant.AllowControl, "**") {
		return nil
	}
	return forbiddenError(f, mayControl("'**'"), "the caller may not keep set-id bits")
}

func targetOfToken(ctx context.Context, c *call, f operatorField) error {
	if len(c.caller.grant.AllowControl) > 0 {
		return nil // and the directories of --allow-source bound it
	}
	status, err := c.engine.Status(ctx, f.cell)
	if err != nil {
		return err
	}
	if status.Source != "" && filepath.Clean(f.value.String()) == status.Source {
		return nil
	}
	return forbiddenError(f, mayControl("PATTERN"), "the caller may not write to a directory other than the source of the cell")
}

// isOperator reports whether the sender is the operator: the daemon's own user, or a token
// of the scope admin without bounds. Every other sender only narrows.
func (c sender) isOperator() bool { return c.local || c.only == "" && c.grant.IsOperator() }

// allowFields refuses an input of a route that has a field which the sender may not set:
// one that needs another scope, or that is the operator's word.
func (c *call) allowFields(ctx context.Context, in any) error {
	err := eachTagged(reflect.ValueOf(in), api.NeedsTag, func(_, scopes string, _ reflect.Value) error {
		for scope := range strings.SplitSeq(scopes, ",") {
			if err := c.need(Scope(scope)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || c.caller.isOperator() {
		return err
	}
	rules, cell := operatorRules(), cellOf(in)
	return eachTagged(reflect.ValueOf(in), api.OperatorTag, func(name, rule string, value reflect.Value) error {
		return rules[rule](ctx, c, operatorField{name, value, cell})
	})
}

// cellOf returns the cell that the path of a request names, or "".
func cellOf(in any) string {
	if d, ok := in.(interface{ document() any }); ok {
		in = d.document()
	}
	return op.PathValue(in, "cell")
}

// eachTagged calls fn for each field that has a tag and is not zero. The value is of the
// types that requests have: structs, pointers to them, lists and maps of them. Types that contain
// themselves have values without an end only where a caller sent one, which JSON cannot.
func eachTagged(v reflect.Value, tag string, fn func(name, rule string, value reflect.Value) error) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return eachTagged(v.Elem(), tag, fn)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := eachTagged(v.Index(i), tag, fn); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if err := eachTagged(v.MapIndex(key), tag, fn); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return eachFieldOf(v, tag, fn)
	default:
	}
	return nil
}

func eachFieldOf(v reflect.Value, tag string, fn func(name, rule string, value reflect.Value) error) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name := fieldName(f)
		if rule := f.Tag.Get(tag); rule != "" && !v.Field(i).IsZero() {
			if err := fn(name, rule, v.Field(i)); err != nil {
				return err
			}
		}
		if err := eachTagged(v.Field(i), tag, fn); err != nil {
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
			rule, p := f.Tag.Get(api.OperatorTag), schemas[name].Properties[fieldName(f)]
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
