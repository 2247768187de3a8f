package quote

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Screen passes what a command prints to a terminal, as far as it stays on its screen.
// It drops what reaches further: the clipboard, titles and notifications, files and
// pictures, the printer, the size of the window, other encodings, and questions whose
// answer a command could choose, which the terminal would type into the shell afterwards.
type Screen struct {
	stream
	// asks: the command reads the answers of the terminal.
	asks  bool
	modes map[string]bool // the modes that are on and should not be at the end
	dirty bool            // a colour is on
}

// NewScreen returns a writer to a terminal. With asks, the command has the keyboard too:
// then it may ask what the terminal can do and where the cursor is, as full-screen
// programs do. Close ends the modes that the command left on.
func NewScreen(w io.Writer, asks bool) *Screen {
	s := &Screen{asks: asks, modes: map[string]bool{}}
	s.stream = stream{w: w, char: s.show, sequence: s.pass, text: s.string}
	s.state = s.ground
	return s
}

// Close drops what is not whole, and ends colours and the modes that make a terminal
// send more than keys.
func (s *Screen) Close() error {
	s.out.Reset()
	s.flush()
	var modes []string
	for mode := range s.modes {
		modes = append(modes, mode)
	}
	slices.Sort(modes)
	for _, mode := range modes {
		fmt.Fprintf(&s.out, "\x1b[?%sl", mode)
	}
	clear(s.modes)
	if s.dirty {
		s.dirty = false
		s.out.WriteString("\x1b[0m")
	}
	if s.out.Len() == 0 {
		return nil
	}
	_, err := s.w.Write(s.out.Bytes())
	return err
}

// show drops the question for the answerback message, and controls of eight bits.
func (s *Screen) show(r rune, raw []byte) {
	if r != 0x05 && !isC1(r) {
		s.out.Write(raw)
	}
}

// string passes links and the marks of shells.
func (s *Screen) string(kind byte, content []byte, whole bool) {
	if !whole || kind != ']' || !bytes.HasPrefix(content, []byte("8;")) && !bytes.HasPrefix(content, []byte("133;")) {
		return
	}
	if bytes.ContainsFunc(content, func(r rune) bool { return r < ' ' || r == 0x7f || isC1(r) }) {
		return
	}
	s.out.WriteString("\x1b]" + string(content) + "\x1b\\")
}

// lasting are the modes that change what the terminal sends or shows after a command:
// reports of the mouse, of the focus and of pasting, and the other screen.
var lasting = []string{"9", "47", "1000", "1001", "1002", "1003", "1004", "1005", "1006", "1015", "1016", "1047", "1049", "2004", "2031"}

// pass passes a sequence that only draws.
func (s *Screen) pass(seq []byte) {
	if len(seq) < 2 {
		return
	}
	last := seq[len(seq)-1]
	if seq[1] != '[' {
		if strings.IndexByte("()*+-./#", seq[1]) >= 0 && len(seq) == 3 && last >= 0x30 || len(seq) == 2 && strings.IndexByte("78=>DEHMNOcno|}~lm", last) >= 0 {
			s.out.Write(seq)
		}
		return
	}
	if len(seq) < 3 || last < 0x40 || !s.draws(seq, last) {
		return
	}
	s.out.Write(seq)
	switch params := string(seq[2 : len(seq)-1]); {
	case last == 'm' && isColour(seq):
		s.dirty = !endsColours(seq)
	case (last == 'h' || last == 'l') && strings.HasPrefix(params, "?"):
		for mode := range strings.SplitSeq(params[1:], ";") {
			if slices.Contains(lasting, mode) && last == 'h' {
				s.modes[mode] = true
			} else {
				delete(s.modes, mode)
			}
		}
	}
}

// draws reports whether a control sequence only draws, or asks what a terminal may
// answer.
func (s *Screen) draws(seq []byte, last byte) bool {
	params := string(seq[2 : len(seq)-1])
	middle := strings.TrimLeft(params, "0123456789;:<=>?")
	private := strings.TrimRight(params[:len(params)-len(middle)], "0123456789;:")
	switch {
	case last == 't', last == 'i', last == 'x' && middle == "", last == 'y', last == 'w' && middle != "", last == 'u' && middle != "", last == 'p' && middle == `"`, last == '|' && middle != "":
		return false // windows, printer, settings, sums and reports of the screen
	case last == 'n', last == 'c', last == 'p' && middle == "$", last == 'q' && private == ">", last == 'u' && private == "?", last == 'S' && private == "?":
		return s.asks // the cursor, and what the terminal can do
	}
	return true
}
