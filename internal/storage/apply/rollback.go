package apply

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// rollBack makes the target what it was before, from any instant before the
// commit, and can itself be interrupted and repeated. What other programs did
// to the same names meanwhile stays; what then finds no place is kept in the
// journal, and a ConflictError names it. One that fails is ErrUnfinished.
func (s *writing) rollBack() error {
	err := s.undo()
	if err != nil {
		return fmt.Errorf("roll back: %w: %w", ErrUnfinished, err)
	}
	if len(s.foreign) > 0 {
		return &ConflictError{Conflicts: s.foreign}
	}
	return nil
}

func (s *writing) undo() error {
	if err := s.findStage(); err != nil {
		return err
	}
	if err := s.openRoot(); err != nil {
		return err
	}
	if s.journalled {
		if err := s.undoUnits(); err != nil {
			return err
		}
		if err := s.undoMetas(); err != nil {
			return err
		}
	}
	if err := s.clear(s.rec.Intent.Mode, s.rec.Intent.MTime, true); err != nil {
		return err
	}
	if err := s.journal.RemoveAll(oldDir); err != nil {
		return err
	}
	if err := s.root.SyncFS(); err != nil {
		return err
	}
	if err := s.step("apply.undone"); err != nil {
		return err
	}
	return fsx.WriteFile(s.journal, undoneFile, nil, 0o600)
}

// findStage opens the staging directory, if there is one.
func (s *writing) findStage() error {
	if s.stage != nil {
		return nil
	}
	stage, err := s.root.OpenDir(s.rec.Intent.Staging)
	if absent(err) {
		return nil
	}
	s.stage = stage
	return err
}

// openRoot lets the staging directory be removed.
func (s *writing) openRoot() error {
	if !s.user {
		return nil
	}
	info, err := s.root.Lstat(".")
	if err != nil || info.Mode&0o300 == 0o300 {
		return err
	}
	return s.root.Chmod(".", info.Mode|0o700)
}

func (s *writing) undoUnits() error {
	if s.stage == nil {
		// An earlier roll-back removed it last, when all else was done; if
		// someone else did, there is nothing left to put back.
		return nil
	}
	for _, m := range s.rec.Modes {
		if err := s.root.Chmod(string(m.Path), m.Mode|0o700); err != nil && !absent(err) {
			return err
		}
	}
	for i := len(s.rec.Units) - 1; i >= 0; i-- {
		if err := s.step("apply.undo"); err != nil {
			return err
		}
		if err := s.unswap(s.rec.Units[i]); err != nil {
			return err
		}
	}
	return nil
}

