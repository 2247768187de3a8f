// Package answer checks the names and ids in the answers of a daemon.
//
// A daemon may be a stranger's, and its names and ids become arguments of programs, parts
// of URLs and text on a terminal. So every field that holds one has a grammar, and an
// answer with a field that does not follow its grammar is no answer. Text that may be
// anything, such as a path or a message, has none: the code that prints it quotes it.
//
// The SDKs have the same table, which a test of this package writes. The package knows no
// requests and no daemon.
package answer

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// A GrammarError says that a name or an id in an answer does not follow its grammar.
type GrammarError struct{ Field, Grammar, Value string }

func (e *GrammarError) Error() string {
	return fmt.Sprintf("the field %s is no %s: %.80q", e.Field, e.Grammar, e.Value)
}

// Decode reads a document of a daemon, and checks it. Nothing else decodes what a daemon
// sends.
func Decode(text []byte, doc any) error {
	if err := json.Unmarshal(text, doc); err != nil {
		return err
	}
	return Check(doc)
}

// Check returns an error unless every name and id in a decoded answer follows the grammar
// of its field. An empty text is no name, and always passes.
func Check(doc any) error {
	if doc == nil {
		return nil
	}
	v := reflect.ValueOf(doc)
	return check(v, planOf(v.Type()), "", "")
}

// check checks a value, and what is in it. The grammar is that of the field.
func check(v reflect.Value, p *plan, field, grammar string) error {
	if p.leaf && grammar == "" {
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		return text(field, grammar, v.String())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return check(v.Elem(), planOf(v.Elem().Type()), field, grammar)
	case reflect.Slice, reflect.Array:
		if !p.texts {
			return nil
		}
		for i := range v.Len() {
			if err := check(v.Index(i), planOf(v.Index(i).Type()), field, grammar); err != nil {
				return err
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			// The keys of a map are not fields of the API.
			if err := check(entries.Value(), planOf(entries.Value().Type()), field, grammar); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for _, f := range p.fields {
			if err := check(v.Field(f.index), planOf(v.Field(f.index).Type()), f.name, f.grammar); err != nil {
				return err
			}
		}
	default: // no text in it
	}
	return nil
}

// text checks one text.
func text(field, grammar, value string) error {
	if grammar == "" || value == "" || matches(grammar, value) {
		return nil
	}
	return &GrammarError{Field: field, Grammar: grammar, Value: value}
}

// plan is what Check looks at in the values of one type.
type plan struct {
	fields []planField // of a struct
	leaf   bool        // there are no fields in it
	texts  bool        // the items of a list are no bytes
}

type planField struct {
	index         int
	name, grammar string
}

// plans has the plan of each type that was seen: types are few, and answers many.
var plans sync.Map

func planOf(t reflect.Type) *plan {
	if known, ok := plans.Load(t); ok {
		return known.(*plan) //nolint:forcetypeassert // nothing else is stored
	}
	p := &plan{}
	switch t.Kind() {
	case reflect.Struct:
		p.fields = fieldsOf(t)
	case reflect.Slice, reflect.Array:
		p.texts = t.Elem().Kind() != reflect.Uint8
	case reflect.Pointer, reflect.Interface, reflect.Map:
	default:
		p.leaf = true
	}
	plans.Store(t, p)
	return p
}

// fieldsOf returns the exported fields of a struct with their names in documents.
func fieldsOf(t reflect.Type) []planField {
	var all []planField
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() && !f.Anonymous || name == "-" {
			continue
		}
		if name == "" && !f.Anonymous {
			name = strings.ToLower(f.Name)
		}
		all = append(all, planField{index: i, name: name, grammar: fields()[name]})
	}
	return all
}
