package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
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

// Gone reports whether the reader of stdout has closed it.
func (o *stdout) Gone() bool { return brokenPipe(o.err) }

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
func (s *session) colours(stream any) bool {
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
type page struct {
	w       io.Writer
	colours bool
	err     error
}

func newPage(w io.Writer, colours bool) *page { return &page{w: w, colours: colours} }

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// paint colours a text where colours are wanted.
func (p *page) paint(c colour, text string) string {
	if !p.colours {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
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
	for _, r := range rows {
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
