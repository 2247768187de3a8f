package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

const (
	// maxCommits bounds the commits of one publication.
	maxCommits = 100
	// maxEdits bounds the paths that one commit changes: a few objects that name each
	// other can stand for any number of them.
	maxEdits = 100_000
	// maxText bounds the message of a commit.
	maxText = 64 << 10
)

// History is the work's own repository, of which only commits, trees and messages are
// used. All of it is untrusted.
type History struct {
	// Head is the id of the newest commit.
	Head string
	// Objects are the files in which the repository keeps its objects.
	Objects []ObjectFile
}

// ObjectFile is a file of objects. Its name is relative to the directory of objects.
type ObjectFile struct {
	Name string
	File *File
}

// objectName is the name of a loose object, a pack or the index of a pack.
var objectName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9a-f]{2}/[0-9a-f]{38}|pack/pack-[0-9a-f]{40}\.(pack|idx))$`)
})

// ownCommit is a commit of the work.
type ownCommit struct{ id, tree, message string }

func refuseHistory(format string, args ...any) error {
	return api.Refusef(api.CodeGate, "without --keep-commits the work is one commit", "the commits of the cell: %s", fmt.Sprintf(format, args...))
}

// fetchHistory copies the work's commits into the scratch repository, where each
// object is hashed and checked, and returns those after the base, the oldest first.
func (s *scratch) fetchHistory(ctx context.Context, h *History, base string) ([]ownCommit, error) {
	if !isObjectID(h.Head) {
		return nil, refuseHistory("HEAD is no commit")
	}
	if err := s.initRepo(ctx, "cell.git"); err != nil {
		return nil, err
	}
	left := int64(maxBytes)
	for _, o := range h.Objects {
		if !objectName().MatchString(o.Name) {
			continue // caches of git, which are not believed
		}
		to := path.Join("cell.git/objects", o.Name)
		if err := s.dir.MkdirAll(path.Dir(to), 0o700); err != nil {
			return nil, err
		}
		n, err := s.keep(o.File, to, left)
		if err != nil {
			return nil, err
		}
		left -= n
	}
	from := s.path("cell.git")
	_, err := s.git.run(ctx, call{args: []string{"update-ref", borrow, h.Head}, repo: from})
	if err == nil {
		c := s.in("fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--upload-pack=git-upload-pack", from, borrow+":refs/heads/cell")
		c.protocols = "file"
		_, err = s.git.run(ctx, c)
	}
	if err != nil {
		return nil, refuseHistory("%v", err)
	}
	return s.ownCommits(ctx, base)
}

// ownCommits lists the commits after the base. They must be one line.
func (s *scratch) ownCommits(ctx context.Context, base string) ([]ownCommit, error) {
	out, err := s.git.run(ctx, s.in("rev-list", "--reverse", "--topo-order", "--parents", "--max-count="+strconv.Itoa(maxCommits+1), "refs/heads/cell", "^"+base))
	if err != nil {
		return nil, refuseHistory("%v", err)
	}
	var list []ownCommit
	last := base
	for line := range strings.Lines(string(out)) {
		ids := strings.Fields(line)
		if len(ids) != 2 || ids[1] != last {
			return nil, refuseHistory("they are not one line that begins at the base %s", base)
		}
		last = ids[0]
		c, err := s.ownCommit(ctx, ids[0])
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	switch {
	case len(list) == 0:
		return nil, refuseHistory("there are none after the base %s", base)
	case len(list) > maxCommits:
		return nil, refuseHistory("there are more than %d", maxCommits)
	}
	return list, nil
}

// ownCommit reads tree and message of a commit.
func (s *scratch) ownCommit(ctx context.Context, id string) (ownCommit, error) {
	raw, err := s.git.run(ctx, s.in("cat-file", "commit", id))
	if err != nil {
		return ownCommit{}, err
	}
	head, text, _ := strings.Cut(string(raw), "\n\n")
	tree, _, _ := strings.Cut(strings.TrimPrefix(head, "tree "), "\n")
	text = strings.TrimSpace(text)
	switch {
	case !isObjectID(tree):
		return ownCommit{}, refuseHistory("%s has no tree", id)
	case len(text) > maxText || !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return ownCommit{}, refuseHistory("the message of %s is no text, or has more than %d bytes", id, maxText)
	case text == "":
		text = "(no message)"
	}
	return ownCommit{id, tree, text}, nil
}

// checkCommit runs the gates on one commit: what a later one removes is published too.
func (w *Work) checkCommit(ctx context.Context, c ownCommit, before string, edits []edit) error {
	g := &gates{s: w.s, repo: w.repo, rules: w.Rules, secret: w.opt.Secret}
	if err := g.check(ctx, before, c.tree, edits); err != nil {
		return err
	}
	if redact.Has(c.message) {
		g.refuse("secret: its message looks like it has a key or a token")
	}
	for i, line := range g.lines {
		g.lines[i] = "commit " + c.id[:12] + ": " + line
	}
	return g.verdict()
}

// rebuild makes each commit of the work again, with the operator as its author, and
// returns the newest.
func (w *Work) rebuild(ctx context.Context, commit func(tree, parent, message string) (string, error)) (string, error) {
	list, err := w.s.fetchHistory(ctx, w.opt.History, w.BaseCommit)
	if err != nil {
		return "", err
	}
	if last := list[len(list)-1]; last.tree != w.Tree {
		return "", refuseHistory("the accepted state differs from the newest one")
	}
	before := w.BaseCommit
	for i, c := range list {
		edits, err := w.s.diff(ctx, before, c.tree, i)
		if err != nil {
			return "", err
		}
		if err := w.checkCommit(ctx, c, before, edits); err != nil {
			return "", err
		}
		before = c.tree
	}
	parent := w.BaseCommit
	for _, c := range list {
		if parent, err = commit(c.tree, parent, message(c.message, "", w.opt.Trailers)); err != nil {
			return "", err
		}
	}
	w.Commits = len(list)
	return parent, nil
}

// diff lists what changes from one tree to the next, and stores both sides for the
// gates.
func (s *scratch) diff(ctx context.Context, from, to string, n int) ([]edit, error) {
	var edits []edit
	var head []string
	err := s.git.entries(ctx, s.in("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to), func(part string) error {
		if head == nil {
			if head = strings.Fields(part); len(head) != 5 || !strings.HasPrefix(head[0], ":") {
				return errors.New("git diff-tree: unexpected output")
			}
			return nil
		}
		e := edit{path: part}
		if mode := strings.TrimPrefix(head[0], ":"); mode != "000000" {
			e.old = &object{mode, head[2]}
		}
		if head[1] != "000000" {
			e.now = &object{head[1], head[3]}
		}
		head = nil
		if e.old != nil && e.old.mode == modeModule || e.now != nil && e.now.mode == modeModule {
			return refuseHistory("%s is a submodule", quote.Path(part))
		}
		if edits = append(edits, e); len(edits) > maxEdits {
			return refuseHistory("one changes more than %d paths", maxEdits)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range edits {
		e := &edits[i]
		name := fmt.Sprintf("blobs/c%d-%d", n, i)
		e.stored, e.was = name+"-new", name+"-old"
		if err := errors.Join(s.extract(ctx, e.now, e.stored), s.extract(ctx, e.old, e.was)); err != nil {
			return nil, err
		}
	}
	return edits, nil
}

// extract writes the contents of an object to a file of the scratch directory.
func (s *scratch) extract(ctx context.Context, o *object, name string) error {
	if o == nil {
		return nil
	}
	f, err := s.dir.Create(name, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(s.git.stream(ctx, s.in("cat-file", "blob", o.id), &budget{f, &s.extracted}), f.Close())
}

// budget writes to a file as long as all such files together are not too large.
type budget struct {
	to   io.Writer
	used *int64
}

func (b *budget) Write(p []byte) (int, error) {
	if *b.used += int64(len(p)); *b.used > maxBytes {
		return 0, api.Refusef(api.CodeTooLarge, "", "the commits have more than %d bytes", int64(maxBytes))
	}
	return b.to.Write(p)
}
