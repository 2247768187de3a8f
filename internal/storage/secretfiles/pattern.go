// Package secretfiles decides by name what is not copied between a source directory
// and a cell: secrets that are never imported, the part of a change that a user
// did not select, and control files, which apply holds back.
//
// All patterns are gitignore-style. The package reads nothing but git repositories,
// and knows nothing about cells, stores or how a tree is imported.
package secretfiles

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// ErrPattern is wrapped by every error about a pattern that cannot be used.
var ErrPattern = errors.New("bad pattern")

// maxPattern and maxStars bound what one pattern can cost.
const (
	maxPattern = 4096
	maxStars   = 4
)

// pattern is one parsed gitignore pattern.
type pattern struct {
	text    string
	negated bool
	dirOnly bool
	// parts are the components. An unanchored pattern has one, and is compared
	// with the last component of a path alone.
	parts    []glob
	anchored bool
	kind     literal
	word     string // the fixed part of the last component, see kind
}

// literal is a way to compare a component without a glob.
type literal uint8

const (
	globbed literal = iota
	exact           // name
	prefix          // name*
	suffix          // *name
)

// parse parses one pattern. It refuses a pattern that git would silently never
// match.
func parse(text string) (pattern, error) {
	bad := func(why string) error {
		return fmt.Errorf("%w %s: %s", ErrPattern, quote.Path(text), why)
	}
	p := pattern{text: text}
	s := text
	if strings.HasPrefix(s, "!") {
		p.negated = true
		s = s[1:]
	}
	if strings.HasSuffix(s, "/") {
		p.dirOnly = true
		s = strings.TrimRight(s, "/")
	}
	switch {
	case s == "":
		return pattern{}, bad("it is empty")
	case len(s) > maxPattern:
		return pattern{}, bad("it is too long")
	case strings.ContainsAny(s, "\x00\n"):
		return pattern{}, bad("it has a NUL or a line end")
	}
	p.anchored = strings.Contains(s, "/")
	stars := 0
	for c := range strings.SplitSeq(strings.TrimPrefix(s, "/"), "/") {
		switch {
		case c == "" || c == "." || c == "..":
			return pattern{}, bad("it has an empty component, \".\" or \"..\"")
		case c == "**":
			if n := len(p.parts); n > 0 && p.parts[n-1].deep {
				continue
			}
			stars++
		case strings.Contains(c, "[[:"):
			return pattern{}, bad("named character classes are not supported")
		}
		g, err := newGlob(c)
		if err != nil {
			return pattern{}, bad("unbalanced bracket or trailing backslash")
		}
		p.parts = append(p.parts, g)
	}
	if stars > maxStars {
		return pattern{}, bad("it has too many \"**\"")
	}
	if p.anchored && len(p.parts) == 2 && p.parts[0].deep && !p.parts[1].deep {
		p.parts, p.anchored = p.parts[1:], false
	}
	p.kind, p.word = p.parts[len(p.parts)-1].literal()
	return p, nil
}

// match compares the pattern with one path, given as its components. The caller
// handles the directories above it.
func (p *pattern) match(parts []string, isDir bool) bool {
	if p.dirOnly && !isDir {
		return false
	}
	name := parts[len(parts)-1]
	switch p.kind {
	case exact:
		if name != p.word {
			return false
		}
	case prefix:
		if !strings.HasPrefix(name, p.word) {
			return false
		}
	case suffix:
		if !strings.HasSuffix(name, p.word) {
			return false
		}
	case globbed:
		if !p.anchored {
			return p.parts[0].match(name)
		}
	}
	return !p.anchored || matchParts(p.parts, parts)
}

// matchParts implements gitignore's path semantics: "**" stands for any number of
// directories, at the end for everything below.
func matchParts(pat []glob, parts []string) bool {
	// Where a component does not match, the last "**" takes one more. An earlier one
	// never needs to: the last one can take the same components.
	i, back, taken := 0, -1, 0
	for j := 0; j < len(parts); {
		switch {
		case i < len(pat) && pat[i].deep:
			rest := pat[i+1:]
			if len(rest) == 0 {
				return true
			}
			// The last "**" can only stand for all but as many components as the
			// rest of the pattern has: a path may have very many.
			if !slices.ContainsFunc(rest, func(g glob) bool { return g.deep }) {
				skip := len(parts) - len(rest)
				return skip >= j && matchParts(rest, parts[skip:])
			}
			back, taken = i, j
			i++
		case i < len(pat) && pat[i].match(parts[j]):
			i++
			j++
		case back >= 0:
			taken++
			i, j = back+1, taken
		default:
			return false
		}
	}
	return i == len(pat)
}

// list is an ordered set of patterns, of which the last that matches decides.
type list struct {
	patterns []pattern
	fold     bool // patterns are lower case; names are folded before comparing
	// Most names of a tree match nothing. Their first and last byte show it.
	first, last [256]bool
	always      bool
	// words finds the unanchored literal patterns; rest holds the others.
	words map[string]int
	rest  []int
}

func newList(texts []string, fold bool) (*list, error) {
	l := &list{fold: fold, words: map[string]int{}}
	for _, t := range texts {
		p, err := parse(t)
		if err != nil {
			return nil, err
		}
		i := len(l.patterns)
		l.patterns = append(l.patterns, p)
		l.admit(&p)
		if p.kind == exact && !p.anchored && !p.dirOnly {
			l.words[p.word] = i
		} else {
			l.rest = append(l.rest, i)
		}
	}
	return l, nil
}

// admit records the first and last bytes of names that p may match.
func (l *list) admit(p *pattern) {
	switch p.kind {
	case exact, prefix:
		l.open(&l.first, p.word[0])
	case suffix:
		l.open(&l.last, p.word[len(p.word)-1])
	case globbed:
		if c := p.parts[len(p.parts)-1].text[0]; strings.IndexByte(`*?[\`, c) < 0 {
			l.open(&l.first, c)
		} else {
			l.always = true
		}
	}
}

func (l *list) open(t *[256]bool, c byte) {
	t[c] = true
	if !l.fold {
		return
	}
	if 'a' <= c && c <= 'z' {
		t[c-'a'+'A'] = true
	}
	for c := utf8.RuneSelf; c < 256; c++ { // may fold to anything
		t[c] = true
	}
}

// find returns the pattern that decides about exactly this path, or nil.
func (l *list) find(parts []string, isDir bool) *pattern {
	if i := l.index(parts, isDir); i >= 0 {
		return &l.patterns[i]
	}
	return nil
}

func (l *list) index(parts []string, isDir bool) int {
	name := parts[len(parts)-1]
	if name == "" || (!l.always && !l.first[name[0]] && !l.last[name[len(name)-1]]) {
		return -1
	}
	if l.fold {
		parts = foldAll(parts)
		name = parts[len(parts)-1]
	}
	best := -1
	if i, ok := l.words[name]; ok {
		best = i
	}
	for k := len(l.rest) - 1; k >= 0 && l.rest[k] > best; k-- {
		if l.patterns[l.rest[k]].match(parts, isDir) {
			best = l.rest[k]
			break
		}
	}
	return best
}

// anyParent calls try with every parent of name, outermost first, and with name
// itself, until it returns true.
func anyParent(name string, isDir bool, try func(parts []string, isDir bool) bool) {
	if name == "" || name == "." {
		return
	}
	var buf [16]string
	parts := buf[:0]
	for rest, more := name, true; more; {
		var c string
		c, rest, more = strings.Cut(rest, "/")
		parts = append(parts, c)
		if try(parts, isDir || more) {
			return
		}
	}
}
