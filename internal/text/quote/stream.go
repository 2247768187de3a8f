package quote

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// The bounds of what a stream may hold back: a control sequence, and a string in one.
const (
	maxSequence = 256
	maxString   = 4096
)

// stream splits what a command prints into characters and control sequences, which may
// be cut anywhere between writes.
type stream struct {
	w     io.Writer
	out   bytes.Buffer // what the present write passes on
	held  []byte       // the beginning of a character or a control sequence
	state func(c byte)
	// kind is the character that began a string: one of those of stringKinds.
	kind byte
	long bool // the string is too long to keep

	// What becomes of a character and of a control sequence.
	char     func(r rune, raw []byte)
	sequence func(seq []byte)
	// text decides about a string such as "8;;https://...", without its ends. One that
	// was cut off or is too long is not whole.
	text func(kind byte, content []byte, whole bool)
}

const esc = 0x1b

// stringKinds are the characters after an escape that begin a string.
const stringKinds = "]P^_X"

// Write passes on what may be, and holds back what is not whole.
func (s *stream) Write(b []byte) (int, error) {
	s.out.Reset()
	for _, c := range b {
		s.state(c)
	}
	if s.out.Len() == 0 {
		return len(b), nil
	}
	if _, err := s.w.Write(s.out.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ground is the state outside of control sequences.
func (s *stream) ground(c byte) {
	if c == esc {
		s.chars(true)
		s.held, s.state = append(s.held, c), s.escaped
		return
	}
	s.held = append(s.held, c)
	s.chars(false)
}

// chars passes on the held characters that are whole, or all of them.
func (s *stream) chars(all bool) {
	for len(s.held) > 0 && (all || utf8.FullRune(s.held)) {
		r, n := utf8.DecodeRune(s.held)
		if r == utf8.RuneError && n == 1 {
			r = -rune(s.held[0]) // a byte that is no character
		}
		s.char(r, s.held[:n])
		s.held = s.held[n:]
	}
	if len(s.held) == 0 {
		s.held = s.held[:0]
	}
}

// escaped is the state after an escape and intermediate characters.
func (s *stream) escaped(c byte) {
	switch {
	case len(s.held) == 1 && c == '[':
		s.held, s.state = append(s.held, c), s.control
	case len(s.held) == 1 && strings.IndexByte(stringKinds, c) >= 0:
		s.held, s.kind, s.long, s.state = s.held[:0], c, false, s.inString
	default:
		s.parameter(c, 0x20, 0x2f, 0x30)
	}
}

// control is the state in a control sequence.
func (s *stream) control(c byte) { s.parameter(c, 0x20, 0x3f, 0x40) }

// parameter takes a character of a sequence: one of its middle or its last one. Any
// other ends it.
func (s *stream) parameter(c, from, to, final byte) {
	switch {
	case c >= from && c <= to && len(s.held) < maxSequence:
		s.held = append(s.held, c)
	case c >= final && c <= 0x7e:
		s.end(append(s.held, c))
	default:
		s.end(s.held)
		s.state(c)
	}
}

func (s *stream) end(seq []byte) {
	s.sequence(seq)
	s.held, s.state = s.held[:0], s.ground
}

// inString is the state in a string.
func (s *stream) inString(c byte) {
	switch {
	case c == '\a' && s.kind == ']':
		s.endString(true)
	case c == esc:
		s.state = s.endOfString
	case c == 0x18 || c == 0x1a || c == '\n' && s.kind == ']': // a terminal may go on; nothing of it was passed
		s.endString(false)
		s.state(c)
	case len(s.held) < maxString:
		s.held = append(s.held, c)
	default:
		s.long = true
	}
}

// endOfString is the state after an escape in a string.
func (s *stream) endOfString(c byte) {
	if c == '\\' {
		s.endString(true)
		return
	}
	s.endString(false)
	s.held, s.state = append(s.held, esc), s.escaped
	s.state(c)
}

func (s *stream) endString(whole bool) {
	s.text(s.kind, s.held, whole && !s.long)
	s.held, s.state, s.kind = s.held[:0], s.ground, 0
}

// flush passes on what is held at the end of the stream.
func (s *stream) flush() {
	switch {
	case s.kind != 0:
		s.endString(false)
	case len(s.held) > 0 && s.held[0] == esc:
		s.end(s.held)
	default:
		s.chars(true)
	}
}

// isC1 reports whether a character, or an invalid byte, is a control character of
// eight bits.
func isC1(r rune) bool { return r >= 0x80 && r <= 0x9f || r <= -0x80 && r >= -0x9f }
