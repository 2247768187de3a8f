package patch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Form is the way in which the contents of a change can be shown.
type Form int

// The forms.
const (
	Nothing Form = iota // no contents, or the same on both sides
	Text
	Binary
	Large
)

// Contents is the change inside a file.
type Contents struct {
	Form  Form
	Hunks []*Hunk // of Text
}

// Compare reads both sides of a change, whose files are of at most maxText bytes each.
// Larger ones are not read.
func Compare(c tree.Change, open Opener, maxText int64) (Contents, error) {
	p := &printer{open: open, opt: Options{MaxText: maxText}}
	return p.compare(&c)
}

// compare reads both sides of a change. A side that is not a file has no contents.
func (p *printer) compare(c *tree.Change) (Contents, error) {
	old, now := file(c.Old), file(c.New)
	switch {
	case old == nil && now == nil,
		old != nil && now != nil && old.Digest == now.Digest && old.Size == now.Size:
		return Contents{}, nil
	case old != nil && old.Size > p.opt.MaxText, now != nil && now.Size > p.opt.MaxText:
		return Contents{Form: Large}, nil
	}
	before, ok, err := p.read(Old, oldPath(c), old)
	if err != nil {
		return Contents{}, err
	}
	after, ok2, err := p.read(New, c.Path, now)
	if err != nil {
		return Contents{}, err
	}
	if !ok || !ok2 {
		return Contents{Form: Binary}, nil
	}
	list := hunks(before, after)
	if len(list) == 0 {
		return Contents{}, nil
	}
	return Contents{Form: Text, Hunks: list}, nil
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
func (c Contents) count() (added, removed int) {
	for _, h := range c.Hunks {
		for _, l := range h.Lines {
			switch l.Kind {
			case Insert:
				added++
			case Delete:
				removed++
			case Equal:
			}
		}
	}
	return added, removed
}
