package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// stdout is the standard output of the commands. It is buffered and keeps its first
// error. A broken pipe ends the output, but is no failure: it changes neither the
// messages nor the exit code.
type stdout struct {
	w   *bufio.Writer
	err error
}

func newStdout(w io.Writer) *stdout {
	return &stdout{w: bufio.NewWriterSize(w, 16<<10)}
}

func (o *stdout) Write(b []byte) (int, error) {
	if o.err == nil {
		_, o.err = o.w.Write(b)
	}
	if o.err != nil {
		return 0, writeFailed(o.err)
	}
	return len(b), nil
}

// Flush writes what is buffered.
func (o *stdout) Flush() error {
	if o.err == nil {
		o.err = o.w.Flush()
	}
	if o.err != nil {
		return writeFailed(o.err)
	}
	return nil
}

// isGone reports whether the reader of stdout has closed it.
func (o *stdout) isGone() bool { return brokenPipe(o.err) }

func brokenPipe(err error) bool { return errors.Is(err, unix.EPIPE) }

func writeFailed(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // its path is only "/dev/stdout"
	}
	return fmt.Errorf("write the output: %w", err)
}

// terminal returns the descriptor of a stream that is a terminal.
func terminal(stream any) (int, bool) {
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return -1, false
	}
	fd := int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// colours reports whether a stream may be coloured.
func (s *frame) colours(stream any) bool {
	if s.noColor || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, ok := terminal(stream)
	return ok
}

// A colour is the number of an SGR attribute. All have two digits, so that
// coloured cells of one column are equally wide for a tabwriter.
type colour int

const (
	plain  colour = 39
	red    colour = 31
	green  colour = 32
	yellow colour = 33
	cyan   colour = 36
)

// page writes text for people. Its first error is kept and ends the output.
//
// Every text that it is given may come from a cell or from a daemon elsewhere. So it
// escapes all of them: only the formats of this program begin lines and columns, and
// only paint colours.
type page struct {
	w       io.Writer
	colours bool
	painted map[string]bool // what paint has returned
	err     error
}

func newPage(w io.Writer, colours bool) *page {
	return &page{w: w, colours: colours, painted: map[string]bool{}}
}

// printf writes texts and numbers in a format. Texts are escaped as shown does.
func (p *page) printf(format string, args ...any) {
	if p.err != nil {
		return
	}
	safe := make([]any, len(args))
	for i, a := range args {
		safe[i] = p.argument(a)
	}
	_, p.err = fmt.Fprintf(p.w, format, safe...)
}

// argument returns an argument of printf without characters that cannot be seen.
func (p *page) argument(a any) any {
	switch v := a.(type) {
	case string:
		return p.visibleLine(v)
	case error:
		return p.visibleLine(v.Error())
	case fmt.Stringer:
		return p.visibleLine(v.String())
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.String {
		return p.visibleLine(v.String())
	} else if v.Kind() == reflect.Slice {
		return p.visibleLine(fmt.Sprint(a))
	}
	return a
}

// lines writes a text of several lines. What cannot be seen in them is escaped.
func (p *page) lines(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, quote.Text(text))
	}
}

// visibleLine returns a text as one line of visible characters, in which only what paint has
// returned is coloured.
func (p *page) visibleLine(text string) string {
	var b strings.Builder
	for {
		at := strings.IndexByte(text, escape)
		if at < 0 || len(p.painted) == 0 {
			b.WriteString(quote.Line(text))
			return b.String()
		}
		if end := strings.Index(text[at:], unpainted); end >= 0 && p.painted[text[at:at+end+len(unpainted)]] {
			end += at + len(unpainted)
			b.WriteString(quote.Line(text[:at]) + text[at:end])
			text = text[end:]
			continue
		}
		b.WriteString(quote.Line(text[:at+1]))
		text = text[at+1:]
	}
}

// What begins a control sequence, and what ends a colour.
const (
	escape    = '\x1b'
	unpainted = "\x1b[0m"
)

// paint colours a text where colours are wanted.
func (p *page) paint(c colour, text string) string {
	if !p.colours {
		return text
	}
	painted := fmt.Sprintf("\x1b[%dm%s%s", c, quote.Line(text), unpainted)
	p.painted[painted] = true
	return painted
}

// word colours a status word by its meaning.
func (p *page) word(w string) string { return p.paint(meaning(w), w) }

func meaning(word string) colour {
	switch word {
	case "succeeded", "accepted", "works", "ok", "done", "verified", "allowed":
		return green
	case "failed", "timed_out", "killed", "interrupted", "interrupted (unfinished)", "error", "rejected", "missing", "mismatch", "denied":
		return red
	case "pending", "restored", "partial", "degraded", "running", "paused", "needed", "superseded", "not included":
		return yellow
	default:
		return plain
	}
}

// table writes rows in aligned columns; the first row is the heading.
func (p *page) table(rows [][]string) {
	if p.err != nil {
		return
	}
	t := tabwriter.NewWriter(p.w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		r := make([]string, len(row))
		for i, text := range row {
			r[i] = p.visibleLine(text)
		}
		// Without a final tab the last column is not padded.
		if _, err := io.WriteString(t, strings.Join(r, "\t")+"\n"); err != nil {
			p.err = err
			return
		}
	}
	p.err = t.Flush()
}

// pairs writes "name: value" lines, aligned; empty values are left out.
func (p *page) pairs(kv ...string) {
	var rows [][]string
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i+1] != "" {
			rows = append(rows, []string{kv[i] + ":", kv[i+1]})
		}
	}
	p.table(rows)
}
