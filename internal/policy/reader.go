package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// reader walks a document and collects its problems. Its methods always return
// a usable value, so that one mistake does not hide the next.
type reader struct {
	file     string
	opt      Options
	problems []Problem
	// dropped counts the problems beyond maxCollected.
	dropped int
	// paths counts the paths of both lists.
	paths int
}

// maxCollected bounds the memory for the problems of one file.
const maxCollected = 10 * maxProblems

func (r *reader) at(line, column int, path, msg string) {
	if len(r.problems) >= maxCollected {
		r.dropped++
		return
	}
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Column: column, Path: path, Message: msg})
}

// bad reports that the value of a key is wrong.
func (r *reader) bad(n *yaml.Node, path, format string, args ...any) {
	r.at(n.Line, n.Column, path, path+": "+fmt.Sprintf(format, args...))
}

// object is a mapping whose keys are known.
type object struct {
	r    *reader
	node *yaml.Node
	path string
	vals map[string]*yaml.Node
	keys map[string]*yaml.Node
}

func join(path, key string) string {
	switch {
	case path == "":
		return key
	case nameOK(key):
		return path + "." + key
	}
	return path + "." + show(key)
}

// entries returns the keys and values of a mapping with free keys, without
// duplicates.
func (r *reader) entries(n *yaml.Node, path string) (keys, vals []*yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, cmpPath(path), "must be a mapping of keys to values, not %s", kind(n))
		return nil, nil
	}
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode {
			r.bad(k, cmpPath(path), "a key must be text, not %s", kind(k))
			continue
		}
		if first, dup := seen[k.Value]; dup {
			r.at(k.Line, k.Column, join(path, k.Value), fmt.Sprintf("duplicate key %s; it is first on line %d", show(k.Value), first.Line))
			continue
		}
		seen[k.Value] = k
		keys, vals = append(keys, k), append(vals, n.Content[i+1])
	}
	return keys, vals
}

func cmpPath(path string) string {
	if path == "" {
		return "policy"
	}
	return path
}

// object reads a mapping that may have only these keys.
func (r *reader) object(n *yaml.Node, path string, known ...string) *object {
	o := &object{r: r, node: n, path: path, vals: map[string]*yaml.Node{}, keys: map[string]*yaml.Node{}}
	keys, vals := r.entries(n, path)
	for i, k := range keys {
		if !slices.Contains(known, k.Value) {
			r.at(k.Line, k.Column, join(path, k.Value), unknownKey(k.Value, path, known))
			continue
		}
		o.vals[k.Value], o.keys[k.Value] = vals[i], k
	}
	return o
}

func unknownKey(key, path string, known []string) string {
	msg := "unknown key " + show(key)
	if path != "" {
		msg += " in " + path
	}
	if near := nearestKey(key, known); near != "" {
		return msg + "; did you mean " + near + "?"
	}
	return msg + "; known are " + strings.Join(known, ", ")
}

func (o *object) has(key string) bool { return o.vals[key] != nil }

func (o *object) at(key string) string { return join(o.path, key) }

// bad reports a key that is not allowed or has a wrong value.
func (o *object) bad(key, format string, args ...any) {
	n := o.vals[key]
	if n == nil {
		n = o.node
	}
	o.r.bad(n, o.at(key), format, args...)
}

// missingKey reports that the mapping lacks a key.
func (o *object) missingKey(key, format string, args ...any) {
	o.r.at(o.node.Line, o.node.Column, o.at(key), o.at(key)+": "+fmt.Sprintf(format, args...))
}

// text returns the text of a key, "" if it is absent or wrong.
func (o *object) text(key string) string {
	if n := o.vals[key]; n != nil {
		s, _ := o.r.text(n, o.at(key))
		return s
	}
	return ""
}

// boolean returns a truth value.
func (o *object) boolean(key string, byDefault bool) bool {
	n := o.vals[key]
	switch {
	case n == nil:
		return byDefault
	case n.Kind == yaml.ScalarNode && isPlain(n) && (n.Value == "true" || n.Value == "false"):
		return n.Value == "true"
	}
	o.bad(key, "must be true or false, not %s", kind(n))
	return byDefault
}

// integer returns a whole number within bounds; 0 if it is absent or wrong.
func (o *object) integer(key string, least, most int64) int64 {
	if n := o.vals[key]; n != nil {
		return o.r.integer(n, o.at(key), least, most)
	}
	return 0
}

func (r *reader) integer(n *yaml.Node, path string, least, most int64) int64 {
	if n.Kind != yaml.ScalarNode || !isPlain(n) || !decimal(n.Value) {
		r.bad(n, path, "must be a whole number, not %s", kindAndValue(n))
		return 0
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || v < least || v > most {
		r.bad(n, path, "must be from %d to %d, not %s", least, most, show(n.Value))
		return 0
	}
	return v
}

// decimal reports whether s is a whole number in canonical spelling.
func decimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}

// enum returns the index of a key's value among names. The first is the
// default; an empty name cannot be chosen.
func (o *object) enum(key string, names []string) int {
	n := o.vals[key]
	if n == nil {
		return 0
	}
	s, ok := o.r.text(n, o.at(key))
	if !ok {
		return 0
	}
	if i := slices.Index(names, s); i >= 0 && s != "" {
		return i
	}
	o.bad(key, "unknown value %s; known are %s", show(s), strings.Join(slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" }), ", "))
	return 0
}

// maxText bounds a single value.
const maxText = 4096

// text returns the text of a scalar. It refuses numbers and the like, because
// "1.10" and 1.10 differ.
func (r *reader) text(n *yaml.Node, path string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.bad(n, path, "must be text, not %s", kind(n))
		return "", false
	}
	if isPlain(n) {
		if k := plainKind(n.Value); k != "text" && k != "nothing" {
			r.bad(n, path, "must be text, not %s; write \"%s\" in quotes", k, n.Value)
			return "", false
		} else if k == "nothing" {
			r.bad(n, path, "must be text, not nothing")
			return "", false
		}
	}
	return r.bounded(n, path)
}

// word returns a scalar as it is written, be it text or a number.
func (r *reader) word(n *yaml.Node, path, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || isPlain(n) && (plainKind(n.Value) == "nothing" || plainKind(n.Value) == "a truth value") {
		r.bad(n, path, "must be %s, not %s", what, kind(n))
		return "", false
	}
	return r.bounded(n, path)
}

func (r *reader) bounded(n *yaml.Node, path string) (string, bool) {
	switch {
	case len(n.Value) > maxText:
		r.bad(n, path, "longer than %d bytes", maxText)
	case strings.Contains(n.Value, "\x00"):
		r.bad(n, path, "holds a NUL character")
	default:
		return n.Value, true
	}
	return "", false
}

// list returns the items of a list; nil if the key is absent or not a list.
func (o *object) list(key string) []*yaml.Node {
	n := o.vals[key]
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		o.bad(key, "must be a list, not %s", kind(n))
		return nil
	}
	return n.Content
}

// texts returns a list of texts, without the wrong ones.
func (o *object) texts(key string) []item {
	var out []item
	for i, n := range o.list(key) {
		path := index(o.at(key), i)
		if s, ok := o.r.text(n, path); ok {
			out = append(out, item{n, path, s})
		}
	}
	return out
}

type item struct {
	node *yaml.Node
	path string
	text string
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
