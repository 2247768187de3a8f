package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// Size is how much a publication changes.
type Size struct {
	Files, Lines, Areas, Binaries int
	Bytes                         int64
}

// gates are the checks of what a commit changes. Each one that refuses adds a line.
type gates struct {
	s      *scratch
	repo   *hostRepo
	rules  Rules
	secret func(path string) (rule string, is bool)
	size   Size
	lines  []string
	byBase int // how many of them are for a limit of the base commit,
	only   int // and for none of the operator
}

func (g *gates) refuse(format string, args ...any) {
	g.lines = append(g.lines, fmt.Sprintf(format, args...))
}

// check runs all gates on the changes from one tree to another.
func (g *gates) check(ctx context.Context, from, to string, edits []edit) error {
	if err := g.measure(ctx, from, to, edits); err != nil {
		return err
	}
	for _, l := range []struct {
		have, limit int
		what, name  string
	}{
		{g.size.Files, g.rules.Files, "changed file", "files"},
		{g.size.Lines, g.rules.Lines, "changed line", "lines"},
		{int(g.size.Bytes), g.rules.Bytes, "changed byte", "bytes"},
		{g.size.Areas, g.rules.Areas, "top-level area", "areas"},
		{g.size.Binaries, g.rules.Binaries, "binary file", "binaries"},
	} {
		if l.have <= l.limit {
			continue
		}
		by := ""
		if own, is := g.rules.ofBase[l.name]; is {
			by = " by " + settingsFile + " of the base commit"
			g.byBase++
			if l.have <= own {
				g.only++
			}
		}
		g.refuse("size: %s, the limit is %d%s", api.Counted(l.have, l.what), l.limit, by)
	}
	links, err := g.s.links(ctx, from)
	if err != nil {
		return err
	}
	if err := g.control(ctx, edits, links); err != nil {
		return err
	}
	if err := g.secrets(edits); err != nil {
		return err
	}
	slices.Sort(g.lines)
	return nil
}

// verdict returns the refusal of all gates, or nil.
func (g *gates) verdict() error {
	if len(g.lines) == 0 {
		return nil
	}
	hint := "accept a part of it"
	if g.only < len(g.lines) {
		hint += ", or loosen the gate in publish.yaml of your configuration directory"
	}
	if g.byBase > 0 { // where the operator's file loosens nothing
		hint += "; what the base commit limits changes only with a commit there"
	}
	return &api.Error{
		Kind: api.Refused, Code: api.CodeGate, Message: "the gates refuse the work, nothing was published",
		Hint: hint, Details: g.lines,
	}
}

// measure counts files, lines, bytes, areas and binaries. A file is binary if git thinks
// so without attributes, or if it has a NUL byte.
func (g *gates) measure(ctx context.Context, from, to string, edits []edit) error {
	areas, binary, seen := map[string]bool{}, map[string]bool{}, map[string]bool{}
	c := g.s.in("diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", from, to)
	err := g.s.git.entries(ctx, c, func(line string) error {
		fields := strings.SplitN(line, "\t", 3)
		if len(fields) != 3 {
			return errors.New("git diff-tree: unexpected output")
		}
		top, _, below := strings.Cut(fields[2], "/")
		if !below {
			top = "."
		}
		areas[top] = true
		seen[fields[2]] = true
		if fields[0] == "-" {
			binary[fields[2]] = true
			return nil
		}
		added, err := strconv.Atoi(fields[0])
		removed, err2 := strconv.Atoi(fields[1])
		g.size.Lines += added + removed
		return errors.Join(err, err2)
	})
	if err != nil {
		return err
	}
	if err := complete(seen, edits); err != nil {
		return err
	}
	for _, e := range edits {
		if e.now == nil || binary[e.path] {
			continue
		}
		err := g.windows(e.stored, func(text []byte) {
			if bytes.IndexByte(text, 0) >= 0 {
				binary[e.path] = true
			}
		})
		if err != nil {
			return err
		}
	}
	g.size.Files, g.size.Areas, g.size.Binaries = len(seen), len(areas), len(binary)
	return g.weigh(edits, binary)
}

