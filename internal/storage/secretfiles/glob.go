package secretfiles

import (
	"path"
	"strings"
)

// glob is one component of a pattern, compiled. Names without "?" and brackets are
// compared in time that follows the length of the name.
type glob struct {
	text string
	deep bool // "**", which stands for any number of components
	// pieces is the text between the stars, without backslashes. It is nil if the
	// component has a "?" or a bracket.
	pieces []string
	stars  int
}

func newGlob(text string) (glob, error) {
	if text == "**" {
		return glob{text: text, deep: true}, nil
	}
	text = caret(text)
	if _, err := path.Match(text, ""); err != nil {
		return glob{}, err
	}
	g := glob{text: text}
	plain := true
	var piece []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '*':
			g.stars++
			g.pieces = append(g.pieces, string(piece))
			piece = piece[:0]
		case '?', '[':
			plain = false
		case '\\':
			i++
			piece = append(piece, text[i])
		default:
			piece = append(piece, c)
		}
	}
	g.pieces = append(g.pieces, string(piece))
	if !plain {
		g.pieces = nil
	}
	return g, nil
}

// caret writes git's "[!x]" as "[^x]".
func caret(c string) string {
	b := []byte(c)
	for i := 0; i+1 < len(b); i++ {
		switch {
		case b[i] == '\\':
			i++
		case b[i] == '[' && b[i+1] == '!':
			b[i+1] = '^'
		}
	}
	return string(b)
}

// match compares one name.
func (g *glob) match(name string) bool {
	if g.pieces == nil {
		ok, err := path.Match(g.text, name)
		return ok && err == nil
	}
	first, last := g.pieces[0], g.pieces[len(g.pieces)-1]
	if len(g.pieces) == 1 {
		return name == first
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	// Each piece is matched at its leftmost place, which leaves the most for those
	// after it: nothing is tried twice.
	name = name[len(first) : len(name)-len(last)]
	for _, piece := range g.pieces[1 : len(g.pieces)-1] {
		i := strings.Index(name, piece)
		if i < 0 {
			return false
		}
		name = name[i+len(piece):]
	}
	return true
}

// literal returns the kind of the component, and its fixed part.
func (g *glob) literal() (literal, string) {
	switch p := g.pieces; {
	case len(p) == 1:
		return exact, p[0]
	case len(p) == 2 && p[0] == "" && p[1] != "":
		return suffix, p[1]
	case len(p) == 2 && p[0] != "" && p[1] == "":
		return prefix, p[0]
	}
	return globbed, ""
}

// The work of patterns: about how long they take for one name, where 1 is the search
// for one piece of text in it.
const (
	workByte = 32 // a byte beside a "?" or a bracket is compared at each place of a name
	workDeep = 32 // a component beside two "**" is compared with each of a path
	maxWork  = 1 << 17
)

// work returns what the comparison with the pattern takes in the worst case.
func (p *pattern) work() int {
	sum, deep := 0, 0
	for i := range p.parts {
		switch g := &p.parts[i]; {
		case g.deep:
			deep++
		case g.pieces != nil:
			sum += g.stars
		case g.stars > 0:
			sum += workByte * len(g.text)
		default:
			sum += len(g.text)
		}
	}
	if deep > 1 {
		sum += workDeep * len(p.parts)
	}
	return sum
}

func (l *list) work() int {
	sum := 0
	for i := range l.patterns {
		sum += l.patterns[i].work()
	}
	return sum
}
