package fsx

import (
	"context"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxOpen bounds the descriptors that one removal holds. Deeper directories
	// are first moved up, so that a tree of any depth can be removed.
	maxOpen = 64
	// maxPasses bounds how often one directory is read again because something
	// new appeared in it.
	maxPasses = 1 << 16
)

// RemoveAll removes a name and everything below it, by descriptor and following
// nothing. Directories of the caller that it may not read or write are made
// accessible on the way; what is mounted below stops it with EXDEV. A missing
// name is not an error; "." is refused.
func (d *Dir) RemoveAll(rel string) error { return d.RemoveAllContext(context.Background(), rel) }

// RemoveAllContext is RemoveAll that ends when ctx does. What is left then can be
// removed by calling it again.
func (d *Dir) RemoveAllContext(ctx context.Context, rel string) error {
	if rel == "." {
		return d.fail("remove", rel, errPath)
	}
	r := remover{ctx: ctx, top: -1, root: os.Geteuid() == 0}
	return d.change("remove", rel, func(p place) error { return r.remove(p, 0) })
}

type remover struct {
	ctx   context.Context //nolint:containedctx // lives as long as the one call
	top   int             // the descriptor of the outermost directory under removal
	moved int
	root  bool
}

func (r *remover) remove(p place, depth int) error {
	err := unix.Unlinkat(p.fd, p.name, 0)
	switch err {
	case nil, unix.ENOENT:
		return nil
	case unix.EISDIR, unix.EPERM: // some file systems say EPERM for directories
	default:
		return err
	}
	if unix.Unlinkat(p.fd, p.name, unix.AT_REMOVEDIR) == nil {
		return nil // it was empty
	}
	if depth >= maxOpen {
		return r.moveUp(p)
	}
	fd, openErr := r.open(p)
	switch {
	case openErr == nil:
	case errors.Is(openErr, unix.ENOENT): // another process removes it too
		return nil
	case errors.Is(openErr, unix.ENOTDIR):
		return err
	default:
		return openErr
	}
	defer func() { _ = unix.Close(fd) }()
	if r.top < 0 {
		r.top = fd
	}
	for range maxPasses {
		if err := r.empty(fd, depth); err != nil {
			return err
		}
		err = unix.Unlinkat(p.fd, p.name, unix.AT_REMOVEDIR)
		if err != unix.ENOTEMPTY {
			break
		}
	}
	if err == unix.ENOENT {
		return nil
	}
	return err
}

func (r *remover) empty(fd, depth int) error {
	names, err := readNames(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := r.remove(place{fd: fd, name: name}, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// open opens a directory so that it can be read and emptied.
func (r *remover) open(p place) (int, error) {
	fd, err := openSameMount(p)
	if err == unix.EACCES && !r.root { //nolint:errorlint // straight from the kernel
		if err := chmodPlace(p, 0o700); err != nil {
			return -1, err
		}
		return openSameMount(p)
	}
	if err != nil || r.root {
		return fd, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // of another user: then the removal fails
	}
	return fd, nil
}

// openSameMount opens a directory, but not one that something is mounted on:
// what is mounted there is not ours to remove.
func openSameMount(p place) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: beneathRules | unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, err := unix.Openat2(p.fd, p.name, &how)
		if err == unix.ENOSYS {
			return openAndCompare(p)
		}
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// openAndCompare is openSameMount without openat2.
func openAndCompare(p place) (int, error) {
	fd, err := openDirect(p.fd, p.name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	var above, opened unix.Statx_t
	err = unix.Statx(p.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &above)
	if err == nil {
		err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &opened)
	}
	if err == nil && above.Mnt_id != opened.Mnt_id {
		err = unix.EXDEV
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// moveUp hands a deep directory to the outermost one, which is read again until
// it is empty.
func (r *remover) moveUp(p place) error {
	if !r.root {
		// Moving a directory to another parent writes to its "..".
		_ = chmodPlace(p, 0o700)
	}
	for {
		r.moved++
		name := ".forkcell-remove-" + strconv.Itoa(r.moved)
		err := unix.Renameat2(p.fd, p.name, r.top, name, unix.RENAME_NOREPLACE)
		if err != unix.EEXIST {
			return err
		}
	}
}
