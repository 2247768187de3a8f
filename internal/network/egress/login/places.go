package login

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// places are the strings and numbers of a JSON document, by their keys joined with
// dots. Elements of arrays are left out.
type places map[string]value

type value struct {
	// text is a string's, number a number's.
	text, number string
	start, end   int
}

// maxDepth bounds the nesting of a document.
const maxDepth = 16

var errForm = errors.New("malformed JSON")

// locate finds the values of a JSON object. A key that is there twice is an error.
func locate(text []byte) (places, error) {
	if !json.Valid(text) {
		return nil, errForm
	}
	w := walker{dec: json.NewDecoder(bytes.NewReader(text)), text: text, found: places{}}
	w.dec.UseNumber()
	if t, err := w.dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errForm
	}
	if err := w.object("", 1); err != nil {
		return nil, err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errForm
	}
	return w.found, nil
}

type walker struct {
	dec   *json.Decoder
	text  []byte
	found places
}

// object reads the members of an object whose first brace was read.
func (w *walker) object(prefix string, depth int) error {
	if depth > maxDepth {
		return errors.New("too deep")
	}
	seen := map[string]bool{}
	for w.dec.More() {
		t, err := w.dec.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if seen[key] {
			return errors.New("a key is there twice")
		}
		seen[key] = true
		place := key
		if prefix != "" {
			place = prefix + "." + key
		}
		if strings.Contains(key, ".") {
			place = "" // it could be taken for another place
		}
		if err := w.member(place, depth); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

// member reads the value of a key.
func (w *walker) member(place string, depth int) error {
	from := int(w.dec.InputOffset())
	start := from + bytes.IndexFunc(w.text[from:], func(r rune) bool { return !strings.ContainsRune(" \t\r\n:", r) })
	t, err := w.dec.Token()
	if err != nil {
		return err
	}
	v := value{start: start, end: int(w.dec.InputOffset())}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' && place != "" {
			return w.object(place, depth+1)
		}
		return w.skip(depth + 1)
	case string:
		v.text = t
	case json.Number:
		v.number = t.String()
	}
	if place != "" {
		w.found[place] = v
	}
	return nil
}

// skip reads to the end of an array or object.
func (w *walker) skip(depth int) error {
	for open := 1; open > 0; {
		t, err := w.dec.Token()
		if err != nil {
			return err
		}
		if d, ok := t.(json.Delim); ok {
			if d == '{' || d == '[' {
				open++
			} else {
				open--
			}
			if open+depth > maxDepth {
				return errors.New("too deep")
			}
		}
	}
	return nil
}

// scopes returns a text of a JSON document, or the texts of a list with blanks between
// them; "" if there is neither.
func scopes(text []byte, place string) string {
	var at any
	if json.Unmarshal(text, &at) != nil {
		return ""
	}
	for key := range strings.SplitSeq(place, ".") {
		object, _ := at.(map[string]any)
		at = object[key]
	}
	if s, ok := at.(string); ok {
		return s
	}
	var out []string
	list, _ := at.([]any)
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}

// splice replaces the values at some places, and leaves every other byte as it is.
func splice(text []byte, values map[string]any) ([]byte, error) {
	found, err := locate(text)
	if err != nil {
		return nil, err
	}
	keys := slices.SortedFunc(maps.Keys(values), func(a, b string) int { return found[a].start - found[b].start })
	var out []byte
	at := 0
	for _, key := range keys {
		v, ok := found[key]
		if !ok {
			return nil, fmt.Errorf("no %s", key)
		}
		out = append(append(out, text[at:v.start]...), encode(values[key])...)
		at = v.end
	}
	return append(out, text[at:]...), nil
}

// encode returns a value as JSON, without escapes for HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts, numbers and maps of them always encode
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
