package login

import (
	"context"
	"errors"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// hostFile is the file of a login on the host, locked by this process.
type hostFile struct {
	dir  *fsx.Dir
	path string
	text []byte
	mode uint32
	// written is when it was written last.
	written time.Time
}

// lock waits until no other process renews the login, and reads its file. The lock is
// one of the file's directory: it ends with the process, and leaves nothing behind.
func lock(ctx context.Context, name string) (*hostFile, error) {
	dir, err := fsx.OpenRoot(path.Dir(name))
	if err != nil {
		return nil, err
	}
	if err := waitLock(ctx, dir); err != nil {
		_ = dir.Close()
		return nil, err
	}
	f := &hostFile{dir: dir, path: name}
	if err := f.read(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// lockInterval is the time between two looks at a lock that another process has.
const lockInterval = 25 * time.Millisecond

// waitLock locks a directory. It does not wait in the kernel: that would take a thread
// until the lock is free, also for a caller who has gone, and a process of Go with too
// many threads dies. A cell decides how many ask.
func waitLock(ctx context.Context, dir *fsx.Dir) error {
	tick := time.NewTicker(lockInterval)
	defer tick.Stop()
	for {
		err := unix.Flock(dir.Fd(), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read reads the file, also once more.
func (f *hostFile) read() error {
	clear(f.text)
	f.text = nil
	info, err := f.dir.Lstat(path.Base(f.path))
	if err != nil {
		return err
	}
	if !info.IsRegular() {
		return fsx.ErrNotRegular
	}
	f.mode, f.written = info.Mode, info.MTime.Time()
	f.text, err = fsx.ReadOwn(f.path, 0o077, maxFile)
	return err
}

// writable reports as an error that the file could not be replaced.
func (f *hostFile) writable() error {
	return unix.Faccessat(f.dir.Fd(), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

// write replaces the file, whole or not at all.
func (f *hostFile) write(text []byte) error {
	return fsx.WriteFile(f.dir, path.Base(f.path), text, f.mode)
}

func (f *hostFile) close() {
	clear(f.text)
	_ = f.dir.Close() // which releases the lock
}
