package policy

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// kind names the type of a node, for messages.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if isPlain(n) {
			if k := plainKind(n.Value); k != "text" {
				return k
			}
		}
		return "the text " + show(n.Value)
	default:
		return "something else"
	}
}

// plainKind returns the type of an unquoted scalar in YAML's core schema.
func plainKind(s string) string {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return "nothing"
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return "a truth value"
	}
	if number(s) {
		return "a number"
	}
	return "text"
}

func number(s string) bool {
	for _, base := range []struct{ prefix, digits string }{{"0o", "01234567"}, {"0x", "0123456789abcdefABCDEF"}} {
		if rest, ok := strings.CutPrefix(s, base.prefix); ok {
			return rest != "" && strings.Trim(rest, base.digits) == ""
		}
	}
	s = unsigned(s)
	switch strings.ToLower(s) {
	case ".inf", ".nan":
		return true
	}
	mantissa, exponent, hasExp := strings.Cut(strings.ToLower(s), "e")
	if hasExp {
		exponent = unsigned(exponent)
		if exponent == "" || strings.Trim(exponent, "0123456789") != "" {
			return false
		}
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	return whole+frac != "" && strings.Trim(whole+frac, "0123456789") == ""
}

func unsigned(s string) string {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		return s[1:]
	}
	return s
}

// plainWord reports whether s needs no quotes in a canonical text and in a
// path.
func plainWord(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if s == "" || len(s) > 128 || strings.Trim(s, letters+"0123456789/._-+") != "" {
		return false
	}
	if strings.Trim(s[:1], letters+"/_") != "" {
		return false
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return false
	}
	return true
}

// nearestKey returns the known key that is most similar to a wrong one.
func nearestKey(key string, known []string) string {
	if len(key) > 64 {
		return ""
	}
	best, least := "", 1+len(key)/3
	for _, k := range known {
		if d := distance(strings.ToLower(key), k); d < least || d == least && best == "" {
			best, least = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions, changes and swaps of neighbours
// that turn a into b.
func distance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
