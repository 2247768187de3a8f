package patch

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/rights"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// patch shows one change: a header, a line for each thing that changed besides
// the contents, then the contents.
func (p *printer) patch(c *tree.Change) error {
	d, err := p.compare(c)
	if err != nil {
		return err
	}
	p.line(bold, "diff --git %s %s", field("a/"+oldPath(c)), field("b/"+c.Path))
	p.header(c)
	switch d.Form {
	case Nothing:
	case Binary:
		p.digests("binary", c)
	case Large:
		p.digests("large", c)
	case Text:
		p.hunks(c, d.Hunks)
	}
	return nil
}

// field returns a name for a line with other names: there blanks need quotes.
func field(name string) string {
	q := quote.Path(name)
	if q == name && strings.Contains(q, " ") {
		return `"` + q + `"`
	}
	return q
}

// header shows everything but the contents of files.
func (p *printer) header(c *tree.Change) {
	old, now := c.Old, c.New
	switch {
	case old == nil && now == nil:
		return
	case old == nil:
		p.line(bold, "new %s mode %s", now.Kind, fullMode(now))
		p.special(nil, now)
		return
	case now == nil:
		p.line(bold, "deleted %s mode %s", old.Kind, fullMode(old))
		p.special(old, nil)
		return
	}
	if old.Kind != now.Kind {
		p.line(bold, "type %s -> %s", old.Kind, now.Kind)
	}
	if old.Mode != now.Mode {
		p.line(bold, "old mode %s", fullMode(old))
		p.line(bold, "new mode %s", fullMode(now))
	}
	if c.OldPath != "" {
		p.line(bold, "similarity index 100%%")
		p.line(bold, "rename from %s", quote.Path(c.OldPath))
		p.line(bold, "rename to %s", quote.Path(c.Path))
	}
	if old.UID != now.UID || old.GID != now.GID {
		p.line(bold, "owner %d:%d -> %d:%d", old.UID, old.GID, now.UID, now.GID)
	}
	p.special(old, now)
	if c.Kind == tree.MTimeChanged || slices.Contains(c.Also, tree.MTimeChanged) {
		const layout = "2006-01-02T15:04:05.999999999Z"
		p.line(bold, "mtime %s -> %s", old.MTime.Time().Format(layout), now.MTime.Time().Format(layout))
	}
}

// special shows link targets and attributes. Either side may be missing.
func (p *printer) special(old, now *tree.Entry) {
	was, is := target(old), target(now)
	switch {
	case was == is:
	case was == "":
		p.line(green, "new target %s", quote.Path(is))
	case is == "":
		p.line(red, "old target %s", quote.Path(was))
	default:
		p.line(bold, "target %s -> %s", quote.Path(was), quote.Path(is))
	}
	before, after := xattrs(old), xattrs(now)
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || (len(before) > 0 && before[0].Name < after[0].Name):
			p.line(red, "old %s: %s", attribute(before[0]), value(before[0]))
			before = before[1:]
		case len(before) == 0 || after[0].Name < before[0].Name:
			p.line(green, "new %s: %s", attribute(after[0]), value(after[0]))
			after = after[1:]
		default:
			if !bytes.Equal(before[0].Value, after[0].Value) {
				p.line(bold, "%s: %s -> %s", attribute(before[0]), value(before[0]), value(after[0]))
			}
			before, after = before[1:], after[1:]
		}
	}
}

func target(e *tree.Entry) string {
	if e == nil || e.Kind != tree.KindSymlink {
		return ""
	}
	return e.Target
}

func xattrs(e *tree.Entry) []fsx.Xattr {
	if e == nil {
		return nil
	}
	return e.Xattrs
}

// attribute returns the name of an attribute for people. Access control lists are
// attributes too.
func attribute(x fsx.Xattr) string {
	if name := rights.ACLName(x.Name); name != "" {
		return name
	}
	return "xattr " + quote.Path(x.Name)
}

