package rest

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
)

// readBody reads the body of a request. The library takes null for a field that is
// left out; here it is refused unless the field says that null has a meaning. A field that
// is there twice is refused: another reader of the body might take the other value.
func readBody(data []byte, v any) error {
	if _, untyped := v.(*any); untyped {
		if err := huma.DefaultJSONFormat.Unmarshal(data, v); err != nil {
			return err
		}
		return refuseRepeated(json.NewDecoder(bytes.NewReader(data))) // the library reads the body again, into its type
	}
	var given any
	if err := huma.DefaultJSONFormat.Unmarshal(data, &given); err != nil {
		return err
	}
	if err := refuseNull(given, reflect.TypeOf(v)); err != nil {
		return err
	}
	return huma.DefaultJSONFormat.Unmarshal(data, v)
}

// refuseRepeated reads a value, and returns an error for the first field that is there
// twice.
func refuseRepeated(d *json.Decoder) error {
	start, err := d.Token()
	if err != nil {
		return err
	}
	if _, nested := start.(json.Delim); !nested {
		return nil
	}
	names := map[json.Token]bool{}
	for d.More() {
		if start == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if names[name] {
				return fmt.Errorf("the field %q is there twice", name)
			}
			names[name] = true
		}
		if err := refuseRepeated(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// checkQuery refuses parameters that are there twice, or without a value where one is
// needed. The library takes the first value, and none for a parameter that is left out.
func checkQuery(ctx huma.Context) error {
	u := ctx.URL()
	if u.RawQuery == "" {
		return nil
	}
	given := u.Query()
	for _, p := range ctx.Operation().Parameters {
		if p.In != "query" || p.Schema == nil || p.Schema.Type == huma.TypeArray {
			continue
		}
		values := given[p.Name]
		if len(values) > 1 {
			return api.Usagef("give it once", "the parameter %s is there twice", p.Name)
		}
		isText := p.Schema.Type == huma.TypeString && len(p.Schema.Enum) == 0
		if !isText && slices.Contains(values, "") {
			return api.Usagef("give it one, or leave it out", "the parameter %s has no value", p.Name)
		}
	}
	return nil
}

// refuseNull returns an error for the first field that is null, or has a text that its type
// does not read: the library would not say which one.
func refuseNull(given any, t reflect.Type) error {
	if t.Implements(reflect.TypeFor[json.Unmarshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return refuseNull(given, t.Elem())
	case reflect.Slice, reflect.Array:
		list, _ := given.([]any)
		for _, item := range list {
			if err := refuseNull(item, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Map:
		object, _ := given.(map[string]any)
		for _, item := range object {
			if err := refuseNull(item, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Struct:
		object, _ := given.(map[string]any)
		return refuseNullFields(object, t)
	default:
	}
	return nil
}

func refuseNullFields(object map[string]any, t reflect.Type) error {
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		value, given := object[name]
		if !given || field.Anonymous {
			continue
		}
		if value == nil && field.Tag.Get("nullable") != "true" {
			return fmt.Errorf("%s is null; leave it out", name)
		}
		if err := refuseText(value, field.Type); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := refuseNull(value, field.Type); err != nil {
			return err
		}
	}
	return nil
}

// refuseText returns the error of a type that does not read a text.
func refuseText(given any, t reflect.Type) error {
	text, isText := given.(string)
	if reader, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler); ok && isText {
		return reader.UnmarshalText([]byte(text))
	}
	return nil
}
