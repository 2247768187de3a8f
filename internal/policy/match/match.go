// Package match has one matching rule for each kind of name: hosts, paths,
// binaries, texts (query values, tools, operations) and methods.
//
// A pattern is compiled once and is then a value that never changes. Validating,
// enforcing and explaining a policy all use this package, so they cannot
// disagree. A pattern that could be read in two ways, or that uses
// a wildcard of some other glob language, is an error and never a literal: a
// deny rule that silently matches nothing is worse than none.
//
// The package knows patterns and strings. It must not know what a policy is,
// where names come from, or what follows from a match. It reads nothing.
package match

import (
	"errors"
	"fmt"
	"strings"
)

// MaxPattern bounds the length of a pattern, and of a path that is matched.
const MaxPattern = 4096

// foreign are the wildcards of other glob languages. They have no meaning here,
// and taking them literally would change what a rule means.
const foreign = "?[]{}\\"

func checkForeign(p string) error {
	if i := strings.IndexAny(p, foreign); i >= 0 {
		return fmt.Errorf("%q is not a wildcard here and cannot be matched literally; only * and ** are wildcards", p[i])
	}
	return nil
}

func checkLength(p string) error {
	if len(p) > MaxPattern {
		return fmt.Errorf("longer than %d bytes", MaxPattern)
	}
	return nil
}

func checkControl(p string) error {
	for i := range len(p) {
		if p[i] < ' ' || p[i] == 0x7f {
			return errors.New("holds a control character")
		}
	}
	return nil
}

// matchWild matches s against a pattern that was split at its stars. Between the first
// and the last part each part is matched at its leftmost place: that leaves the
// most for the parts after it, so nothing is tried twice.
func matchWild(parts []string, s string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return s == first
	}
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// Text matches a value without structure: "*" stands for any characters, also none
// and also slashes; every other character matches itself, with its case. The zero
// Text is no pattern; it matches only the empty value.
type Text struct {
	src   string
	parts []string
}

// NewText compiles a pattern for query values, tools and operation names.
func NewText(p string) (Text, error) {
	for _, check := range []func(string) error{checkLength, checkControl, checkForeign} {
		if err := check(p); err != nil {
			return Text{}, err
		}
	}
	for strings.Contains(p, "**") {
		p = strings.ReplaceAll(p, "**", "*")
	}
	return Text{src: p, parts: strings.Split(p, "*")}, nil
}

// Match reports whether s matches.
func (t Text) Match(s string) bool {
	if t.parts == nil {
		return s == ""
	}
	return matchWild(t.parts, s)
}

// String returns the pattern; two patterns with one text mean the same.
func (t Text) String() string { return t.src }

// Exact reports whether the pattern has no wildcard.
func (t Text) Exact() bool { return len(t.parts) < 2 }

// IsZero reports whether there is no pattern.
func (t Text) IsZero() bool { return t.parts == nil }

// Equal reports whether two patterns are the same.
func (t Text) Equal(u Text) bool { return t.src == u.src && t.IsZero() == u.IsZero() }

// Method matches an HTTP method: "*" is any, and GET also covers HEAD, which
// requests the same without the body. Methods are case-sensitive, as in HTTP. The
// zero Method is no pattern and matches nothing.
type Method struct{ src string }

// NewMethod compiles a method. The methods that HTTP defines may be written in any
// case.
func NewMethod(p string) (Method, error) {
	if p == "*" {
		return Method{p}, nil
	}
	if p == "" || len(p) > 64 {
		return Method{}, errors.New("a method has 1 to 64 characters")
	}
	for i := range len(p) {
		if !tokenChar(p[i]) || p[i] == '*' {
			return Method{}, fmt.Errorf("%q cannot be part of a method; a method is a name or *", p[i])
		}
	}
	if up := strings.ToUpper(p); standardMethod(up) {
		p = up
	}
	return Method{p}, nil
}

// Match reports whether a request with method m matches.
func (m Method) Match(method string) bool {
	switch m.src {
	case "":
		return false
	case "*":
		return true
	case "GET":
		return method == "GET" || method == "HEAD"
	}
	return m.src == method
}

// String returns the method.
func (m Method) String() string { return m.src }

// IsZero reports whether there is no pattern.
func (m Method) IsZero() bool { return m.src == "" }

// Equal reports whether two patterns are the same.
func (m Method) Equal(o Method) bool { return m.src == o.src }

// CheckMethod returns why a request with this method must be refused before any
// rule is evaluated: a server that ignores case would serve "get" where a rule
// about GET does not match it.
func CheckMethod(method string) error {
	if method == "" || len(method) > 64 {
		return errors.New("a method has 1 to 64 characters")
	}
	for i := range len(method) {
		if !tokenChar(method[i]) {
			return fmt.Errorf("%q cannot be part of a method", method[i])
		}
	}
	if up := strings.ToUpper(method); up != method && standardMethod(up) {
		return fmt.Errorf("the method is spelled %s", up)
	}
	return nil
}

func standardMethod(m string) bool {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "WEBSOCKET_TEXT":
		return true
	}
	return false
}

// tokenChar is RFC 9110's tchar.
func tokenChar(c byte) bool {
	return alphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
