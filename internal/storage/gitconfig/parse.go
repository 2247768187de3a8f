// Package gitconfig reads the configuration of a git repository that is not
// trusted, and writes it again with only those settings that make git neither run
// a program nor read another file.
//
// The package is pure. It knows nothing of cells or of where files are kept.
package gitconfig

import (
	"errors"
	"strings"
)

// Setting is one line of a configuration: Section.Key, or
// Section.Subsection.Key.
type Setting struct {
	Section, Subsection, Key string // Section and Key in lower case
	Value                    string
	// Bare means that the line has no value: it stands for true.
	Bare bool
}

// Name returns the name of the setting as git writes it.
func (s Setting) Name() string {
	if s.Subsection == "" {
		return s.Section + "." + s.Key
	}
	return s.Section + "." + s.Subsection + "." + s.Key
}

// errSyntax means that a text is not a configuration that git would accept.
var errSyntax = errors.New("not a git configuration")

// Parse reads a configuration.
func Parse(text string) ([]Setting, error) {
	p := &parser{rest: strings.TrimPrefix(text, "\ufeff")}
	var list []Setting
	var at Setting
	for {
		p.skipBlank()
		switch c := p.peek(); {
		case c == 0 && p.rest == "":
			return list, nil
		case c == '[':
			if err := p.header(&at); err != nil {
				return nil, err
			}
		case isLetter(c) && at.Section != "":
			s := at
			if err := p.setting(&s); err != nil {
				return nil, err
			}
			list = append(list, s)
		default:
			return nil, errSyntax
		}
	}
}

type parser struct{ rest string }

func (p *parser) peek() byte {
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

func (p *parser) next() byte {
	c := p.peek()
	if p.rest != "" {
		p.rest = p.rest[1:]
	}
	// Git treats the two as one line end.
	if c == '\r' && p.peek() == '\n' {
		p.rest = p.rest[1:]
		return '\n'
	}
	return c
}

// skipBlank skips white space and comments.
func (p *parser) skipBlank() {
	for p.rest != "" {
		switch p.rest[0] {
		case ' ', '\t', '\n', '\r', '\v', '\f':
			p.rest = p.rest[1:]
		case '#', ';':
			_, p.rest, _ = strings.Cut(p.rest, "\n")
		default:
			return
		}
	}
}

// header reads the head of a section: [a], [a.b] or [a "b"].
func (p *parser) header(s *Setting) error {
	p.next()
	name := p.word(func(c byte) bool { return isName(c) || c == '.' })
	*s = Setting{Section: strings.ToLower(name)}
	if section, sub, dotted := strings.Cut(s.Section, "."); dotted {
		s.Section, s.Subsection = section, sub
	}
	if c := p.peek(); c == ' ' || c == '\t' {
		p.rest = strings.TrimLeft(p.rest, " \t")
		if p.next() != '"' {
			return errSyntax
		}
		sub, err := p.subsection()
		if err != nil {
			return err
		}
		s.Subsection = sub
	}
	if p.next() != ']' || s.Section == "" {
		return errSyntax
	}
	return nil
}

// subsection reads up to the closing quotation mark.
func (p *parser) subsection() (string, error) {
	var b strings.Builder
	for p.rest != "" {
		c := p.next()
		switch c {
		case '"':
			return b.String(), nil
		case '\n', 0:
			return "", errSyntax
		case '\\':
			if c = p.next(); c == '\n' || c == 0 {
				return "", errSyntax
			}
		}
		b.WriteByte(c)
	}
	return "", errSyntax
}

// setting reads a key and its value.
func (p *parser) setting(s *Setting) error {
	s.Key = strings.ToLower(p.word(isName))
	p.rest = strings.TrimLeft(p.rest, " \t")
	switch p.peek() {
	case '=':
		p.next()
	case 0, '\n', '\r', '#', ';':
		s.Bare = true
		return nil
	default:
		return errSyntax
	}
	var err error
	s.Value, err = p.value()
	return err
}

// value reads the rest of a line, with the lines that continue it.
func (p *parser) value() (string, error) {
	p.rest = strings.TrimLeft(p.rest, " \t")
	var b strings.Builder
	quoted, keep := false, 0 // keep is the length up to the last character that is no space
	for p.rest != "" {
		c := p.next()
		switch {
		case c == '\n':
			if quoted {
				return "", errSyntax
			}
			return b.String()[:keep], nil
		case c == 0:
			return "", errSyntax
		case !quoted && (c == '#' || c == ';'):
			_, p.rest, _ = strings.Cut(p.rest, "\n")
			return b.String()[:keep], nil
		case c == '"':
			quoted = !quoted
			keep = b.Len()
			continue
		case c == '\\':
			var ok bool
			if c, ok = unescape(p.next()); !ok {
				return "", errSyntax
			}
			if c == 0 { // the value goes on in the next line
				continue
			}
			b.WriteByte(c)
			keep = b.Len()
			continue
		}
		b.WriteByte(c)
		if quoted || c != ' ' && c != '\t' {
			keep = b.Len()
		}
	}
	if quoted {
		return "", errSyntax
	}
	return b.String()[:keep], nil
}

// unescape returns the character that follows a backslash; 0 for a line end.
func unescape(c byte) (byte, bool) {
	switch c {
	case '\n':
		return 0, true
	case 'n':
		return '\n', true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	case '"', '\\':
		return c, true
	}
	return 0, false
}

func (p *parser) word(in func(byte) bool) string {
	n := 0
	for n < len(p.rest) && in(p.rest[n]) {
		n++
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isName(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' || c == '-' }
