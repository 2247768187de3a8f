package apply

import (
	"bytes"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// owner is the owner of new files when owners are not recorded.
type owner struct{ uid, gid uint32 }

// inheritedOwner: what replaces a file takes over its owner, and what is new in
// a setgid directory its group, as if it had been written in place. Nil is the
// caller.
func (s *writing) inheritedOwner(op Op) *owner {
	if s.rec.Owners {
		return nil
	}
	if op.Old != nil {
		if info, err := s.root.Lstat(op.Path); err == nil {
			return &owner{info.UID, info.GID}
		}
	}
	if info, err := s.root.Lstat(parentOf(op.Path)); err == nil && info.Mode&unix.S_ISGID != 0 {
		return &owner{uint32(os.Geteuid()), info.GID}
	}
	return nil
}

// setRecorded sets the recorded metadata of a new entry. The order matters: a
// change of owner clears setuid bits and capabilities, a mode may forbid setting
// attributes, and all of them change the time.
func (s *writing) setRecorded(d *fsx.Dir, rel string, e *tree.Entry, inherited *owner) error {
	if s.rec.Owners {
		if err := d.Chown(rel, e.UID, e.GID); err != nil {
			return err
		}
	} else if inherited != nil {
		if err := d.Chown(rel, inherited.uid, inherited.gid); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	for _, x := range e.Xattrs {
		if ofTheHost(x.Name) {
			continue
		}
		if err := d.SetXattr(rel, x.Name, x.Value); err != nil {
			return err
		}
	}
	if e.Kind != tree.KindSymlink {
		if err := d.Chmod(rel, e.Mode); err != nil {
			return err
		}
	}
	return d.Chtimes(rel, e.MTime)
}

// change changes the metadata of a directory of the target, in place. It can be
// repeated after it was interrupted.
func (s *writing) change(path string, e *tree.Entry) error {
	info, err := s.root.Lstat(path)
	if err != nil {
		return err
	}
	if s.rec.Owners && (info.UID != e.UID || info.GID != e.GID) {
		if err := s.root.Chown(path, e.UID, e.GID); err != nil {
			return err
		}
	}
	now, err := s.root.Xattrs(path)
	if err != nil {
		return err
	}
	if !sameXattrs(now, e.Xattrs) {
		if s.user { // setting attributes takes write permission
			if err := s.root.Chmod(path, info.Mode|0o700); err != nil {
				return err
			}
		}
		if err := s.replaceXattrs(path, now, e.Xattrs); err != nil {
			return err
		}
	}
	if info, err = s.root.Lstat(path); err != nil || info.Mode == e.Mode {
		return err
	}
	return s.root.Chmod(path, e.Mode)
}

func (s *writing) replaceXattrs(path string, now, want []fsx.Xattr) error {
	old := make(map[string][]byte, len(now))
	for _, x := range now {
		if !ofTheHost(x.Name) {
			old[x.Name] = x.Value
		}
	}
	for _, x := range want {
		value, there := old[x.Name]
		delete(old, x.Name)
		if ofTheHost(x.Name) || there && bytes.Equal(value, x.Value) {
			continue
		}
		if err := s.root.SetXattr(path, x.Name, x.Value); err != nil {
			return err
		}
	}
	for name := range old {
		if err := s.root.RemoveXattr(path, name); err != nil {
			return err
		}
	}
	return nil
}

// open makes directories of the target writable for a while.
func (s *writing) open() error {
	for _, m := range s.rec.Modes {
		if err := s.root.Chmod(string(m.Path), m.Mode|0o700); err != nil {
			return err
		}
	}
	return nil
}

// restoreModes restores the modes of directories that were made writable.
func (s *writing) restoreModes() error {
	for i := len(s.rec.Modes) - 1; i >= 0; i-- {
		m := s.rec.Modes[i]
		if err := s.root.Chmod(string(m.Path), m.Mode); err != nil && !absent(err) {
			return err
		}
	}
	return nil
}