// unswap takes one unit back, if it was carried out. The inode in its slot shows
// whether it was.
func (s *writing) unswap(u unit) error {
	op := s.rec.op(u)
	slot, err := inode(s.stage, u.Slot)
	if err != nil {
		return err
	}
	if op.New != nil && slot == u.Ino || op.New == nil && slot == 0 {
		return s.restoreMode(op) // not carried out
	}
	if op.Old != nil && slot == 0 {
		return nil // an earlier roll-back kept it in the journal
	}
	live, err := inode(s.root, op.Path)
	if err != nil {
		return err
	}
	if op.New == nil || live != u.Ino {
		return s.putBack(u, live)
	}
	// An inode number can come back, and someone may have worked on the thing
	// since: only what is unchanged may be removed.
	changed, err := s.hasChanged(s.root, op.Path, op)
	if err != nil {
		return err
	}
	if changed {
		return s.leaveName(u)
	}
	if op.Old == nil {
		err = s.move(s.root, op.Path, s.stage, u.Slot, unix.RENAME_NOREPLACE)
	} else {
		err = s.move(s.stage, u.Slot, s.root, op.Path, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		return err
	}
	if err := s.restoreMode(op); err != nil {
		return err
	}
	if changed, err = s.hasChanged(s.stage, u.Slot, op); err == nil && changed {
		s.foreign = append(s.foreign, s.keptAside(u))
		return s.setAside(u)
	}
	return err
}

// hasChanged reports whether what a unit wrote has changed since.
func (s *writing) hasChanged(d *fsx.Dir, rel string, op Op) (bool, error) {
	err := s.verify(d, rel, op.Path, newSide)
	var differs *ConflictError
	if errors.As(err, &differs) {
		return true, nil
	}
	return false, err
}

// putBack returns what was displaced to a name that holds nothing of ours.
func (s *writing) putBack(u unit, live uint64) error {
	op := s.rec.op(u)
	if op.Old == nil {
		if live == 0 {
			return nil // someone removed what was added
		}
		return s.leaveName(u)
	}
	err := s.move(s.stage, u.Slot, s.root, op.Path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EEXIST) || absent(err) {
		return s.leaveName(u)
	}
	if err != nil {
		return err
	}
	return s.restoreMode(op)
}

// restoreMode restores the mode of a directory that was made writable for its move.
func (s *writing) restoreMode(op Op) error {
	if !s.user || !isDir(op.Old) {
		return nil
	}
	info, err := s.root.Lstat(op.Path)
	if absent(err) {
		return nil
	}
	if err == nil && info.IsDir() && info.Mode == op.Old.Mode|0o700 && info.Mode != op.Old.Mode {
		err = s.root.Chmod(op.Path, op.Old.Mode)
	}
	return err
}

// leaveName leaves a name that another program changed, and keeps what was displaced.
func (s *writing) leaveName(u unit) error {
	op := s.rec.op(u)
	if op.Old == nil {
		s.foreign = append(s.foreign, Conflict{Path: op.Path, Reason: "was changed by another program, and stays"})
		return nil
	}
	s.foreign = append(s.foreign, s.keptAside(u))
	return s.setAside(u)
}

func (s *writing) keptAside(u unit) Conflict {
	return Conflict{Path: s.rec.op(u).Path, Reason: "was changed by another program; the other version is in " +
		s.journal.Path() + "/" + foreignDir + "/" + u.Slot}
}

// setAside keeps what is in a slot.
func (s *writing) setAside(u unit) error {
	if err := s.journal.MkdirAll(foreignDir, 0o700); err != nil {
		return err
	}
	to := foreignDir + "/" + u.Slot
	if s.rec.Move {
		return s.move(s.stage, u.Slot, s.journal, to, unix.RENAME_NOREPLACE)
	}
	if err := s.journal.RemoveAll(to); err != nil {
		return err
	}
	c := copies{from: s.stage, to: s.journal, owners: s.rec.Owners, made: map[uint64]string{}}
	if err := c.tree(u.Slot, to); err != nil {
		return err
	}
	if err := s.journal.SyncFS(); err != nil {
		return err
	}
	return s.stage.RemoveAll(u.Slot)
}

// undoMetas puts modes, attributes and times of directories back.
func (s *writing) undoMetas() error {
	for _, m := range s.rec.Metas {
		op := s.rec.Ops[m].op
		if op.Path == "." {
			old := *op.Old
			if s.user { // until the staging directory is gone
				old.Mode |= 0o700
			}
			op.Old = &old
		}
		now, err := ProbeMetadata(s.root, op.Path)
		if err != nil {
			return err
		}
		if !isDir(now) || !isBetween(now, op.Old, op.New) {
			continue // someone else's by now
		}
		if err := s.change(op.Path, op.Old); err != nil && !absent(err) {
			return err
		}
	}
	if err := s.restoreModes(); err != nil {
		return err
	}
	for _, t := range s.rec.Times {
		if err := s.root.Chtimes(string(t.Path), t.MTime); err != nil && !absent(err) {
			return err
		}
	}
	return nil
}

// isBetween reports whether a directory's metadata can be what a change from old to
// newer left when it was interrupted.
func isBetween(now, old, newer *tree.Entry) bool {
	switch now.Mode {
	case old.Mode, newer.Mode, old.Mode | 0o700, newer.Mode | 0o700:
	default:
		return false
	}
	value := func(e *tree.Entry, name string) string {
		for _, x := range e.Xattrs {
			if x.Name == name {
				return "=" + string(x.Value)
			}
		}
		return ""
	}
	for _, e := range []*tree.Entry{now, old, newer} {
		for _, x := range e.Xattrs {
			v := value(now, x.Name)
			if !ofTheHost(x.Name) && v != value(old, x.Name) && v != value(newer, x.Name) {
				return false
			}
		}
	}
	return true
}

// clear removes the staging directory and leaves the root with this mode and,
// if asked, this time.
func (s *writing) clear(mode uint32, mtime fsx.Time, setTime bool) error {
	if err := s.step("apply.clear"); err != nil {
		return err
	}
	if err := s.root.RemoveAll(s.rec.Intent.Staging); err != nil {
		return err
	}
	info, err := s.root.Lstat(".")
	if err != nil {
		return err
	}
	if info.Mode != mode {
		if err := s.root.Chmod(".", mode); err != nil {
			return err
		}
	}
	if setTime && info.MTime != mtime {
		return s.root.Chtimes(".", mtime)
	}
	return nil
}

// inode is 0 when there is nothing.
func inode(d *fsx.Dir, rel string) (uint64, error) {
	info, err := d.Lstat(rel)
	if absent(err) {
		return 0, nil
	}
	return info.Ino, err
}
