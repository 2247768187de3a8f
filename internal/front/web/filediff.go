package web

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/web/highlight"
	"github.com/forkcell/forkcell/internal/storage/patch"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

const (
	// maxText is the size above which a file is shown by its digest only.
	maxText = 1 << 20
	// maxRows bounds the lines of a file that are looked at.
	maxRows = 50000
	// rowBytes and partBytes are about what a row and a part add to a page.
	rowBytes  = 130
	partBytes = 25
)

// fileDiff is a change of one file as a page shows it.
type fileDiff struct {
	Path, OldPath string
	Kind          string
	// Notes are what changed besides the contents: modes, owners, targets.
	Notes []string
	// Control says what makes a control file of it; "" is an ordinary one.
	Control string
	// Binary has the sizes and digests of contents that are not shown as text.
	Binary *binaryDiff
	Hunks  []hunk
	Added  int
	Gone   int
	// Whole reports that there is a file after the change.
	Whole bool
	// Folded reports that the contents are not shown.
	Folded bool
	// Cut reports that the hunks are only the first ones.
	Cut bool
	// Problem says why the contents cannot be shown.
	Problem string
	// Split shows the two sides beside each other.
	Split bool
	// Pictures are the sides that can be shown as pictures.
	Pictures []picture
}

// picture is one side of a changed picture.
type picture struct{ Side, Link string }

// binaryDiff describes contents that are no text.
type binaryDiff struct {
	What     string
	Old, New *blob
	// isImage reports that the name is that of a picture of points.
	isImage bool
}

// blob is one side of a binary file.
type blob struct {
	Size   int64
	Digest string
}

// hunk is a group of lines around changes.
type hunk struct {
	Head string
	Rows []row
}

// row is a line of a hunk. Kind is ' ', '+' or '-'.
type row struct {
	Kind     string
	Old, New int // numbers of the line; 0 for none
	Parts    []part
	NoEnd    bool // the line has no end
	text     string
	spans    []highlight.Span // the coloured parts of the text
}

// bytes is about the number of bytes that the row adds to a page.
func (r row) bytes() int {
	n := rowBytes
	for _, p := range r.Parts {
		n += len(p.Text)
		if p.Class != "" {
			n += partBytes
		}
	}
	return n
}

// Class is the class of the row's colour.
func (r row) Class() string { return map[string]string{"+": "add", "-": "del"}[r.Kind] }

// pair is a row of two sides. Either may be missing.
type pair struct{ Left, Right *row }

// newFileDiff describes a change without its contents. control says what makes control
// files of paths.
func newFileDiff(c tree.Change, control map[string]string) *fileDiff {
	d := &fileDiff{Path: c.Path, OldPath: c.OldPath, Kind: string(c.Kind), Folded: true}
	d.Whole = c.New != nil && c.New.Kind == tree.KindFile
	d.Control = cmp.Or(control[c.Path], control[c.OldPath])
	d.notes(c)
	return d
}

// Tick is the value of the file's tick: its path, and the path that it was renamed
// from.
func (d *fileDiff) Tick() string {
	if d.OldPath == "" {
		return url.QueryEscape(d.Path)
	}
	return url.QueryEscape(d.Path) + "&" + url.QueryEscape(d.OldPath)
}

func (d *fileDiff) notes(c tree.Change) {
	note := func(format string, args ...any) { d.Notes = append(d.Notes, fmt.Sprintf(format, args...)) }
	old, now := c.Old, c.New
	if now != nil && old == nil && (now.Kind != tree.KindFile || now.Mode != 0o644) {
		note("%s, mode %04o", now.Kind, now.Mode)
	}
	if old != nil && now == nil && old.Kind != tree.KindFile {
		note("%s", old.Kind)
	}
	if old != nil && now != nil {
		if old.Kind != now.Kind {
			note("%s became %s", old.Kind, now.Kind)
		}
		if old.Mode != now.Mode {
			note("mode %04o → %04o", old.Mode, now.Mode)
		}
		if old.UID != now.UID || old.GID != now.GID {
			note("owner %d:%d → %d:%d", old.UID, old.GID, now.UID, now.GID)
		}
	}
	if now != nil && now.Kind == tree.KindSymlink {
		note("links to %s", quote.Path(now.Target))
	}
	if now != nil && now.Mode&0o6000 != 0 {
		note("set-id bits")
	}
}

// load compares the contents. It stops when they take about as many bytes of a page as
// there is room for, and returns how many they take.
func (d *fileDiff) load(c tree.Change, open patch.Opener, ignoreSpace bool, room int, paint *painter) (bytes int) {
	d.Folded = false
	res, err := patch.Compare(c, open, maxText)
	if err != nil {
		d.Problem = err.Error()
		return 0
	}
	switch res.Form {
	case patch.Text:
		d.addHunks(res.Hunks, ignoreSpace)
		if size(c.Old) > colourFile || size(c.New) > colourFile {
			paint = nil
		}
		return d.mark(room, paint)
	case patch.Binary, patch.Large:
		d.Binary = &binaryDiff{What: "binary", Old: newBlob(c.Old), New: newBlob(c.New)}
		if res.Form == patch.Large {
			d.Binary.What = "large"
		}
		d.Binary.isImage = isImageName(c.Path)
	case patch.Nothing:
	}
	return 0
}

