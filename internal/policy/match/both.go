package match

import (
	"errors"
	"slices"
	"strings"
)

// errUnclear is returned where what two patterns match together cannot be written
// as one pattern.
var errUnclear = errors.New("what both patterns match is not one pattern")

// anyText stands for what a star of one pattern matches when it is matched by another:
// no pattern holds the byte, so that only a star can match it.
const anyText = "\x00"

// symbolic returns a pattern as a text that only a wider pattern matches.
func symbolic(parts []string) string { return strings.Join(parts, anyText) }

// apart reports whether no text matches both patterns, by their beginnings and ends.
// It may miss that.
func apart(p, q []string) bool {
	if len(p) == 1 || len(q) == 1 {
		exact, other := p, q
		if len(p) != 1 {
			exact, other = q, p
		}
		return !matchWild(other, exact[0])
	}
	begin, start := p[0], q[0]
	end, tail := p[len(p)-1], q[len(q)-1]
	return !strings.HasPrefix(begin, start) && !strings.HasPrefix(start, begin) ||
		!strings.HasSuffix(end, tail) && !strings.HasSuffix(tail, end)
}

// Both returns a pattern that matches exactly what both patterns match. It reports
// false if that is nothing, and fails with errUnclear if there is no such pattern.
func (t Text) Both(u Text) (Text, bool, error) {
	switch {
	case t.parts == nil || u.parts == nil:
		both := t.Match("") && u.Match("")
		return Text{}, both, nil
	case u.Match(symbolic(t.parts)):
		return t, true, nil
	case t.Match(symbolic(u.parts)):
		return u, true, nil
	case apart(t.parts, u.parts):
		return Text{}, false, nil
	}
	return Text{}, false, errUnclear
}

// Both is as for Text.
func (m Method) Both(o Method) (Method, bool, error) {
	switch {
	case m.src == "" || o.src == "":
	case m.src == o.src || o.src == "*", o.src == "GET" && m.src == "HEAD":
		return m, true, nil
	case m.src == "*", m.src == "GET" && o.src == "HEAD":
		return o, true, nil
	}
	return Method{}, false, nil
}

// Both is as for Text.
func (h Host) Both(o Host) (Host, bool, error) {
	if h.addr.IsValid() || o.addr.IsValid() || h.labels == nil || o.labels == nil {
		return h, h.addr.IsValid() && h.addr == o.addr, nil
	}
	// The longer one, or else the one of a fixed length, decides how many labels
	// there are.
	if len(h.labels) < len(o.labels) || len(h.labels) == len(o.labels) && h.deep && !o.deep {
		h, o = o, h
	}
	more := len(h.labels) - len(o.labels)
	if more == 0 && h.deep != o.deep || more > 0 && !o.deep {
		return Host{}, false, nil
	}
	var names []string
	if h.deep {
		names = append(names, "**")
	}
	for i, label := range h.labels {
		if i < more {
			names = append(names, strings.Join(label, "*"))
			continue
		}
		other := o.labels[i-more]
		switch {
		case matchWild(other, symbolic(label)):
		case matchWild(label, symbolic(other)):
			label = other
		case apart(label, other):
			return Host{}, false, nil
		default:
			return Host{}, false, errUnclear
		}
		names = append(names, strings.Join(label, "*"))
	}
	both, err := NewHost(strings.Join(names, "."))
	if err != nil {
		return Host{}, false, errUnclear
	}
	return both, true, nil
}

// Both is as for Text.
func (p Path) Both(o Path) (Path, bool, error) {
	switch {
	case p.src == "" || o.src == "":
		return Path{}, false, nil
	case p.isWithin(o):
		return p, true, nil
	case o.isWithin(p):
		return o, true, nil
	case p.ending() && o.ending():
		return p.merge(o)
	case p.apart(o):
		return Path{}, false, nil
	}
	return Path{}, false, errUnclear
}

// anyDepth stands for what a "**" of one pattern matches; see anyText.
const anyDepth = "\x01"

// isWithin reports whether the other pattern matches everything that p matches. It may
// miss that.
func (p Path) isWithin(o Path) bool {
	names := make([]string, len(p.segs))
	for i, s := range p.segs {
		names[i] = anyDepth
		if !s.deep {
			names[i] = symbolic(s.parts)
		}
	}
	return o.matchNames(names, func(s segment, name string) bool { return name != anyDepth && s.match(name) })
}

// ending reports whether "**" can only be the last segment.
func (p Path) ending() bool {
	at := slices.IndexFunc(p.segs, func(s segment) bool { return s.deep })
	return at < 0 || at == len(p.segs)-1
}

func (p Path) deep() bool { return len(p.segs) > 0 && p.segs[len(p.segs)-1].deep }

// merge is Both for patterns that are ending.
func (p Path) merge(o Path) (Path, bool, error) {
	left, right := p.segs, o.segs
	if p.deep() {
		left = left[:len(left)-1]
	}
	if o.deep() {
		right = right[:len(right)-1]
	}
	if len(left) > len(right) && !o.deep() || len(right) > len(left) && !p.deep() {
		return Path{}, false, nil
	}
	if len(left) < len(right) {
		left, right = right, left
	}
	out := ""
	for i, s := range left {
		if i < len(right) {
			var some bool
			var err error
			if s, some, err = s.both(right[i]); err != nil || !some {
				return Path{}, false, err
			}
		}
		out += "/" + strings.Join(s.parts, "*")
	}
	if p.deep() && o.deep() {
		out += "/**"
	}
	both, err := NewPath(out)
	if err != nil {
		return Path{}, false, errUnclear
	}
	return both, true, nil
}

// both is Both for segments that are not "**".
func (s segment) both(o segment) (segment, bool, error) {
	switch {
	case o.match(symbolic(s.parts)):
		return s, true, nil
	case s.match(symbolic(o.parts)):
		return o, true, nil
	case apart(s.parts, o.parts):
		return segment{}, false, nil
	}
	return segment{}, false, errUnclear
}

// apart reports whether no path matches both patterns, by their segments before the
// first and after the last "**". It may miss that.
func (p Path) apart(o Path) bool {
	differ := func(at func(segs []segment, i int) segment) bool {
		for i := range min(len(p.segs), len(o.segs)) {
			a, b := at(p.segs, i), at(o.segs, i)
			if a.deep || b.deep {
				return false
			}
			if _, some, err := a.both(b); err == nil && !some {
				return true
			}
		}
		return false
	}
	return differ(func(segs []segment, i int) segment { return segs[i] }) ||
		differ(func(segs []segment, i int) segment { return segs[len(segs)-1-i] })
}
