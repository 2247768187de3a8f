package apply

import (
	"context"
	"fmt"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// copies copies things with all their metadata to another file system. Hard
// links among everything that one value copies are kept.
type copies struct {
	ctx      context.Context //nolint:containedctx // lives as long as the one call
	from, to *fsx.Dir
	owners   bool
	made     map[uint64]string // inode to its copy
}

// copyOld keeps what was displaced where renaming cannot reach. It happens
// before the commit, so that a full disk there is no half-done apply.
func (s *writing) copyOld() error {
	c := copies{ctx: s.ctx, from: s.stage, to: s.journal, owners: s.rec.Owners, made: map[uint64]string{}}
	for _, u := range s.rec.Units {
		op := s.rec.op(u)
		if op.Old == nil {
			continue
		}
		if err := s.step("apply.copy"); err != nil {
			return fmt.Errorf("keep %q: %w", op.Path, err)
		}
		if err := c.tree(u.Slot, oldDir+"/"+u.Slot); err != nil {
			return fmt.Errorf("keep %q: %w", op.Path, err)
		}
	}
	return s.journal.SyncFS()
}

func (c *copies) tree(rel, to string) error {
	e, err := ProbeMetadata(c.from, rel)
	if err != nil {
		return err
	}
	if e == nil {
		return fmt.Errorf("%q is gone", rel)
	}
	if known, again := c.made[e.Stamp.Ino]; again {
		return c.to.Link(known, to)
	}
	if e.Kind != tree.KindDir {
		c.made[e.Stamp.Ino] = to
	}
	switch e.Kind {
	case tree.KindFile:
		err = c.file(rel, to)
	case tree.KindDir:
		err = c.dir(rel, to)
	case tree.KindSymlink:
		err = c.to.Symlink(e.Target, to)
	case tree.KindFifo:
		err = c.to.Mkfifo(to, 0o600)
	case tree.KindSocket:
		err = c.to.Mksock(to, 0o600)
	default:
		err = fmt.Errorf("%q is of a kind that cannot be kept", rel)
	}
	if err != nil {
		return err
	}
	s := writing{rec: &record{Owners: c.owners}}
	return s.setRecorded(c.to, to, e, nil)
}

func (c *copies) dir(rel, to string) error {
	if err := c.to.Mkdir(to, 0o700); err != nil {
		return err
	}
	d, err := c.from.OpenDir(rel)
	if err != nil {
		return err
	}
	names, err := d.Names()
	_ = d.Close()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.tree(rel+"/"+name, to+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

func (c *copies) file(rel, to string) error {
	in, err := c.from.OpenFile(rel)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := c.to.Create(to, 0o600)
	if err != nil {
		return err
	}
	if _, err := fsx.CopySparse(c.ctx, out, in, nil); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
