package mcp

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
)

// What a result has of one stream, or of a file: its beginning and its end. More
// would cost the model more than it helps.
const (
	headBytes = 4 << 10
	tailBytes = 12 << 10
	maxText   = headBytes + tailBytes
)

// stream keeps the beginning and the end of what a command wrote.
type stream struct {
	head, tail []byte
	left       int64 // bytes between them
}

func (s *stream) write(p []byte) {
	n := min(len(p), headBytes-len(s.head))
	s.head = append(s.head, p[:n]...)
	s.tail = append(s.tail, p[n:]...)
	if over := len(s.tail) - tailBytes; over > 0 {
		s.left += int64(over)
		s.tail = append(s.tail[:0], s.tail[over:]...)
	}
}

// readFrom keeps the beginning and the end of what a reader gives.
func (s *stream) readFrom(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		s.write(buf[:n])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// text returns the stream as text, or else as bytes. A note says what was left out.
func (s *stream) text() (string, []byte) {
	head, tail := s.head, s.tail
	if s.left > 0 {
		// The cuts may be in the middle of a character.
		head, tail = api.WholeEnd(head), wholeBegin(tail)
	}
	if !utf8.Valid(head) || !utf8.Valid(tail) {
		return "", append(append([]byte{}, s.head...), s.tail...)
	}
	if s.left == 0 {
		return string(head) + string(tail), nil
	}
	gone := s.left + int64(len(s.head)-len(head)+len(s.tail)-len(tail))
	return fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", head, gone, tail), nil
}

func wholeBegin(p []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(p); i++ {
		if utf8.RuneStart(p[i]) {
			return p[i:]
		}
	}
	return p
}

// output is both streams of a command.
type output struct{ stdout, stderr stream }

func (o *output) of(name string) *stream {
	if name == "stderr" {
		return &o.stderr
	}
	return &o.stdout
}

func (o *output) size() int64 {
	n := o.stdout.left + o.stderr.left
	return n + int64(len(o.stdout.head)+len(o.stdout.tail)+len(o.stderr.head)+len(o.stderr.tail))
}

func (o *output) document() api.Output {
	var doc api.Output
	doc.Stdout, doc.StdoutBase64 = o.stdout.text()
	doc.Stderr, doc.StderrBase64 = o.stderr.text()
	doc.Truncated = o.stdout.left > 0 || o.stderr.left > 0
	return doc
}

// describeOutput returns the output of a command for the model.
func describeOutput(o api.Output) string {
	var b strings.Builder
	for _, s := range []struct {
		name, text string
		data       []byte
	}{{"stdout", o.Stdout, o.StdoutBase64}, {"stderr", o.Stderr, o.StderrBase64}} {
		switch {
		case len(s.data) > 0:
			fmt.Fprintf(&b, "\n%s: %d bytes that are not text", s.name, len(s.data))
		case s.text != "":
			fmt.Fprintf(&b, "\n%s:\n%s", s.name, strings.TrimSuffix(s.text, "\n"))
		}
	}
	return b.String()
}

// shorten cuts a text for the model.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	var s stream
	s.write([]byte(strings.ToValidUTF8(text, "\uFFFD")))
	short, _ := s.text()
	return short
}
