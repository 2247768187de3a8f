package workspace

import (
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/tree"
)

// overlay writes the edits as the kernel would have: an upper directory.
func (ed *editing) overlay() error {
	sl := ed.sl
	if err := ed.checkLinks(); err != nil {
		return err
	}
	root, links, split, err := ed.tree(sl.pw.w, sl.layer)
	if err != nil {
		return err
	}
	if err := sl.pw.w.SetArea(AreaWorkspace, root, links); err != nil {
		return err
	}
	sl.split = split
	d, err := plainDir(ed.p.dir, AreaWorkspace)
	if err != nil {
		return err
	}
	defer d.Close()
	was := ed.old.Root()
	if err := ed.write(d, ".", &was, ed.root); err != nil {
		return err
	}
	for _, e := range ed.edits {
		if e.LinkTo != "" {
			if err := d.Link(e.LinkTo, e.Path); err != nil {
				return err
			}
		}
	}
	if err := ed.finishDirs(d, ".", &was, ed.root); err != nil {
		return err
	}
	if err := setMeta(d, ".", root, sl.s.opt.Root); err != nil {
		return err
	}
	sl.keep = []string{AreaWorkspace, AreaHome}
	return ed.emptyHome()
}

// emptyHome gives the layer an upper of the home that changes nothing.
func (ed *editing) emptyHome() error {
	old, err := ed.sl.old(AreaHome)
	if err != nil {
		return err
	}
	d, err := plainDir(ed.p.dir, AreaHome)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := setMeta(d, ".", old.Root(), ed.sl.s.opt.Root); err != nil {
		return err
	}
	return ed.sl.keepHome()
}

// write makes one directory's edits in the upper: new things, directories on
// the way to them, whiteouts.
func (ed *editing) write(d *fsx.Dir, path string, dir *tree.Entry, n *editNode) error {
	return ed.visit(path, dir, n, func(name, sub string, old, now *tree.Entry, k *editNode) error {
		switch {
		case now == nil && old == nil:
			return nil
		case now == nil:
			return d.Whiteout(name)
		case now.Kind == tree.KindDir:
			child, err := plainDir(d, name)
			if err != nil {
				return err
			}
			defer child.Close()
			return ed.write(child, sub, old, k)
		case k.edit.LinkTo != "":
			return nil
		case now.Kind == tree.KindFile:
			return ed.writeFile(d, name, *now, k.edit)
		}
		return makeSpecial(d, name, *now, ed.sl.s.opt.Root)
	})
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

// finishDirs sets the directories' metadata, the deepest first.
func (ed *editing) finishDirs(d *fsx.Dir, path string, dir *tree.Entry, n *editNode) error {
	return ed.visit(path, dir, n, func(name, sub string, old, now *tree.Entry, k *editNode) error {
		if now == nil || now.Kind != tree.KindDir {
			return nil
		}
		child, err := d.OpenDir(name)
		if err != nil {
			return err
		}
		defer child.Close()
		if err := ed.finishDirs(child, sub, old, k); err != nil {
			return err
		}
		return setMeta(child, ".", *now, ed.sl.s.opt.Root)
	})
}
