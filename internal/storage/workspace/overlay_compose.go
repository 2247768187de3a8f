package workspace

import (
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// compose writes the edits as an upper directory, as the kernel would.
func (overlayBackend) compose(ed *editing) error {
	sl := ed.sl
	root, links, split, err := ed.tree(sl.pw.w, sl.layer)
	if err != nil {
		return err
	}
	if err := sl.pw.w.SetArea(AreaWorkspace, root, links); err != nil {
		return err
	}
	sl.split = split
	d, err := plainDir(ed.sl.p.dir, AreaWorkspace)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := ed.write(d); err != nil {
		return err
	}
	for _, e := range ed.edits {
		if e.LinkTo != "" {
			if err := d.Link(e.LinkTo, e.Path); err != nil {
				return err
			}
		}
	}
	if err := ed.finishDirs(d); err != nil {
		return err
	}
	if err := setMeta(d, ".", root, sl.s.opt.Root); err != nil {
		return err
	}
	sl.keep = []string{AreaWorkspace, AreaHome}
	return ed.upperHome()
}

// upperHome adds an upper directory of the home to the layer: without changes, or with a
// whiteout for every name.
func (ed *editing) upperHome() error {
	old, err := ed.sl.parentArea(AreaHome)
	if err != nil {
		return err
	}
	d, err := plainDir(ed.sl.p.dir, AreaHome)
	if err != nil {
		return err
	}
	defer d.Close()
	if !ed.noHome {
		if err := setMeta(d, ".", old.Root(), ed.sl.s.opt.Root); err != nil {
			return err
		}
		return ed.sl.keepHome()
	}
	if err := whiteOut(d, old); err != nil {
		return err
	}
	return setNewHome(ed.sl.pw.w, d)
}

// whiteOut hides every name in the root of a tree below.
func whiteOut(upper *fsx.Dir, below *tree.Tree) error {
	list, err := below.Children(below.Root().Sub)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := upper.Whiteout(e.Name); err != nil {
			return err
		}
	}
	return nil
}

// write makes the edits in the upper directory: new entries, the directories above
// them, and whiteouts.
func (ed *editing) write(upper *fsx.Dir) error {
	keeper := fsx.NewKeeper(keptOpen)
	defer keeper.Close()
	enter := func(s *editStep) error {
		if s.up == nil {
			s.ref = keeper.Root(upper)
			return nil
		}
		d, err := s.up.ref.Open()
		if err != nil {
			return err
		}
		defer s.up.ref.Release()
		return ed.writeStep(d, s)
	}
	return ed.walk(enter, func(s *editStep) error { s.ref.Close(); return nil })
}

// writeStep makes one name in its directory.
func (ed *editing) writeStep(d *fsx.Dir, s *editStep) error {
	switch {
	case s.now == nil && s.old == nil:
		return nil
	case s.now == nil:
		return d.Whiteout(s.name)
	case s.now.Kind == tree.KindDir:
		child, err := plainDir(d, s.name)
		if err != nil {
			return err
		}
		s.ref = s.up.ref.Child(s.name)
		return child.Close()
	case s.n.edit.LinkTo != "":
		return nil
	case s.now.Kind == tree.KindFile:
		return ed.writeFile(d, s.name, *s.now, s.n.edit)
	}
	return makeSpecial(d, s.name, *s.now, ed.sl.s.opt.Root)
}

func (ed *editing) writeFile(d *fsx.Dir, name string, e tree.Entry, edit *Edit) error {
	r, err := edit.open()
	if err != nil {
		return err
	}
	defer r.Close()
	digest, _, n, err := ed.sl.s.copyFile(ed.sl.ctx, d, name, r, e, &e, ed.sl.s.opt.Root)
	if err != nil && !errors.Is(err, tree.ErrSize) {
		return fmt.Errorf("edit %q: %w", shortName(edit.Path), err)
	}
	if err != nil || digest != e.Digest || n != e.Size {
		return fmt.Errorf("edit %q: %w", edit.Path, ErrSourceChanged)
	}
	return nil
}

// finishDirs sets the metadata of the directories, the deepest first. The root's
// is set last, by compose.
func (ed *editing) finishDirs(upper *fsx.Dir) error {
	keeper := fsx.NewKeeper(keptOpen)
	defer keeper.Close()
	enter := func(s *editStep) error {
		switch {
		case s.up == nil:
			s.ref = keeper.Root(upper)
		case s.now != nil && s.now.Kind == tree.KindDir:
			s.ref = s.up.ref.Child(s.name)
			// The keeper opens a directory again from an open one below it.
			if _, err := s.ref.Open(); err != nil {
				return err
			}
			s.ref.Release()
		}
		return nil
	}
	return ed.walk(enter, func(s *editStep) error {
		if s.up == nil {
			return nil
		}
		d, err := s.ref.Open()
		if err != nil {
			return err
		}
		defer s.ref.Close()
		return setMeta(d, ".", *s.now, ed.sl.s.opt.Root)
	})
}
