package fsx

import (
	"cmp"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Xattrs returns all readable extended attributes, sorted by name, also those
// of symbolic links. POSIX ACLs are among them, as system.posix_acl_access and
// system.posix_acl_default. A file system without attributes has none.
func (d *Dir) Xattrs(rel string) ([]Xattr, error) {
	p, err := d.at(rel)
	if err != nil {
		return nil, d.fail("read attributes of", rel, err)
	}
	defer p.close()
	list, err := readAttrs(p)
	if err != nil {
		return nil, d.fail("read attributes of", rel, err)
	}
	return list, nil
}

// FileXattrs is Xattrs for a file that is open already: one call for a file
// without attributes.
func FileXattrs(f *os.File) ([]Xattr, error) {
	list, err := readAttrs(place{fd: int(f.Fd()), name: "."})
	runtime.KeepAlive(f)
	if err != nil {
		return nil, &os.PathError{Op: "read attributes of", Path: f.Name(), Err: err}
	}
	return list, nil
}

func readAttrs(p place) ([]Xattr, error) {
	names, err := grow(256, func(buf []byte) (int, error) {
		n, err := p.listAttrs(buf)
		if mayElevate(err) {
			return elevatedXattr(p, "", buf, err)
		}
		return n, err
	})
	if err != nil {
		if err == unix.EOPNOTSUPP { //nolint:errorlint // straight from the kernel
			return nil, nil
		}
		return nil, err
	}
	if len(names) == 0 {
		return nil, nil
	}
	var out []Xattr
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		value, err := grow(256, func(buf []byte) (int, error) {
			n, err := p.getAttr(name, buf)
			if mayElevate(err) {
				return elevatedXattr(p, name, buf, err)
			}
			return n, err
		})
		switch {
		case err == nil:
			out = append(out, Xattr{Name: name, Value: value})
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP): // gone meanwhile, or listed but not kept
		default:
			return nil, err
		}
	}
	slices.SortFunc(out, func(x, y Xattr) int { return cmp.Compare(x.Name, y.Name) })
	return out, nil
}

// grow reads something whose size is not known before, in a buffer that grows
// until it fits.
func grow(size int, read func([]byte) (int, error)) ([]byte, error) {
	for {
		buf := make([]byte, size)
		n, err := read(buf)
		switch {
		case err == nil:
			return buf[:n:n], nil
		case err == unix.ERANGE && size < 1<<20: //nolint:errorlint // straight from the kernel
			size *= 8
		case err == unix.EINTR: //nolint:errorlint // as above
		default:
			return nil, err
		}
	}
}

// SetXattr sets one attribute.
func (d *Dir) SetXattr(rel, name string, value []byte) error {
	return d.change("set attribute "+strconv.Quote(name)+" of", rel, func(p place) error {
		if p.self() {
			return unix.Fsetxattr(p.fd, name, value, 0)
		}
		return unix.Lsetxattr(p.proc(), name, value, 0)
	})
}

// RemoveXattr removes one attribute. A missing one is not an error.
func (d *Dir) RemoveXattr(rel, name string) error {
	return d.change("remove attribute "+strconv.Quote(name)+" of", rel, func(p place) error {
		var err error
		if p.self() {
			err = unix.Fremovexattr(p.fd, name)
		} else {
			err = unix.Lremovexattr(p.proc(), name)
		}
		if err == unix.ENODATA {
			return nil
		}
		return err
	})
}

func (p place) listAttrs(buf []byte) (int, error) {
	if p.self() {
		return unix.Flistxattr(p.fd, buf)
	}
	return unix.Llistxattr(p.proc(), buf)
}

func (p place) getAttr(name string, buf []byte) (int, error) {
	if p.self() {
		return unix.Fgetxattr(p.fd, name, buf)
	}
	return unix.Lgetxattr(p.proc(), name, buf)
}

// proc names the place for the attribute calls, which have no form relative to
// a descriptor on the kernels we support. They do not follow the last
// component, and the magic link before it is our own descriptor.
func (p place) proc() string {
	return "/proc/self/fd/" + strconv.Itoa(p.fd) + "/" + p.name
}
