package inspect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxDepth = 64
	// maxValues bounds memory where a policy allows long bodies.
	maxValues = 200_000
)

type kind byte

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

// value is a JSON value that has one meaning. Numbers and booleans are not
// kept, because no rule needs them.
type value struct {
	kind kind
	text string
	// items are those of a list, or the values of an object.
	items []value
	keys  []string
}

// parse reads one JSON value. The grammar is that of encoding/json. It also
// refuses what parsers read differently: duplicate keys at any depth, invalid
// UTF-8, halves of surrogate pairs, deep nesting.
func parse(data []byte) (value, error) {
	switch {
	case !utf8.Valid(data):
		return value{}, refuse("the body is not UTF-8")
	case bytes.HasPrefix(data, []byte("\ufeff")):
		return value{}, refuse("the body starts with a byte order mark")
	case !json.Valid(data):
		return value{}, refuse("the body is not one JSON value")
	}
	r := reader{data: data}
	return r.value(0)
}

// reader walks over text that is known to be valid JSON.
type reader struct {
	data   []byte
	pos    int
	values int
}

// next returns the next byte that is not a space, without consuming it.
func (r *reader) next() byte {
	for {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c
		}
	}
}

func (r *reader) value(depth int) (value, error) {
	if r.values++; depth > maxDepth || r.values > maxValues {
		return value{}, refuse("the JSON is nested more than %d levels deep or has more than %d values", maxDepth, maxValues)
	}
	switch c := r.next(); c {
	case '{':
		return r.object(depth)
	case '[':
		return r.list(depth)
	case '"':
		s, err := r.string()
		return value{kind: text, text: s}, err
	case 'n':
		r.pos += len("null")
		return value{kind: null}, nil
	case 't':
		r.pos += len("true")
		return value{kind: boolean}, nil
	case 'f':
		r.pos += len("false")
		return value{kind: boolean}, nil
	}
	for r.pos < len(r.data) && strings.IndexByte("+-.eE0123456789", r.data[r.pos]) >= 0 {
		r.pos++
	}
	return value{kind: number}, nil
}

func (r *reader) list(depth int) (value, error) {
	v := value{kind: list}
	r.pos++
	for r.next() != ']' {
		item, err := r.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
		if r.next() == ',' {
			r.pos++
		}
	}
	r.pos++
	return v, nil
}

func (r *reader) object(depth int) (value, error) {
	v := value{kind: object}
	r.pos++
	for r.next() != '}' {
		key, err := r.string()
		if err != nil {
			return v, err
		}
		r.next()
		r.pos++ // the colon
		item, err := r.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.keys, v.items = append(v.keys, key), append(v.items, item)
		if r.next() == ',' {
			r.pos++
		}
	}
	r.pos++
	if key, twice := repeated(v.keys); twice {
		return v, refuse("the JSON has the key %s twice in one object", show(key))
	}
	return v, nil
}

func repeated(keys []string) (string, bool) {
	sorted := slices.Sorted(slices.Values(keys))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return sorted[i], true
		}
	}
	return "", false
}

// string reads a string. It refuses half of a surrogate pair: this decoder
// makes one replacement character of it, others make another or none.
func (r *reader) string() (string, error) {
	start := r.pos
	escapes := false
	for r.pos++; r.data[r.pos] != '"'; r.pos++ {
		if r.data[r.pos] == '\\' {
			escapes = true
			r.pos++
		}
	}
	r.pos++
	raw := r.data[start:r.pos]
	if !escapes {
		return string(raw[1 : len(raw)-1]), nil
	}
	if hasHalfSurrogate(raw) {
		return "", refuse("the JSON has half of a surrogate pair")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", refuse("the JSON has a string that cannot be read")
	}
	return s, nil
}

// hasHalfSurrogate reports whether a string has an escape for half of a surrogate pair
// without the other half.
func hasHalfSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		unit := strings.ToLower(string(raw[i+1 : i+5]))
		i += 4
		switch {
		case unit >= "dc00" && unit <= "dfff":
			return true
		case unit < "d800" || unit > "dbff":
			continue
		}
		// raw ends with a quote, so there is always one byte after an escape.
		if i+6 >= len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u' {
			return true
		}
		if low := strings.ToLower(string(raw[i+3 : i+7])); low < "dc00" || low > "dfff" {
			return true
		}
		i += 6
	}
	return false
}

// get returns the value of a key.
func (v value) get(key string) (value, bool) {
	if i := slices.Index(v.keys, key); i >= 0 {
		return v.items[i], true
	}
	return value{}, false
}

// checkKeys checks that an object has known keys only.
func (v value) checkKeys(what string, known ...string) error {
	if err := v.checkSpellings(what, known...); err != nil {
		return err
	}
	for _, key := range v.keys {
		if !slices.Contains(known, key) {
			return refuse("%s has the unknown key %s", what, show(key))
		}
	}
	return nil
}

// checkSpellings checks that no key of an object is another spelling of a known one. Some
// servers read keys without regard to case, or end them at a NUL.
func (v value) checkSpellings(what string, known ...string) error {
	if v.kind != object {
		return refuse("%s is not an object", what)
	}
	for _, key := range v.keys {
		if name := lookalike(key, known); name != "" && name != key {
			return refuse("%s has the key %s, which some servers take for %s", what, show(key), show(name))
		}
	}
	return nil
}

// lookalike returns the known name that a key could be taken for, "" if there is
// none.
func lookalike(key string, known []string) string {
	if slices.Contains(known, key) {
		return key
	}
	folded := fold(key)
	for _, name := range known {
		if fold(name) == folded {
			return name
		}
	}
	return ""
}

// fold drops everything but letters and digits, and maps letters that differ
// only in case to one.
func fold(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return -1
		}
		least := c
		for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}
