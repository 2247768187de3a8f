package web

import (
	"fmt"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxLine bounds a line that is shown. The rest is named by its size.
const maxLine = 4000

// maxHidden bounds the characters of a line that are shown by their numbers.
const maxHidden = 300

// part is a piece of text with the class of its looks.
type part struct {
	Text  string
	Class string
}

// hiddenClass is the class of a character that would not show.
const hiddenClass = "hid"

// visible splits a line into text that can be shown as it is, and the numbers of
// characters that would not show, or would change how others do.
func visible(line string) []part { return visibleParts(nil, line, "") }

// visibleParts appends the parts of a line, whose text has a class.
func visibleParts(parts []part, line, class string) []part {
	line, rest := cutLine(line)
	if quote.Visible(line) {
		if line != "" {
			parts = append(parts, part{line, class})
		}
	} else {
		parts = escapedParts(parts, line, class)
	}
	if rest > 0 {
		parts = append(parts, part{fmt.Sprintf(" … %s more", showBytes(int64(rest))), hiddenClass})
	}
	return parts
}

// cutLine returns the beginning of a line, and the number of bytes that follow.
func cutLine(line string) (begin string, rest int) {
	if len(line) <= maxLine {
		return line, 0
	}
	end := maxLine
	for end > 0 && !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end], len(line) - end
}

// escapedParts appends the parts of a line with characters that would not show. A
// character that is repeated is one part.
func escapedParts(parts []part, line, class string) []part {
	plain := 0 // where the text began that can be shown as it is
	for i, hidden := 0, 0; i < len(line); {
		one := first(line[i:])
		if quote.Visible(one) {
			i += len(one)
			continue
		}
		if plain < i {
			parts = append(parts, part{line[plain:i], class})
		}
		if hidden++; hidden > maxHidden {
			return append(parts, part{fmt.Sprintf(" … %s more", showBytes(int64(len(line)-i))), hiddenClass})
		}
		n := 0
		for ; i < len(line) && first(line[i:]) == one; i += len(one) {
			n++
		}
		parts = append(parts, part{hiddenText(one, n), hiddenClass})
		plain = i
	}
	if plain < len(line) {
		parts = append(parts, part{line[plain:], class})
	}
	return parts
}

// first returns the first character of a text, or an invalid byte.
func first(text string) string {
	_, size := utf8.DecodeRuneInString(text)
	return text[:size]
}

// hiddenText returns the number of a character, and how often it is there.
func hiddenText(one string, n int) string {
	r, size := utf8.DecodeRuneInString(one)
	text := fmt.Sprintf("U+%04X", r)
	if r == utf8.RuneError && size == 1 {
		text = fmt.Sprintf("0x%02X", one[0])
	}
	if n > 1 {
		text += fmt.Sprintf(" ×%d", n)
	}
	return text
}
