package patch

import (
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// Kind is the kind of a change of a line.
type Kind int

// The kinds.
const (
	Equal Kind = iota
	Delete
	Insert
)

// Line is a line of a hunk, with its newline if it has one.
type Line struct {
	Kind    Kind
	Content string
}

// Hunk is a sequence of changed lines, with equal ones around them.
type Hunk struct {
	FromLine, ToLine int // where it begins in the old text and in the new one, from 1
	Lines            []Line
}

// contextLines is how many equal lines a hunk has before and after a change.
const contextLines = 3

// hunks compares two texts by lines.
func hunks(before, after string) []*Hunk {
	old, now := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	var list []*Hunk
	end := 0 // of the last hunk's last change, in the old text
	for _, d := range lcs.DiffLines(old, now) {
		if len(list) == 0 || d.Start > end+2*contextLines {
			list = finish(list, old, end)
			end = max(d.Start-contextLines, 0)
			list = append(list, &Hunk{FromLine: end + 1, ToLine: end + 1 + d.ReplStart - d.Start})
		}
		h := list[len(list)-1]
		h.add(Equal, old[end:d.Start])
		h.add(Delete, old[d.Start:d.End])
		h.add(Insert, now[d.ReplStart:d.ReplEnd])
		end = d.End
	}
	return finish(list, old, end)
}

// finish adds the equal lines after the last change of the last hunk.
func finish(list []*Hunk, old []string, end int) []*Hunk {
	if len(list) > 0 {
		list[len(list)-1].add(Equal, old[end:min(end+contextLines, len(old))])
	}
	return list
}

func (h *Hunk) add(kind Kind, lines []string) {
	for _, l := range lines {
		h.Lines = append(h.Lines, Line{kind, l})
	}
}
