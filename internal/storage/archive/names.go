package archive

import (
	"archive/tar"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// What was extracted is kept as a tree of names, and directories are opened by
// name in the one above: a path for each level of a deep tree would take memory
// and time by the square of its depth.

// node is an extracted entry.
type node struct {
	up    *node // nil for the root
	name  string
	kind  tree.Kind
	owner *Owner // nil if the archive does not list it
	dir   *dirNode
}

// dirNode is the additional part of a directory's node.
type dirNode struct {
	ref  *fsx.Ref
	kids map[string]*node
	meta *metadata // nil if the archive does not list it
}

// metadata is the recorded metadata of an entry, without its owner.
type metadata struct {
	mode   uint32
	mtime  time.Time
	xattrs []fsx.Xattr
}

// metadataOf copies what is needed from a header, so that the rest of it can be
// collected.
func metadataOf(h *tar.Header) *metadata {
	m := &metadata{mode: uint32(h.Mode & 0o7777), mtime: h.ModTime}
	for key, value := range h.PAXRecords {
		if strings.HasPrefix(key, recordXattr) {
			m.xattrs = append(m.xattrs, fsx.Xattr{Name: strings.Clone(xattrName(key)), Value: []byte(value)})
		}
	}
	slices.SortFunc(m.xattrs, func(a, b fsx.Xattr) int { return strings.Compare(a.Name, b.Name) })
	return m
}

// path returns the path of a node, for messages.
func (n *node) path() string {
	var names []string
	for ; n.up != nil; n = n.up {
		names = append(names, n.name)
	}
	if len(names) == 0 {
		return "."
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// in opens the directory that a node is in, and returns the node's name there.
// The caller calls release.
func (n *node) in() (d *fsx.Dir, name string, release func(), err error) {
	ref, name := n.dirRef(), n.name
	if n.up == nil {
		name = "."
	}
	d, err = ref.Open()
	return d, name, ref.Release, err
}

// dirRef returns the directory above a node; for the root, the root itself.
func (n *node) dirRef() *fsx.Ref {
	if n.up == nil {
		return n.dir.ref
	}
	return n.up.dir.ref
}

// kid returns the node of a name in a directory; nil if there is none.
func (n *node) kid(name string) *node {
	if n.dir == nil {
		return nil
	}
	return n.dir.kids[name]
}

// cursor remembers the directories above the entry before: most entries are near
// it.
type cursor struct {
	path  string
	above []waypoint
}

type waypoint struct {
	end int // of the node's path in the cursor's
	n   *node
}

// sharedParent returns the deepest remembered directory above p, and the rest of p
// below it. It forgets directories that are not above p.
func (c *cursor) sharedParent(root *node, p string) (n *node, rest string) {
	same := fsx.CommonPrefix(c.path, p)
	for last := len(c.above) - 1; last >= 0; last-- {
		end := c.above[last].end
		if end <= same && end < len(p) && p[end] == '/' {
			c.path = p
			return c.above[last].n, p[end+1:]
		}
		c.above = c.above[:last]
	}
	c.path = p
	return root, p
}

// parent returns the directory that p is in and p's name there. It makes the
// directories that do not exist yet.
func (x *extractor) parent(name, p string) (dir *node, base string, err error) {
	dir, rest := x.at.sharedParent(x.root, p)
	for {
		first, tail, more := strings.Cut(rest, "/")
		if !more {
			return dir, first, nil
		}
		end := len(p) - len(tail) - 1
		kid := dir.kid(first)
		switch {
		case kid == nil:
			if kid, err = x.makeDir(dir, first); err != nil {
				return nil, "", err
			}
		case kid.kind != tree.KindDir:
			return nil, "", refuse(name, "it is below %s, which is a %s", quote.Path(p[:end]), kid.kind)
		}
		x.at.above = append(x.at.above, waypoint{end, kid})
		dir, rest = kid, tail
	}
}

// lookup returns the node of a path; nil if there is none.
func (x *extractor) lookup(p string) *node {
	if p == "." {
		return x.root
	}
	n, rest := x.at.sharedParent(x.root, p)
	for name := range strings.SplitSeq(rest, "/") {
		if n = n.kid(name); n == nil {
			return nil
		}
	}
	return n
}

// add adds a node to a directory. It bounds the number of nodes: one long name can
// require any number of directories.
func (x *extractor) add(dir *node, name string, k tree.Kind) (*node, error) {
	if x.nodes++; x.nodes > x.opt.MaxEntries {
		return nil, fmt.Errorf("%w: more than %d entries", ErrArchive, x.opt.MaxEntries)
	}
	if x.in.entries++; x.in.take() != nil {
		return nil, x.in.source.err
	}
	n := &node{up: dir, name: strings.Clone(name), kind: k}
	if k == tree.KindDir {
		n.dir = &dirNode{ref: dir.dir.ref.Child(n.name)}
	}
	if dir.dir.kids == nil {
		dir.dir.kids = map[string]*node{}
	}
	dir.dir.kids[n.name] = n
	return n, nil
}

func (x *extractor) makeDir(in *node, name string) (*node, error) {
	n, err := x.add(in, name, tree.KindDir)
	if err != nil {
		return nil, err
	}
	d, name, release, err := n.in()
	if err != nil {
		return nil, err
	}
	defer release()
	return n, d.Mkdir(name, 0o700)
}

// finishDirs sets the recorded metadata of the directories, the deepest first,
// when all entries exist: a mode may forbid making entries, an entry changes the
// time of its directory, and a default ACL would be inherited.
func (x *extractor) finishDirs() error {
	stack := []*finishing{{n: x.root, left: x.root.subdirs()}}
	for len(stack) > 0 {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		top := stack[len(stack)-1]
		if len(top.left) > 0 {
			next := top.left[0]
			top.left = top.left[1:]
			stack = append(stack, &finishing{n: next, left: next.subdirs()})
			continue
		}
		stack = stack[:len(stack)-1]
		if err := x.finishDir(top.n); err != nil {
			return err
		}
		top.n.dir.ref.Close()
	}
	return nil
}

// finishing is a directory whose subdirectories come first.
type finishing struct {
	n    *node
	left []*node
}

func (n *node) subdirs() []*node {
	var all []*node
	for _, k := range n.dir.kids {
		if k.kind == tree.KindDir {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	return all
}

func (x *extractor) finishDir(n *node) error {
	if n.dir.meta != nil {
		d, err := n.dir.ref.Open()
		if err != nil {
			return err
		}
		defer n.dir.ref.Release()
		return x.metadata(d, ".", n, n.dir.meta)
	}
	if n.up == nil {
		return nil
	}
	d, name, release, err := n.in()
	if err != nil {
		return err
	}
	defer release()
	return d.Chmod(name, 0o755)
}

// Owners has the recorded owners of the extracted entries.
type Owners struct{ root *node }

// Of returns the recorded owner of a path, and reports whether the archive lists
// it.
func (o Owners) Of(path string) (Owner, bool) {
	n := o.root
	if path != "." {
		for name := range strings.SplitSeq(path, "/") {
			if n = n.kid(name); n == nil {
				return Owner{}, false
			}
		}
	}
	if n.owner == nil {
		return Owner{}, false
	}
	return *n.owner, true
}