// value shows an access control list as text, another short attribute as it is,
// and a long one by its digest.
func value(x fsx.Xattr) string {
	const short, longList = 64, 1024
	if rights.ACLName(x.Name) != "" {
		if text, ok := rights.ACLText(x.Value); ok && len(text) <= longList {
			return text
		}
	}
	if len(x.Value) > short {
		return fmt.Sprintf("sha256:%x (%d bytes)", sha256.Sum256(x.Value), len(x.Value))
	}
	return quote.Path(string(x.Value))
}

// digests shows the digests of contents that are not shown.
func (p *printer) digests(what string, c *tree.Change) {
	show := func(e *tree.Entry) string {
		kind := "sha256"
		if e.Size > tree.LargeFile && !e.PlainDigest {
			kind = "sha256-tree"
		}
		return fmt.Sprintf("%s:%s (%s)", kind, e.Digest, count(e.Size, "byte"))
	}
	switch old, now := file(c.Old), file(c.New); {
	case old == nil:
		p.line(green, "new %s %s", what, show(now))
	case now == nil:
		p.line(red, "old %s %s", what, show(old))
	default:
		p.line(bold, "%s %s -> %s", what, show(old), show(now))
	}
}

func (p *printer) hunks(c *tree.Change, hunks []*Hunk) {
	escaped := false
	for _, h := range hunks {
		for _, l := range h.Lines {
			escaped = escaped || !quote.Visible(strings.TrimSuffix(l.Content, "\n")) || looksLikeHeader(l)
		}
	}
	if escaped {
		p.line(bold, `escaped: what does not show is written as \r, \xhh or \uhhhh, a backslash as \\`)
	}
	from, to := "/dev/null", "/dev/null"
	if file(c.Old) != nil {
		from = quote.Path("a/" + oldPath(c))
	}
	if file(c.New) != nil {
		to = quote.Path("b/" + c.Path)
	}
	p.line(bold, "--- %s", from)
	p.line(bold, "+++ %s", to)
	for _, h := range hunks {
		p.line(cyan, "%s", span(h))
		for _, l := range h.Lines {
			p.content(l, escaped)
		}
	}
}

// span returns the line with the position of a hunk.
func span(h *Hunk) string {
	var from, to int
	for _, l := range h.Lines {
		if l.Kind != Insert {
			from++
		}
		if l.Kind != Delete {
			to++
		}
	}
	side := func(line, n int) string {
		switch n {
		case 0:
			return fmt.Sprintf("%d,0", line-1)
		case 1:
			return fmt.Sprint(line)
		}
		return fmt.Sprintf("%d,%d", line, n)
	}
	return fmt.Sprintf("@@ -%s +%s @@", side(h.FromLine, from), side(h.ToLine, to))
}

func (p *printer) content(l Line, escaped bool) {
	prefix, c := " ", plain
	switch l.Kind {
	case Insert:
		prefix, c = "+", green
	case Delete:
		prefix, c = "-", red
	case Equal:
	}
	s, ended := strings.CutSuffix(l.Content, "\n")
	if escaped {
		s = quote.Content(s)
		if looksLikeHeader(l) {
			s = fmt.Sprintf(`\x%02x`, s[0]) + s[1:]
		}
	}
	p.line(c, "%s%s", prefix, s)
	if !ended {
		p.line(plain, `\ No newline at end of file`)
	}
}

// looksLikeHeader reports whether a line of contents would, behind its prefix, look like
// the header of another file.
func looksLikeHeader(l Line) bool {
	mark, side := "-- ", "a/"
	switch l.Kind {
	case Insert:
		mark, side = "++ ", "b/"
	case Delete:
	case Equal:
		return false
	}
	rest, ok := strings.CutPrefix(l.Content, mark)
	return ok && (strings.HasPrefix(strings.TrimPrefix(rest, `"`), side) || strings.HasPrefix(rest, "/dev/null"))
}
