package match

import (
	"errors"
	"fmt"
	"strings"
)

// Reasons why a request's path has no canonical form.
var (
	errNotAbsolute  = errors.New("the path does not start with /")
	errTooLong      = errors.New("the path is longer than 4096 bytes")
	errByte         = errors.New("the path holds a control character, a space, a fragment, a backslash or a byte that is not ASCII")
	errEscape       = errors.New("the path holds a percent sign without two hexadecimal digits")
	ErrEncodedSlash = errors.New("the path holds an encoded slash or backslash (%2F, %5C), which allow_encoded_slash does not permit here")
	ErrEncodedDots  = errors.New("the path holds a dot segment beside an encoded slash or backslash")
	errEncodedTwice = errors.New("the path holds a dot, a slash, a backslash or a control character that is encoded twice")
	errOverlong     = errors.New("the path holds an overlong form of UTF-8")
	errAboveRoot    = errors.New("the path leads above the root")
)

// NewURLPath compiles a pattern for the paths of requests. The pattern must be in
// canonical form, because only canonical paths are matched.
func NewURLPath(p string, encodedSlash bool) (Path, error) {
	out, err := NewPath(p)
	if err != nil {
		return Path{}, err
	}
	canon, err := URLPath(out.src, encodedSlash)
	if err != nil {
		return Path{}, err
	}
	if canon != out.src {
		return Path{}, fmt.Errorf("no request has this path: it would arrive as %s", canon)
	}
	return out, nil
}

// URLPath returns the canonical form of a request's path, without its query: the
// form that is matched and forwarded. Escapes of unreserved characters are
// resolved and the others written in upper case, parameters (";x") cut off, empty
// and dot segments resolved. An encoded slash or backslash, where it is permitted,
// stays encoded in its segment. A path that becomes another one when it is decoded
// again, or by a decoder that accepts overlong UTF-8, has no canonical form.
func URLPath(raw string, encodedSlash bool) (string, error) {
	if len(raw) > MaxPattern {
		return "", errTooLong
	}
	if raw == "" || raw[0] != '/' {
		return "", errNotAbsolute
	}
	var out []string
	slash := false
	for part := range strings.SplitSeq(raw[1:], "/") {
		seg, err := urlSegment(part, encodedSlash)
		if err != nil {
			return "", err
		}
		slash = false
		switch seg {
		case "", ".":
			slash = true
		case "..":
			if len(out) == 0 {
				return "", errAboveRoot
			}
			out, slash = out[:len(out)-1], true
		default:
			out = append(out, seg)
		}
	}
	path := "/" + strings.Join(out, "/")
	if slash && len(out) > 0 {
		path += "/"
	}
	return path, nil
}

// urlSegment decodes one segment. Parameters are cut off before dots are resolved,
// so that "..;x" does not count as a name.
func urlSegment(s string, encodedSlash bool) (string, error) {
	var b, plain strings.Builder
	cut := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '#' || c == '?' || c == '\\' {
			return "", errByte
		}
		escaped := false
		if c == '%' {
			v, ok := unhex(s, i+1)
			if !ok {
				return "", errEscape
			}
			i += 2
			c, escaped = v, true
		}
		plain.WriteByte(c)
		switch {
		case escaped && (c == '/' || c == '\\') && !encodedSlash:
			return "", ErrEncodedSlash
		case escaped && (c < ' ' || c == 0x7f):
			return "", errByte
		case !escaped && c == ';':
			cut = true
		case cut:
		case escaped && !unreserved(c):
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	if b.Len() == plain.Len() && !cut {
		return b.String(), nil // without escapes
	}
	if encodedSlash && dotted(plain.String()) {
		return "", ErrEncodedDots
	}
	return b.String(), checkDecoded(plain.String())
}

// dotted reports whether a decoded segment holds separators, and a dot segment between
// them: a server that decodes them goes to another directory.
func dotted(s string) bool {
	if !strings.ContainsAny(s, `/\`) {
		return false
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(s, `\`, "/"), "/") {
		if part, _, _ = strings.Cut(part, ";"); part == "." || part == ".." {
			return true
		}
	}
	return false
}

// maxEncoded is the number of times that a character may be encoded.
const maxEncoded = 4

// checkDecoded refuses a path that servers that decode again, or loosely, could
// read as another one.
func checkDecoded(s string) error {
	if overlong(s) {
		return errOverlong
	}
	for range maxEncoded {
		again, special := decode(s)
		switch {
		case special:
			return errEncodedTwice
		case overlong(again):
			return errOverlong
		case again == s:
			return nil
		}
		s = again
	}
	return errEncodedTwice
}

// Decoded returns the canonical form of the path that a server reads in a canonical one
// when it decodes once more what was encoded again; "" if nothing was. Repeated, it ends.
func Decoded(path string) string {
	if !strings.Contains(path, "%25") {
		return ""
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		b.WriteByte(path[i])
		if _, ok := unhex(path, i+3); ok && strings.HasPrefix(path[i:], "%25") {
			i += 2
		}
	}
	again, err := URLPath(b.String(), true)
	if err != nil || again == path {
		return ""
	}
	return again
}

// decode resolves the escapes of a text, and reports whether a dot, a separator
// or a control character was among them.
func decode(s string) (out string, special bool) {
	if !strings.Contains(s, "%") {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if v, ok := unhex(s, i+1); c == '%' && ok {
			special = special || v == '.' || v == '/' || v == '\\' || v < ' ' || v == 0x7f
			c = v
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String(), special
}

// overlong reports whether a text has a character of UTF-8 in more bytes than it
// needs, or the first byte of one. Bytes that are not UTF-8 at all do not count:
// they cannot be read as another character.
func overlong(s string) bool {
	for i := range len(s) {
		var next byte
		if i+1 < len(s) {
			next = s[i+1]
		}
		switch c := s[i]; {
		case c == 0xc0, c == 0xc1, c >= 0xf5,
			c == 0xe0 && next >= 0x80 && next < 0xa0,
			c == 0xf0 && next >= 0x80 && next < 0x90:
			return true
		}
	}
	return false
}

func unhex(s string, i int) (byte, bool) {
	if i+2 > len(s) {
		return 0, false
	}
	var v byte
	for _, c := range []byte(s[i : i+2]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | c
	}
	return v, true
}

func unreserved(c byte) bool {
	return alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~'
}
