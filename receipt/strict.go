package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds the nesting of JSON. Statements need fewer than ten levels;
// the rest is for the opaque controls.
const maxDepth = 64

// decodeStrict decodes one JSON document into v and refuses every document that
// another reader could take for something else.
//
// encoding/json alone is too kind for signed data: it takes the last of two equal
// keys, matches names without regard to case, and ignores unknown fields. So the
// document is compared with the encoding of what was understood: whatever was
// ignored, defaulted or respelled shows as a difference. Parts of v that keep their
// text (json.RawMessage) would pass unseen: opaque returns them.
func decodeStrict(data []byte, v any, opaque func() []json.RawMessage) error {
	if !utf8.Valid(data) {
		return errors.New("not UTF-8")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	if err := checkSurrogates(data); err != nil {
		return err
	}
	again, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(data, again) {
		return compareDocuments(data, again)
	}
	// The usual case, and much the faster: byte for byte what this package writes.
	for _, part := range opaque() {
		if _, err := parseTree(part); err != nil {
			return err
		}
	}
	return nil
}

// compareDocuments refuses documents that differ in more than their spaces,
// their escapes and the order of their keys.
func compareDocuments(data, again []byte) error {
	got, err := parseTree(data)
	if err != nil {
		return err
	}
	want, err := parseTree(again)
	if err != nil {
		return err
	}
	if where, same := compareTrees(got, want, "$"); !same {
		return fmt.Errorf("unknown, missing or misspelled field or value at %s", where)
	}
	return nil
}

// nothingOpaque is for types that understand all of their fields.
func nothingOpaque() []json.RawMessage { return nil }

// parseTree reads valid JSON into maps, slices, strings, json.Numbers and bools,
// and refuses repeated keys and deep nesting.
func parseTree(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := parseValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the end of the document")
	}
	return v, nil
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		return parseObject(dec, depth)
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := parseValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return tok, nil
}

func parseObject(dec *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := tok.(string)
		if !ok {
			return nil, errors.New("an object key is not a string")
		}
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("duplicate key %q in an object", key)
		}
		if object[key], err = parseValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return object, err
}

// compareTrees names the first place where two documents differ.
func compareTrees(a, b any, at string) (string, bool) {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return at, false
		}
		for key, va := range a {
			vb, ok := b[key]
			if !ok {
				return at + "." + strconv.Quote(key), false
			}
			if where, same := compareTrees(va, vb, at+"."+strconv.Quote(key)); !same {
				return where, false
			}
		}
		for key := range b {
			if _, ok := a[key]; !ok {
				return at + "." + strconv.Quote(key), false
			}
		}
		return "", true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return at, false
		}
		for i := range a {
			if where, same := compareTrees(a[i], b[i], at+"["+strconv.Itoa(i)+"]"); !same {
				return where, false
			}
		}
		return "", true
	}
	return at, reflect.DeepEqual(a, b)
}

// checkSurrogates refuses \u escapes that are half a character: readers disagree
// about what they stand for. data is valid JSON, so a backslash is always inside
// a string and followed by a whole escape.
func checkSurrogates(data []byte) error {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		i++
		if data[i] != 'u' {
			continue
		}
		unit := hexUnit(data[i+1:])
		i += 4
		switch {
		case unit >= 0xdc00 && unit <= 0xdfff:
			return errors.New("half a surrogate pair in a string")
		case unit >= 0xd800 && unit <= 0xdbff:
			rest := data[i+1:]
			if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
				return errors.New("half a surrogate pair in a string")
			}
			if low := hexUnit(rest[2:]); low < 0xdc00 || low > 0xdfff {
				return errors.New("half a surrogate pair in a string")
			}
			i += 6
		}
	}
	return nil
}

func hexUnit(s []byte) uint64 {
	n, _ := strconv.ParseUint(string(s[:4]), 16, 16)
	return n
}
