package login

import (
	"context"
	"errors"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/fsx"
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
	locked := make(chan error, 1)
	go func() {
		err := unix.Flock(dir.Fd(), unix.LOCK_EX)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(dir.Fd(), unix.LOCK_EX)
		}
		locked <- err
	}()
	select {
	case err = <-locked:
	case <-ctx.Done():
		go func() {
			<-locked
			_ = dir.Close() // which releases the lock
		}()
		return nil, ctx.Err()
	}
	f := &hostFile{dir: dir, path: name}
	if err == nil {
		err = f.read()
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
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
