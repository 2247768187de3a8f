// Package patch shows changes to people: as a list, as statistics, or as a patch
// in the manner of git.
//
// It prints untrusted text: names and contents were written by commands that were
// not reviewed. Names are quoted, invisible characters in contents are escaped,
// and no line of contents can be mistaken for a line of the patch itself: each has
// a prefix, and a line that would look like a header in spite of it is escaped.
//
// The package knows nothing about cells, checkpoints or where contents are kept.
package patch

import (
	"bufio"
	"fmt"
	"io"

	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Mode is how changes are shown.
type Mode int

// The modes.
const (
	Patch      Mode = iota // contents line by line
	Stat                   // how much changed, by path
	NameStatus             // one letter and the path
)

// The sides of a change, for Opener.
const (
	Old = 0
	New = 1
)

// Opener opens the contents of a file of one side.
type Opener func(side int, path string, e tree.Entry) (io.ReadCloser, error)

// Options configures how changes are shown.
type Options struct {
	Mode Mode
	// Color marks lines with terminal colours.
	Color bool
	// MaxText is the size in bytes above which a file is shown by its digest; 0
	// means 1 MiB.
	MaxText int64
}

const defaultMaxText = 1 << 20

// WriteHeading writes a line between two lists of changes.
func WriteHeading(w io.Writer, text string) error {
	_, err := fmt.Fprintf(w, "\n%s\n", text)
	return err
}

// Write shows the changes that each yields, in order, one by one.
func Write(w io.Writer, each func(func(tree.Change) error) error, open Opener, opt Options) error {
	if opt.MaxText <= 0 {
		opt.MaxText = defaultMaxText
	}
	p := &printer{w: bufio.NewWriterSize(w, 64<<10), open: open, opt: opt}
	if err := p.all(each); err != nil {
		return err
	}
	return p.flush()
}

func (p *printer) all(each func(func(tree.Change) error) error) error {
	switch p.opt.Mode {
	case NameStatus:
		first := true
		return each(func(c tree.Change) error {
			p.nameStatus(&c)
			if !first {
				return nil
			}
			first = false
			return p.flush() // so that the first change is visible at once
		})
	case Stat:
		return p.stat(each)
	case Patch:
		return FoldObjects(each, objectsOf, func(c tree.Change) error {
			if err := p.patch(&c); err != nil {
				return err
			}
			return p.flush() // the reader is gone
		}, func(o Objects) { p.line(bold, "%s in %s", o, o.Name()) })
	}
	return fmt.Errorf("write diff: unknown mode %d", p.opt.Mode)
}

func (p *printer) flush() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write diff: %w", err)
	}
	return nil
}

// printer writes to a buffer, which keeps the first error until it is flushed.
type printer struct {
	w    *bufio.Writer
	open Opener
	opt  Options
}

// colour is a terminal sequence.
type colour string

const (
	plain colour = ""
	bold  colour = "\x1b[1m"
	red   colour = "\x1b[31m"
	green colour = "\x1b[32m"
	cyan  colour = "\x1b[36m"
	reset        = "\x1b[m"
)

// line writes one line that is already safe.
func (p *printer) line(c colour, format string, args ...any) {
	if !p.opt.Color || c == plain {
		_, _ = fmt.Fprintf(p.w, format+"\n", args...)
		return
	}
	_, _ = p.w.WriteString(string(c))
	_, _ = fmt.Fprintf(p.w, format, args...)
	_, _ = p.w.WriteString(reset + "\n")
}

// nameStatus uses git's letters; as in git, changes of metadata alone are M.
func (p *printer) nameStatus(c *tree.Change) {
	path := quote.Path(c.Path)
	switch c.Kind {
	case tree.Added:
		p.line(green, "A\t%s", path)
	case tree.Deleted:
		p.line(red, "D\t%s", path)
	case tree.Renamed:
		p.line(cyan, "R100\t%s\t%s", quote.Path(c.OldPath), path)
	case tree.TypeChanged:
		p.line(plain, "T\t%s", path)
	case tree.Modified, tree.ModeChanged, tree.OwnerChanged, tree.XattrChanged, tree.MTimeChanged:
		p.line(plain, "M\t%s", path)
	default:
		p.line(plain, "M\t%s", path)
	}
}

// oldPath returns the path of the old side of a change.
func oldPath(c *tree.Change) string {
	if c.OldPath != "" {
		return c.OldPath
	}
	return c.Path
}

// fullMode returns the mode with the type bits, as git prints it.
func fullMode(e *tree.Entry) string {
	bits := map[tree.Kind]uint32{
		tree.KindFile: 0o100000, tree.KindDir: 0o040000, tree.KindSymlink: 0o120000, tree.KindFifo: 0o010000, tree.KindSocket: 0o140000,
	}
	return fmt.Sprintf("%06o", bits[e.Kind]|e.Mode)
}
