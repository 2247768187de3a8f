package workspace

import (
	"context"
	"errors"
	"time"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/tree"
)

// rereads is how often something that changes while it is read is read in all.
const rereads = 3

// racy is how old a change must be for its stamp to be trusted: a younger file
// may change again without its times showing it.
const racy = 2 * time.Second

// errMoved means that a name or directory changed under the reader, who should
// start again one level above.
var errMoved = errors.New("moved under the reader")

// scan reads a whole directory tree: it makes the manifest's nodes, bottom up,
// and on the way copies the files or keeps their contents by digest. Nothing of
// the tree stays in memory but the directories that are being read.
type scan struct {
	s    *Store
	ctx  context.Context
	what string // for progress
	w    *tree.Writer

	src     *fsx.Dir
	dst     *fsx.Dir // gets a copy; nil: files are only read
	objects *objects // gets the contents by digest; nil: not wanted
	layer   string   // the layer that will hold the files' bytes

	// old is the state before, for owners and stamps.
	old *tree.Tree
	// share says that old's nodes are edited rather than made anew. exact says
	// that a new layer or stamp alone is worth an edit.
	share, exact bool
	// stamps says that the files' stamps are worth keeping: they will be read
	// again from where they are now.
	stamps bool
	// settle says that others may change the files meanwhile.
	settle bool

	filter *leftout.Filter
	// public says that what the host keeps from others is left out.
	public bool
	// hidden are files that are left out under whatever name.
	hidden map[face]struct{}
	attrs  attrRules
	// owner says who is recorded as the owner of what is on disk.
	owner func(at site, e *tree.Entry, old *tree.Entry)

	links *linkSet
	found *findings
	crew  *crew
	count *counter
	start time.Time
}

// site is a name in a directory, "." for the directory itself. A path is long in
// a deep tree, so it is made only for those who ask.
type site struct {
	f    *frame
	name string
}

func (s site) path() string {
	dir := s.f.src.Path()
	if s.name == "." {
		return dir
	}
	return join(dir, s.name)
}

func (s *Store) newScan(ctx context.Context, what string, w *tree.Writer, src *fsx.Dir) *scan {
	return &scan{
		s: s, ctx: ctx, what: what, w: w, src: src, attrs: s.plainAttrs(), links: newLinkSet(),
		found: newFindings(), crew: newCrew(ctx), count: newCounter(ctx, what), start: time.Now(),
	}
}

// run reads the tree and returns its root and its hard links. What cannot be
// kept is refused at the end, all of it at once; with an *UnsealableError the
// rest of the tree is returned all the same.
func (sc *scan) run() (tree.Entry, tree.Links, error) {
	root := &frame{src: sc.crew.keeper.Root(sc.src)}
	if sc.old != nil {
		e := sc.old.Root()
		root.old = &e
	}
	if sc.dst != nil {
		root.dst = sc.crew.keeper.Root(sc.dst)
	}
	if err := sc.readDir(nil, root); err != nil {
		return tree.Entry{}, tree.Links{}, err
	}
	root.entry.Name = ""
	return root.entry, sc.links.links(), sc.found.err()
}
