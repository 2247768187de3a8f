// Package document writes the JSON documents of the command line and of the daemon.
//
// Both print the same bytes for the same value. The package knows nothing of what a
// document says.
package document

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"
)

// Write writes one document on one line. Lists are never null, times are
// UTC, and no character in it can draw on a terminal.
func Write(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(normalize(reflect.ValueOf(v)).Interface()); err != nil {
		return err
	}
	_, err := w.Write(EscapeInvisible(b.Bytes()))
	return err
}

// normalize copies a value so that nil slices and maps become empty ones and every
// time is UTC. Values that encode themselves are left as they are.
func normalize(v reflect.Value) reflect.Value {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return reflect.ValueOf(v.Interface().(time.Time).UTC())
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		return v
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(normalize(v.Elem()))
		return out
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		out := reflect.New(v.Type()).Elem()
		out.Set(normalize(v.Elem()))
		return out
	case reflect.Slice:
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(normalize(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), normalize(it.Value()))
		}
		return out
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				out.Field(i).Set(normalize(v.Field(i)))
			}
		}
		return out
	default:
		return v
	}
}

// EscapeInvisible writes control characters and invisible ones as \u escapes, which
// does not change the meaning of the document. Outside of strings JSON has no such
// characters.
func EscapeInvisible(doc []byte) []byte {
	if !slices.ContainsFunc(doc, func(b byte) bool { return (b < ' ' && b != '\n') || b > '~' }) {
		return doc
	}
	out := make([]byte, 0, len(doc))
	for i := 0; i < len(doc); {
		r, n := utf8.DecodeRune(doc[i:])
		if r == '\n' || r == ' ' || (r != 0x7f && unicode.IsPrint(r)) {
			out = append(out, doc[i:i+n]...)
		} else {
			out = appendEscape(out, r)
		}
		i += n
	}
	return out
}

func appendEscape(out []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	units := []rune{r}
	if r > 0xffff {
		r -= 0x10000
		units = []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
	}
	for _, u := range units {
		out = append(out, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15])
	}
	return out
}
