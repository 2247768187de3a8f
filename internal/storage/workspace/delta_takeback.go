package workspace

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/rights"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// TakenBack is an owner or an access control list that a run set in a live
// directory, and that was taken back.
type TakenBack struct{ Path, What string }

// TakeBack makes the files of a delta cell's live directory the operator's again,
// once nothing runs in the cell: owners and access control lists become what they
// were when the run began, and new files get the operator as owner and no lists.
// It does not touch what is left out. It can be repeated.
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
	t := &takeBack{
		ctx: ctx, live: live, before: before, filter: keepOnly(w.c.Rules, w.c.Kept), hidden: w.hiddenFiles(),
		self: rights.Self(false), root: w.s.opt.Root,
	}
	err = t.all()
	return t.taken, err
}

type takeBack struct {
	ctx    context.Context
	live   *fsx.Dir
	before *tree.Tree
	filter *secretfiles.Filter
	hidden map[fileID]struct{}
	self   rights.Operator
	root   bool // only root can change owners
	taken  []TakenBack
}

// takenDir is a directory whose owner and lists are right.
type takenDir struct {
	old    *tree.Entry // nil: it is new
	onHost tree.Entry
}

// all corrects everything, a directory before its contents. It skips names that
// disappear meanwhile.
func (t *takeBack) all() error {
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
			dir, err := t.visit(at.Dir(), at.Name, at.Path, at.Info, old, &parent.onHost)
			at.Data = dir
			return dir != nil, err
		},
		Gone: func(err error) bool { return ignoreMissing(err) == nil },
	})
}

// visit corrects one entry. It returns a directory, whose names come next.
func (t *takeBack) visit(d *fsx.Dir, name string, path func() string, info fsx.Info, old, parent *tree.Entry) (*takenDir, error) {
	if stamp := tree.StampOf(info); old != nil && info.IsRegular() && old.Stamp == stamp {
		return nil, nil //nolint:nilnil // as documented
	}
	now, err := apply.ProbeMetadata(d, name)
	if now == nil || now.Kind == 0 || err != nil {
		return nil, err
	}
	onHost, dropped := t.self.OnHost(*now, old, parent)
	if err := t.restore(d, name, path, *now, onHost, dropped); err != nil {
		return nil, ignoreMissing(err)
	}
	if now.Kind != tree.KindDir {
		return nil, nil //nolint:nilnil // as documented
	}
	return &takenDir{old, onHost}, nil
}

func (t *takeBack) skips(at *fsx.Step) bool {
	if _, hidden := t.hidden[fileIDOf(at.Info)]; hidden {
		return true
	}
	if t.filter == nil {
		return false
	}
	_, v := t.filter.Decide(at.Path(), at.Info.IsDir())
	return v == secretfiles.Leave
}

// restore sets the owner, the lists and the mode that an entry has on the host.
func (t *takeBack) restore(d *fsx.Dir, name string, path func() string, now, onHost tree.Entry, dropped []string) error {
	foreign := t.root && (now.UID != onHost.UID || now.GID != onHost.GID)
	lists := !slices.EqualFunc(now.Xattrs, onHost.Xattrs, func(a, b fsx.Xattr) bool {
		return a.Name == b.Name && bytes.Equal(a.Value, b.Value)
	})
	if !foreign && !lists && now.Mode == onHost.Mode {
		return nil
	}
	if !t.root && now.UID != t.self.UID {
		return nil // of another user: no command of an ordinary user's cell made it
	}
	if foreign {
		if err := d.Chown(name, onHost.UID, onHost.GID); err != nil {
			return err
		}
	}
	if err := setLists(d, name, now, onHost); err != nil {
		return err
	}
	if now.Kind != tree.KindSymlink {
		if err := d.Chmod(name, onHost.Mode); err != nil {
			return err
		}
	}
	for _, what := range dropped {
		t.taken = append(t.taken, TakenBack{path(), what})
	}
	return nil
}

// setLists replaces the access control lists. The other attributes are the same.
func setLists(d *fsx.Dir, name string, now, onHost tree.Entry) error {
	for _, x := range now.Xattrs {
		if rights.ACLName(x.Name) != "" {
			if err := d.RemoveXattr(name, x.Name); err != nil && !errors.Is(err, unix.ENODATA) {
				return err
			}
		}
	}
	for _, x := range onHost.Xattrs {
		if rights.ACLName(x.Name) != "" {
			if err := d.SetXattr(name, x.Name, x.Value); err != nil {
				return err
			}
		}
	}
	return nil
}
