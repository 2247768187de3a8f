package inspect

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// parameters returns the parameters of a query that have one of the known
// names. It refuses names that some servers take for a known one, and
// duplicates.
func parameters(raw string, known []string) (map[string]string, error) {
	out := map[string]string{}
	if strings.Contains(raw, ";") {
		return nil, refuse("the query of the URL has a semicolon, which some servers take for a separator")
	}
	for pair := range strings.SplitSeq(raw, "&") {
		key, val, _ := strings.Cut(pair, "=")
		key, err := unescape(key)
		if err != nil {
			return nil, err
		}
		if val, err = unescape(val); err != nil {
			return nil, err
		}
		// Some frameworks make lists and objects of "name[]" and "name[x]".
		base, _, _ := strings.Cut(key, "[")
		name := lookalike(base, known)
		if name == "" {
			continue
		}
		if name != key {
			return nil, refuse("the URL has the parameter %s, which some servers take for %s", show(key), show(name))
		}
		if _, twice := out[name]; twice {
			return nil, refuse("the URL has the parameter %s twice", show(name))
		}
		out[name] = val
	}
	return out, nil
}

func unescape(s string) (string, error) {
	out, err := url.QueryUnescape(s)
	if err != nil || !utf8.ValidString(out) {
		return "", refuse("the query of the URL has an invalid escape, or is not UTF-8")
	}
	return out, nil
}
