// Package quote makes untrusted text safe to print.
//
// File names, arguments, reasons and file contents come from commands that were
// not reviewed. Printed as they are, they could move the cursor, reverse the
// reading direction, hide characters or forge a line. Everything that a person
// will read goes through this package first. The package knows nothing about
// where the text comes from or where it is printed.
package quote

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Path returns a file name for people: unchanged when every character of it is
// visible and it cannot be mistaken for anything else, in Go's quoted form
// otherwise.
func Path(s string) string {
	if plainPath(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	b.WriteByte('"')
	escape(&b, s, escapes{quote: '"', backslash: true, tab: true})
	b.WriteByte('"')
	return b.String()
}

// plainPath reports whether s needs no quotes. A backslash or a quotation mark
// would make it look quoted; spaces at its ends are not visible; an arrow would
// look like a rename.
func plainPath(s string) bool {
	switch {
	case s == "",
		strings.ContainsAny(s, "\"\\"),
		s[0] == ' ', s[len(s)-1] == ' ',
		strings.Contains(s, "  "),
		strings.Contains(s, " -> "), strings.Contains(s, " => "):
		return false
	}
	return visible(s, false)
}

// Line returns s as one line of visible characters: control, bidirectional and
// other invisible characters and bytes that are not UTF-8 are escaped. Backslashes
// stay as they are, so the result is for reading, not for parsing.
func Line(s string) string {
	if visible(s, false) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	escape(&b, s, escapes{tab: true})
	return b.String()
}

// Text returns a text of several lines, each as Line returns it, but with its tabs.
func Text(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 8)
	for line := range strings.Lines(s) {
		content, isWhole := strings.CutSuffix(line, "\n")
		if visible(content, true) {
			b.WriteString(content)
		} else {
			escape(&b, content, escapes{})
		}
		if isWhole {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// UTF8 returns s as it is if JSON can carry it, and else as Line does.
func UTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return Line(s)
}

// AllUTF8 returns each text as UTF8 does.
func AllUTF8(all []string) []string {
	var out []string
	for _, s := range all {
		out = append(out, UTF8(s))
	}
	return out
}

// Base64 returns the bytes of a text that JSON cannot carry as it is, encoded, or "".
func Base64(s string) string {
	if utf8.ValidString(s) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(s))
}

// Visible reports whether every character of a line is visible. Tabs are.
func Visible(s string) bool { return visible(s, true) }

// Content escapes a line of text like Line, but keeps tabs and doubles
// backslashes, so that an escape cannot be mistaken for the same characters
// written out.
func Content(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 8)
	escape(&b, s, escapes{backslash: true})
	return b.String()
}

// Arg returns one argument, quoted for a shell where necessary.
func Arg(s string) string {
	switch {
	case s == "":
		return "''"
	case strings.Trim(s, shellSafe) == "":
		return s
	case visible(s, false):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	escape(&b, s, escapes{quote: '\'', backslash: true, tab: true})
	b.WriteByte('\'')
	return b.String()
}

const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,"

// Argv returns a command line that a shell splits into argv.
func Argv(argv []string) string {
	quoted := make([]string, len(argv))
	for i, a := range argv {
		quoted[i] = Arg(a)
	}
	return strings.Join(quoted, " ")
}

func visible(s string, tab bool) bool {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if (c < ' ' && (c != '\t' || !tab)) || c == 0x7f {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if (r == utf8.RuneError && n == 1) || !isVisible(r) || (i == 0 && unicode.Is(unicode.M, r)) {
			return false
		}
		i += n
	}
	return true
}

// isVisible reports whether r is visible. Format characters, which include the
// bidirectional controls, are not printable in Unicode; the cases here are
// letters, marks and symbols that are blank all the same.
func isVisible(r rune) bool {
	switch {
	case !strconv.IsPrint(r),
		r == 0x034f,              // combining grapheme joiner
		r == 0x115f, r == 0x1160, // Hangul fillers
		r == 0x17b4, r == 0x17b5, // Khmer inherent vowels
		r >= 0x180b && r <= 0x180f, // Mongolian variation selectors
		r == 0x2800,                // blank Braille pattern
		r == 0x3164, r == 0xffa0,   // Hangul fillers
		r >= 0xfe00 && r <= 0xfe0f,   // variation selectors
		r >= 0xe0000 && r <= 0xe0fff: // tags, variation selectors
		return false
	}
	return true
}

// escapes configures what is escaped besides invisible characters.
type escapes struct {
	quote     byte // 0: none
	backslash bool
	tab       bool
}

func escape(b *strings.Builder, s string, e escapes) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			hex(b, `\x`, uint32(s[i]), 2)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t' && e.tab:
			b.WriteString(`\t`)
		case r == '\t':
			b.WriteByte('\t')
		case r == '\\' && e.backslash:
			b.WriteString(`\\`)
		case e.quote != 0 && r == rune(e.quote):
			b.WriteByte('\\')
			b.WriteByte(e.quote)
		case r < ' ' || r == 0x7f:
			hex(b, `\x`, uint32(r), 2)
		case isVisible(r) && (i != 0 || !unicode.Is(unicode.M, r)):
			b.WriteString(s[i : i+n])
		case r < 0x10000:
			hex(b, `\u`, uint32(r), 4)
		default:
			hex(b, `\U`, uint32(r), 8)
		}
		i += n
	}
}

func hex(b *strings.Builder, prefix string, v uint32, digits int) {
	const set = "0123456789abcdef"
	b.WriteString(prefix)
	for i := digits - 1; i >= 0; i-- {
		b.WriteByte(set[v>>(4*i)&15])
	}
}

// Cause returns why an operation on a path failed, without the operation and the path:
// the message has named the path, as the caller wrote it.
func Cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
