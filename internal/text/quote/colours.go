package quote

import (
	"bytes"
	"io"
	"strings"
)

// Colours writes stored output of a command to a terminal. Lines and colours stay; every
// other control character and sequence, and every invisible character, is escaped.
type Colours struct {
	stream
	cr    bool // a carriage return that may belong to the end of a line
	dirty bool // a colour is on
}

// NewColours returns a writer to a terminal. Close ends the last colour.
func NewColours(w io.Writer) *Colours {
	c := &Colours{}
	c.stream = stream{w: w, char: c.show, sequence: c.colour, text: c.string}
	c.state = c.ground
	return c
}

// Close writes what is not whole.
func (c *Colours) Close() error {
	c.out.Reset()
	c.flush()
	c.carriage()
	if c.dirty {
		c.out.WriteString("\x1b[0m")
	}
	_, err := c.w.Write(c.out.Bytes())
	return err
}

func (c *Colours) escape(text string) {
	c.carriage()
	var b strings.Builder
	escape(&b, text, escapes{tab: true})
	c.out.WriteString(b.String())
}

func (c *Colours) carriage() {
	if c.cr {
		c.cr = false
		c.out.WriteString(`\r`)
	}
}

func (c *Colours) show(r rune, raw []byte) {
	switch {
	case r == '\n':
		c.cr = false
		c.out.WriteByte('\n')
	case r == '\r':
		c.carriage()
		c.cr = true
	case r == '\t', r >= ' ' && isVisible(r):
		c.carriage()
		c.out.Write(raw)
	default:
		c.escape(string(raw))
	}
}

func (c *Colours) colour(seq []byte) {
	if !isColour(seq) {
		c.escape(string(seq))
		return
	}
	c.carriage()
	c.out.Write(seq)
	c.dirty = !endsColours(seq)
}

func (c *Colours) string(kind byte, content []byte, _ bool) {
	c.escape("\x1b" + string(rune(kind)) + string(content))
}

// isColour reports whether a control sequence sets colours or the look of characters.
// One that hides them does not count.
func isColour(seq []byte) bool {
	params, ok := bytes.CutPrefix(seq, []byte("\x1b["))
	if !ok || len(params) == 0 || params[len(params)-1] != 'm' {
		return false
	}
	list := strings.Split(string(params[:len(params)-1]), ";")
	for i := 0; i < len(list); i++ {
		if strings.Trim(list[i], "0123456789:") != "" || strings.TrimLeft(list[i], "0") == "8" {
			return false
		}
		if (list[i] == "38" || list[i] == "48" || list[i] == "58") && i+1 < len(list) {
			i += map[string]int{"5": 2, "2": 4}[list[i+1]]
		}
	}
	return true
}

// endsColours reports whether a colour sequence ends all colours.
func endsColours(seq []byte) bool {
	params := string(seq[2 : len(seq)-1])
	return strings.Trim(params, "0") == ""
}
