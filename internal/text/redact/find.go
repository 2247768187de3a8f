package redact

import "slices"

// Find returns the parts of a text that have the form of a private key or of a
// well-known token.
func Find(text []byte) []string {
	s := string(text)
	if !shape.may(s) {
		return nil
	}
	found := shape.get().FindAllString(s, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// Has reports whether Find finds anything in a text.
func Has(text string) bool { return len(Find([]byte(text))) > 0 }

// Text returns a text with everything that looks like a secret replaced.
func Text(s string) string { return text(s) }
