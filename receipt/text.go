package receipt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// code shows foreign text as a Markdown code span that it cannot leave. The result
// is one line of visible characters without backticks or pipes, so it can neither
// end the span, the table cell nor the line, nor move a terminal's cursor.
func code(s string) string { return "`" + visible(s) + "`" }

// visible shows plain words as they are. Everything else stands in double quotes,
// with Go's escapes, so that two different texts never look the same.
func visible(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '`' || r == '|' || r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case canDeceive(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case canDeceive(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	b.WriteByte('"')
	return b.String()
}

// codeJSON shows a JSON document in a code span. What code would escape is escaped
// as JSON does, so the text is still the same document.
func codeJSON(doc []byte) string {
	var tight bytes.Buffer
	if !utf8.Valid(doc) || json.Compact(&tight, doc) != nil {
		return code(string(doc))
	}
	var b strings.Builder
	b.WriteByte('`')
	for _, r := range tight.String() {
		if r != '`' && r != '|' && !canDeceive(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	b.WriteByte('`')
	return b.String()
}

// codeValue shows a JSON value: text and lists of text without JSON's quotes.
func codeValue(doc []byte) string {
	var text string
	if json.Unmarshal(doc, &text) == nil && doc[0] == '"' {
		return code(text)
	}
	var list []string
	if json.Unmarshal(doc, &list) == nil && doc[0] == '[' && len(list) > 0 && !bytes.Contains(doc, []byte("null")) {
		return "`" + visibleAll(list) + "`"
	}
	return codeJSON(doc)
}

func visibleAll(list []string) string {
	shown := make([]string, len(list))
	for i, s := range list {
		shown[i] = visible(s)
	}
	return strings.Join(shown, " ")
}

func isPlain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !isAlphanumeric(r) && !strings.ContainsRune("_-./:=@%+,", r)
	})
}

// canDeceive finds characters that are invisible, reorder their neighbours or take
// more than their own place: controls, formats, odd spaces, unassigned and private
// ones, fillers that are letters by name only, and marks that draw on others.
func canDeceive(r rune) bool {
	const braille = '\u2800' // a symbol with nothing in it
	return r != ' ' && !unicode.IsPrint(r) ||
		r == braille ||
		unicode.In(r, unicode.Mn, unicode.Me, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
