package review

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/quote"
)

// maxLine bounds a line that is shown. The rest is named by its size.
const maxLine = 4000

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

func escapedParts(parts []part, line, class string) []part {
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			parts = append(parts, part{plain.String(), class})
			plain.Reset()
		}
	}
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		one := line[i : i+size]
		i += size
		if quote.Visible(one) {
			plain.WriteString(one)
			continue
		}
		flush()
		number := fmt.Sprintf("U+%04X", r)
		if r == utf8.RuneError && size == 1 {
			number = fmt.Sprintf("0x%02X", one[0])
		}
		parts = append(parts, part{number, hiddenClass})
	}
	flush()
	return parts
}
