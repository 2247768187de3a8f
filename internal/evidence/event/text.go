package event

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// The maximum length of a text, in bytes as written. The sum over the fields of
// an event stays far below maxLine.
const (
	shortText = 256
	longText  = 1024
	argsText  = 2048
)

// text is untrusted text that has been escaped: it is written unchanged between
// quotation marks.
type text string

// MarshalJSON writes a JSON string.
func (t text) MarshalJSON() ([]byte, error) { return []byte(`"` + string(t) + `"`), nil }

// UnmarshalJSON keeps the text as it was written.
func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '"' {
		return fmt.Errorf("event: %q is not text", b)
	}
	*t = text(b[1 : len(b)-1])
	return nil
}

// plain returns the text as a reader of the JSON gets it.
func (t text) plain() string {
	var s string
	if json.Unmarshal([]byte(`"`+string(t)+`"`), &s) != nil {
		return string(t)
	}
	return s
}

// clip escapes s for JSON and cuts it after limit bytes, with a mark that shows
// how much is missing. Bytes that are not UTF-8 become \xNN, which cannot be
// taken for a character. Invisible characters are escaped although JSON allows
// them: they could reverse or hide a line on a terminal.
func clip(s string, limit int) text {
	if len(s) <= limit && needsNoEscape(s) {
		return text(s)
	}
	buf := make([]byte, 0, min(len(s)+8, limit+32))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		mark := len(buf)
		buf = appendRune(buf, r, s[i:i+n])
		if len(buf) > limit {
			buf = fmt.Appendf(buf[:mark], "...(%d bytes more)", len(s)-i)
			break
		}
		i += n
	}
	return text(buf)
}

// needsNoEscape reports whether a text needs no escaping. Most do not.
func needsNoEscape(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendRune(buf []byte, r rune, raw string) []byte {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Appendf(buf, `\\x%02x`, raw[0])
	case r == '"' || r == '\\':
		return append(buf, '\\', byte(r))
	case strconv.IsPrint(r):
		return append(buf, raw...)
	case r < 0x10000:
		return fmt.Appendf(buf, `\u%04x`, r)
	}
	r -= 0x10000
	return fmt.Appendf(buf, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
}

func short(s string) text { return clip(s, shortText) }

func long(s string) text { return clip(s, longText) }

// cmdLine joins arguments so that they can be distinguished.
func cmdLine(args []string) text {
	var line []byte
	for i, a := range args {
		if i > 0 {
			line = append(line, ' ')
		}
		if plain(a) {
			line = append(line, a...)
		} else {
			line = append(append(append(line, '\''), a...), '\'')
		}
		if len(line) > 8*argsText {
			// The rest would be cut anyway.
			return clip(string(line)+" ...", argsText)
		}
	}
	return clip(string(line), argsText)
}

// plain reports whether an argument needs no quotation marks.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ', c == '\'', c == '"', c == '\\':
			return false
		}
	}
	return s != ""
}
