package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// schemaOf returns the schema of a tool's arguments. path is that of the tool's request. The
// types of the API describe their fields by tags, of which the library knows only the names.
func schemaOf(t reflect.Type, path string) *jsonschema.Schema {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[json.RawMessage](): {},
	}})
	if err != nil {
		panic(fmt.Sprintf("the arguments %s of a tool have no schema: %v", t, err)) // the types are constant
	}
	describe(s, t)
	for _, name := range op.PathNames(t) {
		if strings.Contains(path, "{"+name+"}") {
			s.Required = append([]string{name}, s.Required...)
		} else {
			hide(s, name) // the request is of another operation, too
		}
	}
	return s
}

// describe adds what the tags say to the schema of a type.
func describe(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil // leaving a field out says the same
	}
	switch {
	case t.Kind() == reflect.Slice && s.Items != nil:
		describe(s.Items, t.Elem())
	case t.Kind() == reflect.Map && s.AdditionalProperties != nil:
		describe(s.AdditionalProperties, t.Elem())
	case t.Kind() == reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if p := s.Properties[name]; p != nil && !f.Anonymous {
				describe(p, f.Type)
				constrain(p, f.Tag)
			}
		}
	}
}

// wordsOf returns the arguments that have the operator's word, with their tags.
func wordsOf(t reflect.Type) map[string]string {
	words := map[string]string{}
	for _, f := range reflect.VisibleFields(t) {
		if word := f.Tag.Get(api.OperatorTag); word != "" {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			words[name] = word
		}
	}
	return words
}

// constrain adds what the tags of a field say to its schema.
func constrain(p *jsonschema.Schema, tag reflect.StructTag) {
	p.Description = tag.Get("doc")
	for _, value := range strings.FieldsFunc(tag.Get("enum"), func(r rune) bool { return r == ',' }) {
		p.Enum = append(p.Enum, value)
	}
	p.Minimum, p.Maximum = number(tag, "minimum"), number(tag, "maximum")
	p.MinItems, p.MaxItems, p.MaxLength = count(tag, "minItems"), count(tag, "maxItems"), count(tag, "maxLength")
}

func number(tag reflect.StructTag, name string) (n *float64) {
	if f, err := strconv.ParseFloat(tag.Get(name), 64); err == nil {
		n = &f
	}
	return n
}

func count(tag reflect.StructTag, name string) (n *int) {
	if i, err := strconv.Atoi(tag.Get(name)); err == nil {
		n = &i
	}
	return n
}

// hide takes an argument out of a schema.
func hide(s *jsonschema.Schema, name string) {
	delete(s.Properties, name)
	s.PropertyOrder = slices.DeleteFunc(slices.Clone(s.PropertyOrder), func(p string) bool { return p == name })
}

// fit returns the schema for callers with some rights: without the fields that they
// may not use. The cell is required if the tool needs one, unless the caller is bound
// to a cell.
func fit(s *jsonschema.Schema, words map[string]string, r Rights, needsCell bool) *jsonschema.Schema {
	s = s.CloneSchemas()
	hidden := r.hiddenArguments()
	for name, word := range words {
		if r.hides(word) {
			hidden = append(hidden, name)
		}
	}
	for _, name := range hidden {
		hide(s, name)
	}
	if !needsCell {
		return s
	}
	s.Required = slices.DeleteFunc(slices.Clone(s.Required), func(p string) bool { return p == cellField })
	if r.Cell == "" {
		s.Required = append([]string{cellField}, s.Required...)
	} else {
		s.Properties[cellField].Description += " Without it, " + r.Cell + "."
	}
	return s
}
