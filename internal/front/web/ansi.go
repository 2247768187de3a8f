package web

import (
	"slices"
	"strconv"
	"strings"
)

// pen is the colour and weight of terminal output at one place.
type pen struct {
	fore            string // a class, or ""
	bold, underline bool
}

// class returns the classes of the text that a pen writes.
func (p pen) class() string {
	var names []string
	if p.fore != "" {
		names = append(names, p.fore)
	}
	if p.bold {
		names = append(names, "t-bold")
	}
	if p.underline {
		names = append(names, "t-under")
	}
	return strings.Join(names, " ")
}

// colourNames are the classes of the eight colours of a terminal.
func colourNames() []string {
	return []string{"t-black", "t-red", "t-green", "t-yellow", "t-blue", "t-magenta", "t-cyan", "t-white"}
}

// set changes the pen by the parameters of the sequence SGR. What is not known is
// ignored, such as backgrounds, which could hide text.
func (p *pen) set(params string) {
	codes := strings.Split(params, ";")
	for i := 0; i < len(codes); i++ {
		n, err := strconv.Atoi(codes[i])
		if err != nil && codes[i] != "" {
			continue
		}
		switch {
		case n == 0:
			*p = pen{}
		case n == 1:
			p.bold = true
		case n == 4:
			p.underline = true
		case n == 22:
			p.bold = false
		case n == 24:
			p.underline = false
		case n == 39:
			p.fore = ""
		case n >= 30 && n <= 37:
			p.fore = colourNames()[n-30]
		case n >= 90 && n <= 97:
			p.fore = colourNames()[n-90]
		case n == 38 || n == 48: // a colour by number or by its parts
			i += colourLength(codes[i+1:])
		}
	}
}

// colourLength returns how many codes the rest of an extended colour has.
func colourLength(rest []string) int {
	switch {
	case len(rest) > 0 && rest[0] == "5":
		return min(2, len(rest))
	case len(rest) > 0 && rest[0] == "2":
		return min(4, len(rest))
	}
	return 0
}

// terminalLine returns a line of output: colours as classes of text, other control
// sequences as the characters that they are. The pen goes on to the next line.
func terminalLine(line string, p *pen) []part {
	var parts []part
	line, rest := cutLine(strings.TrimSuffix(line, "\r"))
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		if before != "" {
			parts = visibleParts(parts, before, p.class())
		}
		if !found {
			break
		}
		end := strings.IndexFunc(after, func(r rune) bool { return !strings.ContainsRune("0123456789;", r) })
		if end < 0 || after[end] != 'm' {
			parts = append(parts, part{"U+001B", hiddenClass})
			line = "[" + after
			continue
		}
		p.set(after[:end])
		line = after[end+1:]
	}
	if rest > 0 {
		parts = append(parts, part{" … " + showBytes(int64(rest)) + " more", hiddenClass})
	}
	return slices.Clip(parts)
}
