package workspace

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/apply"
	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/rights"
	"github.com/forkcell/forkcell/internal/tree"
)

// TakenBack is something that a run gave away in a live directory, and that was
// taken back.
type TakenBack struct{ Path, What string }

// TakeBack makes the files of a delta cell's live directory the operator's own
// again, once nothing runs in the cell: owners and access control lists become
// what they were when the run began, and new files have the operator as owner and
// no lists. What is left out is not touched. It can be repeated.
func (w *Work) TakeBack(ctx context.Context) ([]TakenBack, error) {
	if w.c.Backend != BackendDelta {
		return nil, nil
	}
	live, err := fsx.OpenRoot(w.c.Live)
	if err != nil {
		return nil, err
	}
	defer live.Close()
	before, err := w.s.area(w.layer, AreaWorkspace)
	if err != nil {
		return nil, err
	}
	t := &taking{
		ctx: ctx, live: live, before: before, filter: keepOnly(w.c.Rules, w.c.Kept), hidden: w.hidden(),
		self: rights.Self(false), root: w.s.opt.Root,
	}
	err = t.visit(".", nil)
	return t.taken, err
}

type taking struct {
	ctx    context.Context
	live   *fsx.Dir
	before *tree.Tree
	filter *leftout.Filter
	hidden map[face]struct{}
	self   rights.Operator
	root   bool // only root can change owners
	taken  []TakenBack
}

// visit puts one thing in order and then, if it is a directory, what it holds.
// Names that go away meanwhile are passed over.
func (t *taking) visit(path string, parent *tree.Entry) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	info, err := t.live.Lstat(path)
	if err != nil {
		return gone(err)
	}
	if t.skips(path, info) {
		return nil
	}
	old, known, err := t.before.Lookup(path)
	if err != nil {
		return err
	}
	if stamp := (tree.Stamp{Ino: info.Ino, CTime: info.CTime, Dev: info.Dev}); known && info.IsRegular() && old.Stamp == stamp {
		return nil
	}
	now, err := apply.Glance(t.live, path)
	if now == nil || now.Kind == 0 || err != nil {
		return err
	}
	var had *tree.Entry
	if known {
		had = &old
	}
	landed, dropped := t.self.Land(*now, had, parent)
	if err := t.restore(path, *now, landed, dropped); err != nil {
		return gone(err)
	}
	if now.Kind != tree.KindDir {
		return nil
	}
	names, err := t.names(path)
	if err != nil {
		return gone(err)
	}
	for _, name := range names {
		if err := t.visit(join(path, name), &landed); err != nil {
			return err
		}
	}
	return nil
}

func (t *taking) skips(path string, info fsx.Info) bool {
	if _, hidden := t.hidden[faceOf(info)]; hidden {
		return true
	}
	if t.filter == nil || path == "." {
		return false
	}
	_, v := t.filter.Decide(path, info.IsDir())
	return v == leftout.Leave
}

func (t *taking) names(path string) ([]string, error) {
	d, err := t.live.OpenDir(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Names()
}

// restore gives a thing the owner, the lists and the mode that it lands with.
func (t *taking) restore(path string, now, landed tree.Entry, dropped []string) error {
	foreign := t.root && (now.UID != landed.UID || now.GID != landed.GID)
	lists := !slices.EqualFunc(now.Xattrs, landed.Xattrs, func(a, b fsx.Xattr) bool {
		return a.Name == b.Name && bytes.Equal(a.Value, b.Value)
	})
	if !foreign && !lists && now.Mode == landed.Mode {
		return nil
	}
	if !t.root && now.UID != t.self.UID {
		return nil // somebody else's; no command of an ordinary user's cell made it
	}
	if foreign {
		if err := t.live.Chown(path, landed.UID, landed.GID); err != nil {
			return err
		}
	}
	if err := t.setLists(path, now, landed); err != nil {
		return err
	}
	if now.Kind != tree.KindSymlink {
		if err := t.live.Chmod(path, landed.Mode); err != nil {
			return err
		}
	}
	for _, what := range dropped {
		t.taken = append(t.taken, TakenBack{path, what})
	}
	return nil
}

// setLists replaces the access control lists; other attributes are the same.
func (t *taking) setLists(path string, now, landed tree.Entry) error {
	for _, x := range now.Xattrs {
		if rights.ACLName(x.Name) != "" {
			if err := t.live.RemoveXattr(path, x.Name); err != nil && !errors.Is(err, unix.ENODATA) {
				return err
			}
		}
	}
	for _, x := range landed.Xattrs {
		if rights.ACLName(x.Name) != "" {
			if err := t.live.SetXattr(path, x.Name, x.Value); err != nil {
				return err
			}
		}
	}
	return nil
}
