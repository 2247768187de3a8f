package workspace

import (
	"context"
	"errors"
	"time"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// rereads is the number of attempts to read something that changes meanwhile.
const rereads = 3

// racy is the age from which a change's stamp is trusted: a younger file may
// change again without a new time.
const racy = 2 * time.Second

// errMoved means that a name or directory changed while it was read. The reader
// starts again one level above.
var errMoved = errors.New("changed while it was read")

// scan reads a directory tree. It makes the manifest's nodes, bottom up, and on
// the way copies the files or keeps their contents by digest. Only the directories
// that are being read are in memory.
type scan struct {
	s    *Store
	ctx  context.Context
	what string // for progress
	w    *tree.Writer

	src     *fsx.Dir
	dst     *fsx.Dir // gets a copy; nil if files are only read
	objects *objects // gets the contents by digest; nil if they are not kept
	layer   string   // the layer that will hold the files' bytes

	// old is the state before, for owners and stamps.
	old *tree.Tree
	// share means that nodes of old are edited rather than made anew; exact,
	// that a new layer or stamp alone is a change.
	share, exact bool
	// stamps means that stamps are kept: the files will be read again from
	// where they are now.
	stamps bool
	// settle means that others may change the files meanwhile.
	settle bool

	filter *secretfiles.Filter
	// public leaves out what its owner on the host keeps from others.
	public bool
	// hidden are files that are left out whatever their names.
	hidden map[fileID]struct{}
	attrs  attrRules
	// owner, if set, changes the owner that is recorded for an entry.
	owner func(at site, e *tree.Entry, old *tree.Entry)

	links *linkSet
	found *findings
	pool  *pool
	count *counter
	start time.Time
}

// site is a name in a directory, "." for the directory itself. Its path is
// computed only when it is needed: in a deep tree it is long.
type site struct {
	f    *dirScan
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
		found: newFindings(), pool: newPool(ctx), count: newCounter(ctx, what), start: time.Now(),
	}
}

// run reads the tree and returns its root and its hard links. What cannot be kept
// is refused at the end, in one *UnsealableError; then the rest of the tree is
// returned too.
func (sc *scan) run() (tree.Entry, tree.Links, error) {
	root := &dirScan{src: sc.pool.keeper.Root(sc.src)}
	if sc.old != nil {
		e := sc.old.Root()
		root.old = &e
	}
	if sc.dst != nil {
		root.dst = sc.pool.keeper.Root(sc.dst)
	}
	if err := sc.readDir(nil, root); err != nil {
		return tree.Entry{}, tree.Links{}, err
	}
	root.entry.Name = ""
	return root.entry, sc.links.links(), sc.found.err()
}
