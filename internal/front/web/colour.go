package web

import (
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/front/web/highlight"
	"github.com/forkcell/forkcell/internal/text/quote"
)

const (
	// colourBytes bounds the text of a page that is searched for words to colour: a page
	// must not be later for it. More is shown without colours.
	colourBytes = 16 << 10
	// colourTime ends the search on a machine that is too busy for it.
	colourTime = 200 * time.Millisecond
	// colourFile is the size above which a file has no colours.
	colourFile = 512 << 10
)

// painter colours the source code of one page, as long as there is room.
type painter struct {
	left int // bytes
	end  time.Time
}

func newPainter() *painter { return &painter{left: colourBytes, end: time.Now().Add(colourTime)} }

// paint returns the spans of each line of a text, for the language of a file; nil for no
// colours.
func (p *painter) paint(name string, lines []string) [][]highlight.Span {
	language := highlight.For(name)
	if p == nil || language == nil || len(lines) == 0 {
		return nil
	}
	size := len(lines)
	for _, l := range lines {
		size += len(l)
		if len(l) > maxLine {
			return nil
		}
	}
	if size > p.left {
		return nil
	}
	p.left -= size
	return highlight.ByLine(language.Spans(strings.Join(lines, "\n"), p.end), lines)
}

// colourRows gives the lines of a hunk their colours. The sides are two texts.
func (p *painter) colourRows(name, oldName string, rows []row) {
	if p == nil {
		return
	}
	if oldName == "" {
		oldName = name
	}
	for _, side := range []struct{ name, kinds string }{{oldName, "- "}, {name, "+ "}} {
		var lines []string
		var at []int
		for i, r := range rows {
			if strings.Contains(side.kinds, r.Kind) {
				lines, at = append(lines, r.text), append(at, i)
			}
		}
		if len(lines) == 0 {
			continue
		}
		for i, spans := range p.paint(side.name, lines) {
			rows[at[i]].spans = spans
		}
	}
}

// coloured appends the parts of a piece of a line, from a byte to before another. class is
// that of the whole piece. A line with characters that would not show has no colours.
func coloured(parts []part, line string, from, to int, spans []highlight.Span, class string) []part {
	if len(line) > maxLine || !quote.Visible(line) {
		spans = nil
	}
	for _, s := range spans {
		begin, end := max(s.From, from), min(s.To, to)
		if begin >= end {
			continue
		}
		parts = visibleParts(parts, line[from:begin], class)
		parts = visibleParts(parts, line[begin:end], strings.TrimSpace(class+" "+s.Class))
		from = end
	}
	return visibleParts(parts, line[from:to], class)
}
