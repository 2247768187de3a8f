package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// A home keeps a little space in a file, and some empty files. When the disk has no
// space or no inodes left, a verb that changes something frees both, so that it can
// record what it does. They are taken again when the disk has room.
const (
	reserveName = "reserve"
	reserveSize = 4 << 20
	// fullBelow is the free space below which a disk counts as full.
	fullBelow = 1 << 20
	// smallestReserve is the least space that is worth reserving.
	smallestReserve = 128 << 10
	// spareDir has empty files, which are named by numbers from 0 on.
	spareDir = "reserve-files"
	// spareFiles is the number of these files, and the number of free inodes below
	// which a disk counts as full. To end a run, to remove its cell and to collect
	// garbage takes about 30.
	spareFiles = 128
)

// room is what is free on a disk.
type room struct {
	bytes, inodes int64
}

// room returns what is free on the disk of the home. A file system that makes inodes as
// it needs them has any number of them.
func (s *Store) room() (room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.path, &st); err != nil {
		return room{}, fmt.Errorf("look at the disk of the state directory: %w", err)
	}
	r := room{bytes: int64(st.Bavail) * st.Bsize, inodes: math.MaxInt64}
	if st.Files > 0 {
		r.inodes = int64(st.Ffree)
	}
	return r, nil
}

// FreeSpace returns the free space on the disk of the home.
func (s *Store) FreeSpace() (int64, error) {
	r, err := s.room()
	return r.bytes, err
}

// RefuseFull fails with ErrFull if the disk has no room for a command's work.
// The reserve must not be used for that.
func (s *Store) RefuseFull() error {
	free, err := s.room()
	if err == nil && free.bytes < fullBelow {
		return fmt.Errorf("%w: %d bytes are free at %s", ErrFull, free.bytes, s.path)
	}
	return errors.Join(err, s.fewInodes(free))
}

// RefuseFewInodes fails with ErrFull if the disk has room for few more files.
func (s *Store) RefuseFewInodes() error {
	free, err := s.room()
	return errors.Join(err, s.fewInodes(free))
}

func (s *Store) fewInodes(free room) error {
	if free.inodes >= spareFiles {
		return nil
	}
	return fmt.Errorf("%w: %d inodes are free at %s", ErrFull, free.inodes, s.path)
}

// needsReserve reports whether so little is free that the reserve is needed.
func (r room) needsReserve() bool { return r.bytes < reserveSize || r.inodes < spareFiles }

// NeedsReserve reports whether the reserve is in use, or would have to be.
func (s *Store) NeedsReserve() (bool, error) {
	free, err := s.room()
	if err != nil || free.needsReserve() {
		return err == nil, err
	}
	if has, err := s.hasSpareFiles(); err != nil || !has {
		return free.inodes < 2*spareFiles, err
	}
	_, err = s.dir.Lstat(reserveName)
	if errors.Is(err, fs.ErrNotExist) {
		return free.bytes < 2*reserveSize, nil
	}
	return false, err
}

// MakeRoom frees the reserve if the disk is full, and otherwise allocates it
// again if there is room. It is called before something must be recorded.
func (s *Store) MakeRoom() error {
	if s.readOnly {
		return nil
	}
	free, err := s.room()
	if err != nil || !free.needsReserve() {
		return errors.Join(err, s.TakeReserve())
	}
	if free.bytes < reserveSize {
		err = s.drop(reserveName)
	}
	if free.inodes < spareFiles {
		err = errors.Join(err, s.dropSpareFiles())
	}
	if err != nil {
		return fmt.Errorf("free the reserved space: %w", err)
	}
	return nil
}

func (s *Store) drop(name string) error {
	err := s.dir.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// TakeReserve takes what is missing of the reserve. On a disk that is nearly full it
// takes half of what is free. File systems that cannot allocate space have no such
// reserve, and those without a limit of inodes no spare files.
func (s *Store) TakeReserve() error {
	if s.readOnly {
		return nil
	}
	free, err := s.room()
	if err != nil {
		return err
	}
	return errors.Join(s.takeSpace(free.bytes), s.takeSpareFiles(free.inodes))
}

func (s *Store) takeSpace(free int64) error {
	if _, err := s.dir.Lstat(reserveName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	size := min(reserveSize, free/2)
	if size < smallestReserve {
		return nil
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

func spareFile(i int) string { return spareDir + "/" + strconv.Itoa(i) }

// hasSpareFiles reports whether all spare files are there: the last one is made last and
// removed first.
func (s *Store) hasSpareFiles() (bool, error) {
	_, err := s.dir.Lstat(spareFile(spareFiles - 1))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) takeSpareFiles(free int64) error {
	if has, err := s.hasSpareFiles(); has || err != nil || free == math.MaxInt64 {
		return err
	}
	left := free / 2
	if left == 0 {
		return nil
	}
	if err := s.dir.MkdirAll(spareDir, 0o700); err != nil {
		return fmt.Errorf("reserve files: %w", err)
	}
	for i := 0; i < spareFiles && left > 0; i++ {
		f, err := s.dir.Create(spareFile(i), 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reserve files: %w", err)
		}
		if err := f.Close(); err != nil {
			return err
		}
		left--
	}
	return nil
}

func (s *Store) dropSpareFiles() error {
	for i := spareFiles - 1; i >= 0; i-- {
		if err := s.drop(spareFile(i)); err != nil {
			return err
		}
	}
	return nil
}
