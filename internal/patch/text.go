package patch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/tree"
)

// form is the way in which the contents of a change can be shown.
type form int

const (
	nothing form = iota // no contents, or the same on both sides
	text
	binary
	large
)

// contents is the change inside a file.
type contents struct {
	form  form
	hunks []*udiff.Hunk
}

// compare reads both sides of a change. A side that is not a file has no contents.
func (p *printer) compare(c *tree.Change) (contents, error) {
	old, now := file(c.Old), file(c.New)
	switch {
	case old == nil && now == nil,
		old != nil && now != nil && old.Digest == now.Digest && old.Size == now.Size:
		return contents{}, nil
	case old != nil && old.Size > p.opt.MaxText, now != nil && now.Size > p.opt.MaxText:
		return contents{form: large}, nil
	}
	before, ok, err := p.read(Old, oldPath(c), old)
	if err != nil {
		return contents{}, err
	}
	after, ok2, err := p.read(New, c.Path, now)
	if err != nil {
		return contents{}, err
	}
	if !ok || !ok2 {
		return contents{form: binary}, nil
	}
	d, err := udiff.ToUnifiedDiff("", "", before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if err != nil {
		return contents{}, fmt.Errorf("compare %s: %w", quote.Path(c.Path), err)
	}
	if len(d.Hunks) == 0 {
		return contents{}, nil
	}
	return contents{form: text, hunks: d.Hunks}, nil
}

func file(e *tree.Entry) *tree.Entry {
	if e == nil || e.Kind != tree.KindFile {
		return nil
	}
	return e
}

// read returns one side, and reports whether it is text: UTF-8 without NUL.
func (p *printer) read(side int, path string, e *tree.Entry) (s string, isText bool, err error) {
	if e == nil || e.Size == 0 {
		return "", true, nil
	}
	r, err := p.open(side, path, *e)
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", quote.Path(path), err)
	}
	b, err := io.ReadAll(io.LimitReader(r, e.Size+1))
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err == nil && int64(len(b)) != e.Size {
		err = errors.New("damaged contents: not of the recorded size")
	}
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", quote.Path(path), err)
	}
	if bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) {
		return "", false, nil
	}
	return string(b), true, nil
}

// count returns the numbers of added and removed lines.
func (c contents) count() (added, removed int) {
	for _, h := range c.hunks {
		for _, l := range h.Lines {
			switch l.Kind {
			case udiff.Insert:
				added++
			case udiff.Delete:
				removed++
			case udiff.Equal:
			}
		}
	}
	return added, removed
}
