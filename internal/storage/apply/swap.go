package apply

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// swap carries out one unit and checks what came out. When it returns an error
// the unit may have been carried out: the roll-back looks.
func (s *writing) swap(u unit) error {
	op := s.rec.op(u)
	if err := s.step("apply.op"); err != nil {
		return fmt.Errorf("change %q: %w", op.Path, err)
	}
	var err error
	switch {
	case op.New == nil:
		err = s.move(s.root, op.Path, s.stage, u.Slot, unix.RENAME_NOREPLACE)
	case op.Old == nil:
		err = s.move(s.stage, u.Slot, s.root, op.Path, unix.RENAME_NOREPLACE)
	default:
		err = s.move(s.stage, u.Slot, s.root, op.Path, unix.RENAME_EXCHANGE)
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return conflict(op.Path, "is there already")
	case absent(err):
		return conflict(op.Path, "is gone")
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EBUSY):
		return fmt.Errorf("change %q: %w: %w", op.Path, errMount, err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("change %q: %w: %w", op.Path, errExchange, err)
	case err != nil:
		return fmt.Errorf("change %q: %w", op.Path, err)
	}
	if err := s.step("apply.displaced"); err != nil {
		return fmt.Errorf("change %q: %w", op.Path, err)
	}
	if op.Old == nil {
		return nil
	}
	return s.verify(s.stage, u.Slot, op.Path, oldSide)
}

// side picks what an Op expects before or after.
type side func(Op) *tree.Entry

func oldSide(op Op) *tree.Entry { return op.Old }
func newSide(op Op) *tree.Entry { return op.New }

// verify compares what is at rel with the Ops of path and everything
// below it. A difference is a ConflictError.
func (s *writing) verify(d *fsx.Dir, rel, path string, want side) error {
	at, known := s.rec.index[path]
	var like *tree.Entry
	if known {
		like = want(s.rec.Ops[at].op)
	}
	now, err := Probe(s.ctx, d, rel, like)
	if err != nil {
		return err
	}
	if !known || want(s.rec.Ops[at].op) == nil {
		return conflict(path, "appeared meanwhile, and would be lost")
	}
	if expected := want(s.rec.Ops[at].op); !Equal(now, expected, s.rec.Owners) {
		return conflict(path, "has changed"+differences(expected, now, thenAndNow, s.rec.Owners))
	}
	if !isDir(now) {
		return nil
	}
	sub, err := d.OpenDir(rel)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	names, err := sub.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.verify(sub, name, under(path, name), want); err != nil {
			return err
		}
	}
	if n := s.countBelow(at, want); n != len(names) {
		return conflict(path, "lost an entry meanwhile")
	}
	return nil
}

// countBelow counts the expected entries directly in a directory.
func (s *writing) countBelow(at int, want side) int {
	path, n := s.rec.Ops[at].op.Path, 0
	for i := at + 1; i < len(s.rec.Ops); i++ {
		op := s.rec.Ops[i].op
		if op.Path > path+"0" { // "0" follows "/": past everything below
			break
		}
		if parentOf(op.Path) == path && want(op) != nil {
			n++
		}
	}
	return n
}

// move renames, also directories that their owner made read-only: moving one to
// another parent writes to it.
func (s *writing) move(from *fsx.Dir, oldName string, to *fsx.Dir, newName string, flags uint) error {
	err := from.Rename(oldName, to, newName, flags)
	if !s.user || !errors.Is(err, unix.EACCES) {
		return err
	}
	moving, opened := makeAccessible(from, oldName)
	coming, openedToo := fsx.Info{}, false
	if flags == unix.RENAME_EXCHANGE {
		coming, openedToo = makeAccessible(to, newName)
	}
	if !opened && !openedToo {
		return err
	}
	if err = from.Rename(oldName, to, newName, flags); err != nil {
		from, oldName, to, newName = to, newName, from, oldName // both stayed
	}
	if opened {
		err = errors.Join(err, to.Chmod(newName, moving.Mode))
	}
	if openedToo {
		err = errors.Join(err, from.Chmod(oldName, coming.Mode))
	}
	return err
}

func makeAccessible(d *fsx.Dir, name string) (was fsx.Info, opened bool) {
	info, err := d.Lstat(name)
	if err != nil || !info.IsDir() || info.Mode&0o200 != 0 {
		return info, false
	}
	return info, d.Chmod(name, info.Mode|0o700) == nil
}
