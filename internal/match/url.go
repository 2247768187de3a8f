package match

import (
	"errors"
	"fmt"
	"strings"
)

// Reasons why a request's path has no canonical form.
var (
	ErrNotAbsolute  = errors.New("the path does not start with /")
	ErrTooLong      = errors.New("the path is longer than 4096 bytes")
	ErrByte         = errors.New("the path holds a control character, a space, a fragment, a backslash or a byte that is not ASCII")
	ErrEscape       = errors.New("the path holds a percent sign without two hexadecimal digits")
	ErrEncodedSlash = errors.New("the path holds an encoded slash (%2F), which allow_encoded_slash does not permit here")
	ErrAboveRoot    = errors.New("the path leads above the root")
)

// NewURLPath compiles a pattern for the paths of requests. The pattern must be
// in canonical form, for only canonical paths are ever matched.
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

// URLPath returns the canonical form of a request's path, without its query:
// the form that is matched and forwarded. Escapes of unreserved characters are
// resolved and the others written in upper case, parameters (";x") cut off,
// empty and dot segments resolved. An encoded slash, where it is permitted,
// stays what it is within its segment.
func URLPath(raw string, encodedSlash bool) (string, error) {
	if len(raw) > MaxPattern {
		return "", ErrTooLong
	}
	if raw == "" || raw[0] != '/' {
		return "", ErrNotAbsolute
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
				return "", ErrAboveRoot
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

// urlSegment decodes one segment. Parameters are cut before dots are looked at,
// so that "..;x" is not a name.
func urlSegment(s string, encodedSlash bool) (string, error) {
	var b strings.Builder
	cut := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '#' || c == '?' || c == '\\' {
			return "", ErrByte
		}
		escaped := false
		if c == '%' {
			v, ok := unhex(s, i+1)
			if !ok {
				return "", ErrEscape
			}
			i += 2
			c, escaped = v, true
		}
		switch {
		case escaped && c == '/' && !encodedSlash:
			return "", ErrEncodedSlash
		case escaped && (c < ' ' || c == 0x7f):
			return "", ErrByte
		case !escaped && c == ';':
			cut = true
		case cut:
		case escaped && !unreserved(c):
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
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
