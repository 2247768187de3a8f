package secretfiles

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// fold returns the form under which a file system that ignores case or invisible
// characters might find a name: a rule must also match ".GIT", "ſ" for "s", and a
// name with a zero-width joiner.
func fold(s string) string {
	ascii := true
	upper := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf {
			ascii = false
			break
		}
		upper = upper || ('A' <= c && c <= 'Z')
	}
	if ascii {
		if upper {
			s = strings.ToLower(s)
		}
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		least := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			least = min(least, o)
		}
		return unicode.ToLower(least)
	}, s)
}

// foldAll folds every component; most paths need no copy.
func foldAll(parts []string) []string {
	out := parts
	for i, p := range parts {
		f := fold(p)
		if f == p {
			continue
		}
		if &out[0] == &parts[0] {
			out = append([]string(nil), parts...)
		}
		out[i] = f
	}
	return out
}