// addHunks adds and counts the lines of a change, without their parts.
func (d *fileDiff) addHunks(hunks []*patch.Hunk, ignoreSpace bool) {
	room := maxRows
	for _, h := range hunks {
		if d.Cut = len(h.Lines) > room; d.Cut {
			h.Lines = h.Lines[:room]
		}
		room -= len(h.Lines)
		if rows := newHunk(h, ignoreSpace); hasChange(rows.Rows) {
			d.Hunks = append(d.Hunks, rows)
		}
		if d.Cut {
			break
		}
	}
	d.count()
}

// mark gives the rows their parts, as far as there is room, and drops the others. It
// returns the bytes that are used.
func (d *fileDiff) mark(room int, paint *painter) (bytes int) {
	for i := range d.Hunks {
		paint.colourRows(d.Path, d.OldPath, d.Hunks[i].Rows)
		rows, used := markWords(d.Hunks[i].Rows, room-bytes)
		bytes += used
		if rows < len(d.Hunks[i].Rows) {
			d.Hunks[i].Rows, d.Hunks, d.Cut = d.Hunks[i].Rows[:rows], d.Hunks[:i+1], true
			break
		}
	}
	return bytes
}

// size returns the size of one side of a change.
func size(e *tree.Entry) int64 {
	if e == nil {
		return 0
	}
	return e.Size
}

func newBlob(e *tree.Entry) *blob {
	if e == nil || e.Kind != tree.KindFile {
		return nil
	}
	return &blob{e.Size, e.Digest.String()}
}

// isImageName reports whether a name is that of a raster image. Contents are checked
// before they are sent.
func isImageName(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png", ".jpg", ".jpeg", ".gif":
		return true
	}
	return false
}

// showPictures adds the sides of a picture that a run changed.
func (d *fileDiff) showPictures(run string) {
	if d.Binary == nil || !d.Binary.isImage {
		return
	}
	for side, b := range map[string]*blob{"old": d.Binary.Old, "new": d.Binary.New} {
		if b != nil && b.Size <= maxImage {
			name := map[string]string{"old": "before", "new": "after"}[side]
			d.Pictures = append(d.Pictures, picture{name, path("runs", run, "image") + query("side", side, "path", d.Path)})
		}
	}
	slices.SortFunc(d.Pictures, func(a, b picture) int { return strings.Compare(b.Side, a.Side) }) // before, after
}

func hasChange(rows []row) bool {
	for _, r := range rows {
		if r.Kind != " " {
			return true
		}
	}
	return false
}

func (d *fileDiff) count() {
	for _, h := range d.Hunks {
		for _, r := range h.Rows {
			switch r.Kind {
			case "+":
				d.Added++
			case "-":
				d.Gone++
			}
		}
	}
}

// newHunk numbers the lines of a hunk.
func newHunk(h *patch.Hunk, ignoreSpace bool) hunk {
	old, now := h.FromLine, h.ToLine
	out := hunk{Head: fmt.Sprintf("line %d", max(now, 1))}
	for _, l := range h.Lines {
		text, ended := strings.CutSuffix(l.Content, "\n")
		r := row{text: text, NoEnd: !ended}
		switch l.Kind {
		case patch.Equal:
			r.Kind, r.Old, r.New = " ", old, now
			old, now = old+1, now+1
		case patch.Delete:
			r.Kind, r.Old = "-", old
			old++
		case patch.Insert:
			r.Kind, r.New = "+", now
			now++
		}
		out.Rows = append(out.Rows, r)
	}
	if ignoreSpace {
		out.Rows = withoutSpace(out.Rows)
	}
	return out
}

// Pairs returns the rows of a hunk for two columns.
func (h hunk) Pairs() []pair {
	var pairs []pair
	for i := 0; i < len(h.Rows); {
		if h.Rows[i].Kind == " " {
			pairs = append(pairs, pair{&h.Rows[i], &h.Rows[i]})
			i++
			continue
		}
		gone, added, next := block(h.Rows, i)
		for k := range max(len(gone), len(added)) {
			var p pair
			if k < len(gone) {
				p.Left = &gone[k]
			}
			if k < len(added) {
				p.Right = &added[k]
			}
			pairs = append(pairs, p)
		}
		i = next
	}
	return pairs
}

// block returns the removed and then added lines from a place on.
func block(rows []row, from int) (gone, added []row, next int) {
	at := from
	for at < len(rows) && rows[at].Kind == "-" {
		at++
	}
	gone = rows[from:at]
	begin := at
	for at < len(rows) && rows[at].Kind == "+" {
		at++
	}
	return gone, rows[begin:at], at
}

// openerOf returns what opens the two sides of a comparison.
func openerOf(res *engine.DiffResult) patch.Opener { return patch.Opener(res.Open) }
