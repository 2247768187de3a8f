package op

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
)

// The keys of the tags of a request's fields. A field with the first or the second is not
// part of the body.
const (
	pathTag  = "path"
	queryTag = "query"
	bodyTag  = "json"
)

// Target returns the path of a request, with its query, and takes out of the request what
// is said there: what is left is its body. A request with a field that is only for an engine
// of the same machine is refused.
func (o Op[In, Out]) Target(in *In) (string, error) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		if f.Tag.Get(bodyTag) == "-" && !reflect.ValueOf(in).Elem().FieldByIndex(f.Index).IsZero() {
			return "", api.Refusef(api.CodeUnsupported, "leave it out", "%s: %s is not sent to a daemon", o.ID, f.Name)
		}
	}
	var values []string
	eachField(reflect.ValueOf(in).Elem(), pathTag, func(_ string, v reflect.Value) {
		values = append(values, v.String())
		v.SetZero()
	})
	query := url.Values{}
	eachField(reflect.ValueOf(in).Elem(), queryTag, func(tag string, v reflect.Value) {
		name, _, _ := strings.Cut(tag, ",")
		addValues(query, name, v)
		v.SetZero()
	})
	if len(query) == 0 {
		return o.At(values...), nil
	}
	return o.At(values...) + "?" + query.Encode(), nil
}

// addValues adds a parameter, unless it has the value that it has when it is left out.
func addValues(query url.Values, name string, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			query.Add(name, v.Index(i).String())
		}
	case !v.IsZero():
		query.Set(name, fmt.Sprint(v.Interface()))
	}
}

// PathNames returns the names of the parameters that requests of a type have in their paths.
func PathNames(t reflect.Type) (names []string) {
	eachField(reflect.New(t).Elem(), pathTag, func(name string, _ reflect.Value) { names = append(names, name) })
	return names
}

// SetPath sets a field of a request that its path has, if it has one of the name.
func SetPath[In any](in *In, name, value string) {
	eachField(reflect.ValueOf(in).Elem(), pathTag, func(has string, v reflect.Value) {
		if has == name {
			v.SetString(value)
		}
	})
}

// PathValue returns the value of a parameter of a request's path, and "" if the request has
// no such parameter.
func PathValue(in any, name string) (value string) {
	if v := reflect.Indirect(reflect.ValueOf(in)); v.Kind() == reflect.Struct {
		eachField(v, pathTag, func(has string, v reflect.Value) {
			if has == name {
				value = v.String()
			}
		})
	}
	return value
}

// BesideBody returns the names that the fields of a type would have in a body, if they are
// not part of it.
func BesideBody(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if isBeside(f) {
			name, _, _ := strings.Cut(f.Tag.Get(bodyTag), ",")
			names = append(names, name)
		}
	}
	return names
}

// Body reports whether requests of the type have a body, and whether it has a field that
// cannot be left out.
func Body[In any]() (has, needed bool) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		if tag, tagged := f.Tag.Lookup(bodyTag); tagged && tag != "-" && !isBeside(f) {
			has = true
			needed = needed || !strings.Contains(tag, ",omit")
		}
	}
	return has, needed
}

// isBeside reports whether a field is in the path or the query of a request.
func isBeside(f reflect.StructField) bool { return f.Tag.Get(pathTag)+f.Tag.Get(queryTag) != "" }

// eachField calls fn for each field with a tag of the key, also of embedded structs.
func eachField(v reflect.Value, key string, fn func(tag string, v reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch tag, has := f.Tag.Lookup(key); {
		case has:
			fn(tag, v.Field(i))
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			eachField(v.Field(i), key, fn)
		}
	}
}
