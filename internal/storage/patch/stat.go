package patch

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// The widths of the two columns.
const (
	maxNameWidth = 60
	maxBarWidth  = 40
)

type statLine struct {
	name           string
	added, removed int
	note           string // instead of numbers
}

// stat shows a line for each change, one for new objects of git, then the sum.
func (p *printer) stat(each func(func(tree.Change) error) error) error {
	var lines []statLine
	width, most, changed, added, removed := 0, 0, 0, 0, 0
	put := func(l statLine, entries int) {
		lines = append(lines, l)
		width = max(width, min(maxNameWidth, utf8.RuneCountInString(l.name)))
		most = max(most, l.added+l.removed)
		changed += entries
		added += l.added
		removed += l.removed
	}
	err := FoldObjects(each, objectsOf, func(c tree.Change) error {
		l, err := p.statOf(&c)
		put(l, 1)
		return err
	}, func(o Objects) { put(statLine{name: o.Name(), note: o.String()}, o.Entries) })
	if err != nil {
		return err
	}
	for _, l := range lines {
		p.statLine(l, width, most)
	}
	sum := count(changed, "file") + " changed"
	if added > 0 {
		sum += ", " + count(added, "insertion") + "(+)"
	}
	if removed > 0 {
		sum += ", " + count(removed, "deletion") + "(-)"
	}
	p.line(plain, " %s", sum)
	return nil
}

// Lines counts the lines that changes add and remove. Files that are not text, or too
// large, count as changed and have no lines.
func Lines(each func(func(tree.Change) error) error, open func(side int, path string, e tree.Entry) (io.ReadCloser, error)) (files, added, removed int, err error) {
	p := &printer{open: open, opt: Options{Mode: Stat, MaxText: defaultMaxText}}
	err = each(func(c tree.Change) error {
		l, err := p.statOf(&c)
		files++
		added += l.added
		removed += l.removed
		return err
	})
	return files, added, removed, err
}

func (p *printer) statOf(c *tree.Change) (statLine, error) {
	l := statLine{name: quote.Path(c.Path)}
	if c.OldPath != "" {
		l.name = quote.Path(c.OldPath) + " => " + l.name
	}
	d, err := p.compare(c)
	if err != nil {
		return l, err
	}
	switch d.Form {
	case Text:
		l.added, l.removed = d.count()
	case Binary, Large:
		l.note = fmt.Sprintf("Bin %d -> %s", size(c.Old), count(size(c.New), "byte"))
	case Nothing:
		l.note = note(c)
	}
	return l, nil
}

// note describes a change that has no lines to count.
func note(c *tree.Change) string {
	switch {
	case c.Old == nil && c.New == nil:
		return string(c.Kind)
	case c.Old == nil:
		return "new " + c.New.Kind.String()
	case c.New == nil:
		return "deleted " + c.Old.Kind.String()
	}
	kinds := []string{string(c.Kind)}
	for _, k := range c.Also {
		kinds = append(kinds, string(k))
	}
	return strings.Join(kinds, ", ")
}

func size(e *tree.Entry) int64 {
	if file(e) == nil {
		return 0
	}
	return e.Size
}

func (p *printer) statLine(l statLine, width, most int) {
	pad := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(l.name)))
	if l.note != "" {
		p.line(plain, " %s%s | %s", l.name, pad, l.note)
		return
	}
	plus, minus := l.added, l.removed
	if most > maxBarWidth {
		plus, minus = scale(plus, most), scale(minus, most)
	}
	bar := strings.Repeat("+", plus)
	tail := strings.Repeat("-", minus)
	if p.opt.Color {
		bar, tail = string(green)+bar+reset, string(red)+tail+reset
	}
	p.line(plain, " %s%s | %d %s%s", l.name, pad, l.added+l.removed, bar, tail)
}

// scale shrinks a number to the width of the bar; above 0 it stays above 0.
func scale(n, most int) int {
	if n == 0 {
		return 0
	}
	return max(1, n*maxBarWidth/most)
}

func count[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
