package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Bounds of a policy file. Real policies are far below them.
const (
	maxFile  = 1 << 20
	maxDepth = 32
)

// document returns the top node of a file. It refuses every YAML feature that a
// policy does not use, because such features could only make a text mean
// something other than it seems to.
func (r *reader) document(data []byte) *yaml.Node {
	if !r.readable(data) {
		return nil
	}
	if !r.noDirective(data) {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); err != nil {
		r.syntax(err)
		return nil
	}
	if len(doc.Content) != 1 {
		r.at(1, 1, "", "the file is empty; a policy starts with version: 1")
		return nil
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		r.at(max(next.Line, 1), max(next.Column, 1), "", "a second document starts here; a policy is one document")
	case !errors.Is(err, io.EOF):
		r.syntax(err)
		return nil
	}
	top := doc.Content[0]
	if !r.plain(top, 1) {
		return nil
	}
	return top
}

// readable checks the bytes before a parser reads them.
func (r *reader) readable(data []byte) bool {
	if len(data) > maxFile {
		r.at(1, 1, "", fmt.Sprintf("the file is larger than %s", formatSize(maxFile)))
		return false
	}
	line, column := 1, 1
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			r.at(line, column, "", "the file is not UTF-8")
			return false
		case c < ' ' && c != '\n' && c != '\t' && c != '\r', c == 0x7f, c >= 0x80 && c < 0xa0:
			r.at(line, column, "", fmt.Sprintf("the file holds the control character %U; write it as an escape in double quotes", c))
			return false
		case c == '\r' && (i+1 == len(data) || data[i+1] != '\n'):
			r.at(line, column, "", "the file holds a carriage return without a line feed, which YAML takes for the end of a line")
			return false
		case c == 0xfeff && i > 0, c == 0x2028, c == 0x2029, c == 0xfffe, c == 0xffff:
			r.at(line, column, "", fmt.Sprintf("the file holds the character %U, which is invisible; write it as an escape in double quotes", c))
			return false
		}
		column++
		if c == '\n' {
			line, column = line+1, 1
		}
		i += n
	}
	return true
}

// noDirective refuses directives, which come before everything else.
func (r *reader) noDirective(data []byte) bool {
	line := 0
	for text := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		line++
		switch text = bytes.TrimSpace(text); {
		case len(text) == 0 || text[0] == '#':
			continue
		case text[0] == '%':
			r.at(line, 1, "", "directives are not part of the policy language")
			return false
		}
		return true
	}
	return true
}

func (r *reader) syntax(err error) {
	if errors.Is(err, io.EOF) {
		r.at(1, 1, "", "the file is empty; a policy starts with version: 1")
		return
	}
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		msg := e.Message
		if e.ContextMsg != "" {
			msg += " " + e.ContextMsg
		}
		r.at(max(e.Mark.Line, 1), max(e.Mark.Column, 1), "", "not YAML: "+msg)
		return
	}
	r.at(1, 1, "", "not YAML: "+err.Error())
}

// plain refuses anchors, aliases, merge keys, tags and deep nesting.
func (r *reader) plain(n *yaml.Node, depth int) bool {
	ok := true
	refuse := func(n *yaml.Node, msg string) {
		r.at(n.Line, n.Column, "", msg)
		ok = false
	}
	switch {
	case depth > maxDepth:
		refuse(n, fmt.Sprintf("nested deeper than %d levels", maxDepth))
		return false
	case n.Kind == yaml.AliasNode:
		refuse(n, "aliases are not part of the policy language; write the value out")
		return false
	case n.Anchor != "":
		refuse(n, "anchors are not part of the policy language; write the value out")
	case n.Style&yaml.TaggedStyle != 0:
		refuse(n, "tags are not part of the policy language")
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Kind == yaml.ScalarNode && c.Value == "<<" && isPlain(c) {
			refuse(c, "merge keys are not part of the policy language; write the keys out")
			continue
		}
		if !r.plain(c, depth+1) {
			ok = false
		}
	}
	return ok
}

// isPlain reports whether a scalar was written without quotes.
func isPlain(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}
