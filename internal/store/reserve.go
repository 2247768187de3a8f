package store

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// A home keeps a little space in a file. When the disk is full, a verb that
// changes something frees this space, so that it can record what it does. The
// space is allocated again when the disk has room.
const (
	reserveName = "reserve"
	reserveSize = 4 << 20
	// fullBelow is the free space below which a disk counts as full.
	fullBelow = 1 << 20
	// smallestReserve is the least space that is worth reserving.
	smallestReserve = 128 << 10
)

// Free returns the space that can still be written on the disk of the home.
func (s *Store) Free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.path, &st); err != nil {
		return 0, fmt.Errorf("look at the disk of the state directory: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// RefuseFull fails with ErrFull if the disk has no room for a command's work.
// The reserve must not be used for that.
func (s *Store) RefuseFull() error {
	free, err := s.Free()
	if err == nil && free < fullBelow {
		err = fmt.Errorf("%w: %d bytes are free at %s", ErrFull, free, s.path)
	}
	return err
}

// MakeRoom frees the reserve if the disk is full, and otherwise allocates it
// again if there is room. It is called before something must be recorded.
func (s *Store) MakeRoom() error {
	if s.readOnly {
		return nil
	}
	free, err := s.Free()
	if err != nil || free >= reserveSize {
		return errors.Join(err, s.TakeReserve())
	}
	if err := s.dir.Remove(reserveName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("free the reserved space: %w", err)
	}
	return nil
}

// TakeReserve allocates the reserve if it is missing. On a disk that is nearly
// full it takes half of the free space. File systems that cannot allocate space
// have no reserve.
func (s *Store) TakeReserve() error {
	if _, err := s.dir.Lstat(reserveName); s.readOnly || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	free, err := s.Free()
	size := min(reserveSize, free/2)
	if err != nil || size < smallestReserve {
		return err
	}
	f, err := s.dir.Create(reserveName, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster
	}
	if err != nil {
		return fmt.Errorf("reserve space: %w", err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		return s.dir.Remove(reserveName)
	}
	return nil
}
