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
	return w.b.takeBack(ctx, w)
}

func (deltaBackend) takeBack(ctx context.Context, w *Work) ([]TakenBack, error) {
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
	err = t.all()
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

// takenDir is a directory that was put in order.
type takenDir struct {
	old    *tree.Entry // nil: it is new
	landed tree.Entry
}

// all puts everything in order, a directory before what it holds. Names that go
// away meanwhile are passed over.
func (t *taking) all() error {
	info, err := t.live.Lstat(".")
	if err != nil {
		return err
	}
	root := t.before.Root()
	top, err := t.visit(t.live, ".", func() string { return "." }, info, &root, nil)
	if top == nil || err != nil {
		return err
	}
	return fsx.Walk(t.ctx, t.live, fsx.Visitor{
		Enter: func(at *fsx.Step) (bool, error) {
			if t.skips(at) {
				return false, nil
			}
			parent, below := at.Up.Data.(*takenDir)
			if !below {
				parent = top
			}
			var old *tree.Entry
			if parent.old != nil && parent.old.Kind == tree.KindDir {
				e, known, err := t.before.Child(parent.old.Sub, at.Name)
				if err != nil {
					return false, err
				}
				if known {
					old = &e
				}
			}
			dir, err := t.visit(at.Dir(), at.Name, at.Path, at.Info, old, &parent.landed)
			at.Data = dir
			return dir != nil, err
		},
		Gone: func(err error) bool { return gone(err) == nil },
	})
}

// visit puts one thing in order, and returns it if it is a directory, whose names
// come next.
func (t *taking) visit(d *fsx.Dir, name string, path func() string, info fsx.Info, old, parent *tree.Entry) (*takenDir, error) {
	if stamp := tree.StampOf(info); old != nil && info.IsRegular() && old.Stamp == stamp {
		return nil, nil //nolint:nilnil // as documented
	}
	now, err := apply.Glance(d, name)
	if now == nil || now.Kind == 0 || err != nil {
		return nil, err
	}
	landed, dropped := t.self.Land(*now, old, parent)
	if err := t.restore(d, name, path, *now, landed, dropped); err != nil {
		return nil, gone(err)
	}
	if now.Kind != tree.KindDir {
		return nil, nil //nolint:nilnil // as documented
	}
	return &takenDir{old, landed}, nil
}

func (t *taking) skips(at *fsx.Step) bool {
	if _, hidden := t.hidden[faceOf(at.Info)]; hidden {
		return true
	}
	if t.filter == nil {
		return false
	}
	_, v := t.filter.Decide(at.Path(), at.Info.IsDir())
	return v == leftout.Leave
}

// restore gives a thing the owner, the lists and the mode that it lands with.
func (t *taking) restore(d *fsx.Dir, name string, path func() string, now, landed tree.Entry, dropped []string) error {
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
		if err := d.Chown(name, landed.UID, landed.GID); err != nil {
			return err
		}
	}
	if err := setLists(d, name, now, landed); err != nil {
		return err
	}
	if now.Kind != tree.KindSymlink {
		if err := d.Chmod(name, landed.Mode); err != nil {
			return err
		}
	}
	for _, what := range dropped {
		t.taken = append(t.taken, TakenBack{path(), what})
	}
	return nil
}

// setLists replaces the access control lists; other attributes are the same.
func setLists(d *fsx.Dir, name string, now, landed tree.Entry) error {
	for _, x := range now.Xattrs {
		if rights.ACLName(x.Name) != "" {
			if err := d.RemoveXattr(name, x.Name); err != nil && !errors.Is(err, unix.ENODATA) {
				return err
			}
		}
	}
	for _, x := range landed.Xattrs {
		if rights.ACLName(x.Name) != "" {
			if err := d.SetXattr(name, x.Name, x.Value); err != nil {
				return err
			}
		}
	}
	return nil
}