// complete checks that the commit changes exactly the paths of the edits: git leaves
// names out under which some file system would find a repository.
func complete(seen map[string]bool, edits []edit) error {
	var missing []string
	for _, e := range edits {
		if !seen[e.path] {
			missing = append(missing, quote.Path(e.path)+": git takes it for a repository")
		}
	}
	if len(missing) > 0 {
		return noCommit(missing)
	}
	if len(seen) != len(edits) {
		return fmt.Errorf("the commit changes %d paths, and the work %d", len(seen), len(edits))
	}
	return nil
}

// control refuses files that make a host run something later, or a forge as soon as
// they are pushed, also behind links.
func (g *gates) control(ctx context.Context, edits []edit, links linkTargets) error {
	gate, err := outgoing.New(outgoing.Place{}, g.rules.allowControl)
	if err != nil {
		return err
	}
	gate.Follow(links.control)
	if err := gate.Obey(outgoing.ViewOf(g.repo.root), g.repo.path); err != nil {
		return err
	}
	before := &outgoing.View{Names: links.names.view}
	gate.CompareRepositories(before, outgoing.Overlay(&outgoing.View{Names: namesOf(edits).view, Open: g.openStored(edits)}, before))
	for _, e := range edits {
		if gate.Allows(e.path, false) {
			continue
		}
		verdict, what, err := gate.Judge(ctx, outgoing.Entry{Path: e.path, File: e.now == nil || e.now.mode != modeLink, Gone: e.now == nil})
		if err != nil {
			return err
		}
		if verdict == outgoing.Behind {
			verdict, what = outgoing.Held, "in the directory of a git repository, and of no use outside"
		}
		if verdict == outgoing.Held {
			g.refuse("control file: %s: %s", quote.Path(e.path), what)
		}
		if what, is := links.pushed.Find(e.path, false); is {
			g.refuse("runs when pushed: %s: %s", quote.Path(e.path), what)
		}
	}
	return nil
}

// openStored opens the new files of a commit.
func (g *gates) openStored(edits []edit) func(p string) (*os.File, error) {
	at := map[string]string{}
	for _, e := range edits {
		if e.now != nil {
			at[e.path] = e.stored
		}
	}
	return func(p string) (*os.File, error) {
		name, ok := at[p]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
		}
		return g.s.dir.OpenFile(name)
	}
}

// secrets refuses new files that the secret rules name, and names and contents that
// look like well-known secrets and are not in the base already. A secret itself is
// never shown.
func (g *gates) secrets(edits []edit) error {
	for _, e := range edits {
		if e.now == nil {
			continue
		}
		if e.old == nil && redact.Has(e.path) {
			g.refuse("secret: the path of a new file looks like it has a key or a token: %s", quote.Path(redact.Text(e.path)))
			continue
		}
		if rule, is := g.secret(e.path); is && e.old == nil {
			g.refuse("secret: %s: the rule %s", quote.Path(e.path), rule)
			continue
		}
		found, err := g.find(e.stored)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			continue
		}
		var known map[string]bool
		if e.old != nil {
			if known, err = g.find(e.was); err != nil {
				return err
			}
		}
		for s := range found {
			if !known[s] {
				g.refuse("secret: %s: its contents look like a key or a token", quote.Path(e.path))
				break
			}
		}
	}
	return nil
}

// find returns what looks like a secret in a file of the scratch directory.
func (g *gates) find(name string) (map[string]bool, error) {
	found := map[string]bool{}
	err := g.windows(name, func(text []byte) {
		for _, s := range redact.Find(text) {
			found[s] = true
		}
	})
	return found, err
}

const (
	window  = 1 << 20
	overlap = 16 << 10 // longer than any secret that is looked for
)

// windows calls fn with overlapping parts of a file of the scratch directory.
func (g *gates) windows(name string, fn func([]byte)) error { return windows(g.s.dir, name, fn) }

func windows(dir *fsx.Dir, name string, fn func([]byte)) error {
	f, err := dir.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, window)
	kept := 0
	for {
		n, err := io.ReadFull(f, buf[kept:])
		if n > 0 {
			fn(buf[:kept+n])
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kept = copy(buf, buf[len(buf)-overlap:])
	}
}
