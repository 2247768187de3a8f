package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// value is a policy as a tree. Its text, its JSON and the differences between
// two are made from it, so that the three agree.
type value struct {
	yaml string // of a scalar
	json any    // of a scalar
	list []value
	keys []field
	kind valueKind
}

type valueKind int

const (
	scalar valueKind = iota
	sequence
	mapping
)

type field struct {
	name string
	val  value
}

func text(s string) value {
	if plainWord(s) {
		return value{yaml: s, json: s}
	}
	return value{yaml: quoteScalar(s), json: s}
}
func integer(v int64) value { return value{yaml: strconv.FormatInt(v, 10), json: v} }
func boolean(v bool) value  { return value{yaml: strconv.FormatBool(v), json: v} }

func texts(items []string) value {
	v := value{kind: sequence}
	for _, s := range items {
		v.list = append(v.list, text(s))
	}
	return v
}

func patterns[T fmt.Stringer](items []T) value {
	v := value{kind: sequence}
	for _, s := range items {
		v.list = append(v.list, text(s.String()))
	}
	return v
}

func mappingOf(fields ...field) value { return value{kind: mapping, keys: fields} }

func (v *value) add(name string, val value) { v.keys = append(v.keys, field{name, val}) }

// addIf adds a key unless it has no meaning.
func (v *value) addIf(given bool, name string, val value) {
	if given {
		v.add(name, val)
	}
}

// quoteScalar writes a double-quoted scalar in ASCII.
func quoteScalar(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c >= ' ' && c < 0x7f:
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// flat reports whether a value is written on the line of its key.
func (v value) flat() bool {
	if v.kind == mapping {
		return len(v.keys) == 0
	}
	for _, item := range v.list {
		if item.kind != scalar {
			return false
		}
	}
	return true
}

func (v value) inline() string {
	switch {
	case v.kind == scalar:
		return v.yaml
	case v.kind == mapping:
		return "{}"
	}
	items := make([]string, len(v.list))
	for i, item := range v.list {
		items[i] = item.yaml
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// write writes a mapping or a list of mappings in block style. The first line
// is not indented: it follows a dash, or text of the caller.
func (v value) write(b *bytes.Buffer, indent int) {
	pad := strings.Repeat(" ", indent)
	for i, f := range v.keys {
		if i > 0 {
			b.WriteString(pad)
		}
		b.WriteString(text(f.name).yaml + ":")
		if f.val.flat() {
			b.WriteString(" " + f.val.inline() + "\n")
			continue
		}
		b.WriteString("\n" + pad + "  ")
		f.val.write(b, indent+2)
	}
	for i, item := range v.list {
		if i > 0 {
			b.WriteString(pad)
		}
		b.WriteString("- ")
		item.write(b, indent+2)
	}
}

// encode writes JSON with the keys in their order.
func (v value) encode(b *bytes.Buffer) error {
	switch v.kind {
	case mapping:
		b.WriteByte('{')
		for i, f := range v.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := encodeScalar(b, jsonKey(f)); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := f.val.encode(b); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case sequence:
		b.WriteByte('[')
		for i, item := range v.list {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := item.encode(b); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case scalar:
		return encodeScalar(b, v.json)
	}
	return nil
}

// microseconds is a duration; its key in JSON names the unit.
type microseconds int64

func jsonKey(f field) string {
	if _, ok := f.val.json.(microseconds); ok {
		return f.name + "_us"
	}
	return f.name
}

func encodeScalar(b *bytes.Buffer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode policy: %w", err)
	}
	b.Write(text)
	return nil
}
