package match

import (
	"errors"
	"fmt"
	"strings"
)

// maxSegments bounds the segments of a pattern: matching takes time in
// proportion to the path's length times this.
const maxSegments = 64

// Path matches absolute paths, segment by segment: "*" stands for any
// characters within one segment, "**" as a whole segment for any number of
// segments, also none. A segment that is only "*" needs at least one character.
// A slash at the end does not count, in the pattern or in the path: most
// servers serve "/x/" as "/x", and a rule that denies one must not miss the
// other. The zero Path is no pattern and matches nothing.
type Path struct {
	src  string
	segs []segment
}

type segment struct {
	deep  bool
	parts []string
}

func (s segment) match(name string) bool {
	if len(s.parts) == 2 && s.parts[0] == "" && s.parts[1] == "" {
		return name != ""
	}
	return matchWild(s.parts, name)
}

// NewPath compiles a pattern for file paths. "**" alone is short for "/**".
func NewPath(p string) (Path, error) {
	for _, check := range []func(string) error{checkLength, checkControl, checkForeign} {
		if err := check(p); err != nil {
			return Path{}, err
		}
	}
	if p == "**" {
		p = "/**"
	}
	switch {
	case !strings.HasPrefix(p, "/"):
		return Path{}, errors.New("does not start with /")
	case strings.Contains(p, "//"):
		return Path{}, errors.New("has an empty segment (//)")
	}
	names := split(p)
	if len(names) > maxSegments {
		return Path{}, fmt.Errorf("has more than %d segments", maxSegments)
	}
	out := Path{src: "/" + strings.Join(names, "/"), segs: make([]segment, len(names))}
	for i, name := range names {
		switch {
		case name == "." || name == "..":
			return Path{}, fmt.Errorf("has the segment %q", name)
		case name == "**":
			if i > 0 && names[i-1] == "**" {
				return Path{}, errors.New("has ** twice in a row, which means the same as once")
			}
			out.segs[i].deep = true
		case strings.Contains(name, "**"):
			return Path{}, fmt.Errorf("** must be a whole segment, not a part of %q", name)
		default:
			out.segs[i].parts = strings.Split(name, "*")
		}
	}
	return out, nil
}

// split returns the segments of an absolute path.
func split(p string) []string {
	p = strings.TrimSuffix(p[1:], "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// Match reports whether a path matches. A path that is not absolute never does.
func (p Path) Match(path string) bool {
	if p.src == "" || path == "" || path[0] != '/' {
		return false
	}
	return p.matchNames(split(path), segment.match)
}

// matchNames matches the segments of a path, one by one by fits.
func (p Path) matchNames(names []string, fits func(segment, string) bool) bool {
	// Where a segment does not match, the last "**" takes one segment more. An
	// earlier one never needs to: the last one can take the same segments.
	i, back, taken := 0, -1, 0
	for j := 0; j < len(names); {
		switch {
		case i < len(p.segs) && p.segs[i].deep:
			back, taken = i, j
			i++
		case i < len(p.segs) && fits(p.segs[i], names[j]):
			i++
			j++
		case back >= 0:
			taken++
			i, j = back+1, taken
		default:
			return false
		}
	}
	for i < len(p.segs) && p.segs[i].deep {
		i++
	}
	return i == len(p.segs)
}

// String returns the pattern; two patterns with one text mean the same.
func (p Path) String() string { return p.src }

// Any reports whether the pattern matches every absolute path.
func (p Path) Any() bool { return p.src == "/**" }

// Exact reports whether the pattern has no wildcard.
func (p Path) Exact() bool { return !strings.Contains(p.src, "*") }

// IsZero reports whether there is no pattern.
func (p Path) IsZero() bool { return p.src == "" }

// Equal reports whether two patterns are the same.
func (p Path) Equal(o Path) bool { return p.src == o.src }

// NewBinary compiles a pattern for the executable of a process. The rule is
// that of Path; "/**" is any binary, also one that the cell wrote itself.
func NewBinary(p string) (Path, error) {
	if p != "/" && strings.HasSuffix(p, "/") {
		return Path{}, errors.New("ends with a slash; a binary is a file")
	}
	out, err := NewPath(p)
	if err == nil && len(out.segs) == 0 {
		return Path{}, errors.New("is the root directory; a binary is a file")
	}
	return out, err
}

// Specificity orders patterns that match the same path: the one with more
// characters besides wildcards applies.
func (p Path) Specificity() int { return len(p.src) - strings.Count(p.src, "*") }
