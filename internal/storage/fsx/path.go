package fsx

import (
	"strings"

	"golang.org/x/sys/unix"
)

// maxChunk bounds what is resolved by one call: the kernel refuses paths of
// 4,096 bytes, but trees can be deeper than that.
const maxChunk = 4000

// beneathRules are the rules for every path with more than one component.
const beneathRules = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// CheckPath returns errPath unless rel is "." or a plain relative path.
func CheckPath(rel string) error {
	if rel == "." {
		return nil
	}
	start := 0
	for i := 0; i <= len(rel); i++ {
		switch {
		case i < len(rel) && rel[i] == 0:
			return errPath
		case i == len(rel) || rel[i] == '/':
			if c := rel[start:i]; c == "" || c == "." || c == ".." {
				return errPath
			}
			start = i + 1
		}
	}
	return nil
}

// CommonPrefix returns the length of the common beginning of two paths. Paths of
// deep trees are long.
func CommonPrefix(a, b string) int {
	const piece = 256
	n, i := min(len(a), len(b)), 0
	for i+piece <= n && a[i:i+piece] == b[i:i+piece] {
		i += piece
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// place is one name in an open directory.
type place struct {
	fd    int
	name  string // "." is the directory itself
	owned bool
}

func (p place) close() {
	if p.owned {
		_ = unix.Close(p.fd)
	}
}

func (p place) self() bool { return p.name == "." }

// at finds the directory that holds the last component of rel. A single
// component costs no call.
func (d *Dir) at(rel string) (place, error) {
	if err := CheckPath(rel); err != nil {
		return place{}, err
	}
	p := place{fd: d.fd, name: rel}
	for {
		cut := strings.LastIndexByte(p.name, '/')
		if cut < 0 {
			return p, nil
		}
		if cut > maxChunk {
			cut = strings.LastIndexByte(p.name[:maxChunk], '/')
			if cut < 0 { // a component that is too long for any file system
				p.close()
				return place{}, unix.ENAMETOOLONG
			}
		}
		fd, err := openBeneath(p.fd, p.name[:cut], unix.O_PATH|unix.O_DIRECTORY)
		p.close()
		if err != nil {
			return place{}, err
		}
		p = place{fd: fd, name: p.name[cut+1:], owned: true}
	}
}

// openBeneath opens a path of any number of components, following nothing. When
// the caller may not, the elevated reader is asked.
func openBeneath(fd int, path string, flags int) (int, error) {
	got, err := openDirect(fd, path, flags)
	if mayElevate(err) {
		return elevatedOpen(fd, path, flags, err)
	}
	return got, err
}

func openDirect(fd int, path string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	single := strings.IndexByte(path, '/') < 0
	for {
		var got int
		var err error
		if single {
			got, err = unix.Openat(fd, path, flags, 0)
		} else {
			got, err = unix.Openat2(fd, path, &unix.OpenHow{Flags: uint64(flags), Resolve: beneathRules})
		}
		if err == unix.ENOSYS && !single {
			return openSteps(fd, path, flags)
		}
		// EAGAIN: the kernel saw a rename on the way and could not tell whether
		// the path stayed beneath.
		if err != unix.EINTR && err != unix.EAGAIN {
			return got, err
		}
	}
}

// openSteps is the same where there is no openat2: in a cell that writes to a
// directory of the host. It opens one component after the other.
func openSteps(fd int, path string, flags int) (int, error) {
	dir := fd
	for {
		name, rest, more := strings.Cut(path, "/")
		if name == ".." || name == "" {
			return -1, unix.EXDEV
		}
		how := flags
		if more {
			how = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		}
		next, err := openDirect(dir, name, how)
		if dir != fd {
			_ = unix.Close(dir)
		}
		if err != nil || !more {
			return next, err
		}
		dir, path = next, rest
	}
}
