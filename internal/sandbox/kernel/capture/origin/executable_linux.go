package origin

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// executable describes a process's executable.
type executable struct {
	dev, ino          uint64
	name              string
	unnamed, writable bool
}

func (e *executable) process(pid int) Process {
	return Process{PID: pid, Binary: e.name, Unnamed: e.unnamed, Writable: e.writable}
}

// same compares identities and names, because one file can have many names.
func (e *executable) same(o *executable) bool { return *e == *o }

// runs reports whether a process certainly runs e. It reads only the file's
// identity, so it returns false for a file with several names or none.
func (e *executable) runs(proc *os.File, pid int) bool {
	var st unix.Stat_t
	if err := unix.Fstatat(int(proc.Fd()), strconv.Itoa(pid)+"/exe", &st, 0); err != nil {
		return false
	}
	return st.Nlink == 1 && st.Dev == e.dev && st.Ino == e.ino
}

// executable examines a process's executable. It reads everything from one
// descriptor, because the process can execute another program meanwhile. A nil
// directory stands for the host's /proc.
func (a *Attributor) executable(proc *os.File, pid int) (*executable, error) {
	name := strconv.Itoa(pid) + "/exe"
	if proc == nil {
		name = "/proc/" + name
	}
	exe, err := openAt(proc, name, 0, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = exe.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(exe.Fd()), &st); err != nil {
		return nil, fmt.Errorf("stat: %w", err)
	}
	e := &executable{dev: st.Dev, ino: st.Ino, unnamed: true}
	if e.writable, err = writable(exe); err != nil {
		return nil, err
	}
	// The kernel names a file of another mount namespace by its path there.
	if e.name, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(exe.Fd()))); err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	named, err := openAt(a.root, e.name, unix.O_NOFOLLOW, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return e, nil // a name that leads nowhere is a result
	}
	defer func() { _ = named.Close() }()
	var at unix.Stat_t
	if err := unix.Fstat(int(named.Fd()), &at); err != nil {
		return nil, fmt.Errorf("stat: %w", err)
	}
	e.unnamed = at.Dev != st.Dev || at.Ino != st.Ino
	return e, nil
}

// writable reports whether the mount through which a file was opened is
// writable.
func writable(f *os.File) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return false, fmt.Errorf("mount: %w", err)
	}
	return fs.Flags&unix.ST_RDONLY == 0, nil
}

// ErrUnresolved means that a path has no fixed meaning in the cell.
var ErrUnresolved = errors.New("the path can change its meaning during the run")

// maxLinks is the kernel's own limit of symbolic links in one path.
const maxLinks = 40

// Resolve returns the target of a path of the cell after symbolic links. For
// links on mounts that the cell may write it returns [ErrUnresolved], because
// the cell may change them. For a path that does not exist the error wraps
// unix.ENOENT.
func (a *Attributor) Resolve(name string) (string, error) {
	if !path.IsAbs(name) {
		return "", fmt.Errorf("%w: it is not absolute", ErrUnresolved)
	}
	a.open.RLock()
	defer a.open.RUnlock()
	if a.closed {
		return "", os.ErrClosed
	}
	done, rest := "/", name
	for links := 0; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if part == "" || part == "." {
			continue
		}
		// The resolved part holds no links, so .. can be taken literally.
		next := path.Join(done, part)
		if part == ".." {
			done = next
			continue
		}
		target, err := a.link(next)
		switch {
		case err != nil:
			return "", err
		case target == "":
			done = next
			continue
		case path.IsAbs(target):
			done = "/"
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%w: too many symbolic links", ErrUnresolved)
		}
		rest = target + "/" + rest
	}
	return done, nil
}

// link returns the target of a symbolic link, "" for another file.
func (a *Attributor) link(name string) (string, error) {
	f, err := openAt(a.root, name, unix.O_NOFOLLOW, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return "", fmt.Errorf("open: %w", err)
	}
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", nil
	}
	loose, err := writable(f)
	if err != nil {
		return "", err
	}
	if loose {
		return "", fmt.Errorf("%w: the cell may change the link", ErrUnresolved)
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", buf)
	if err != nil {
		return "", fmt.Errorf("read link: %w", err)
	}
	if n == 0 || n == len(buf) {
		return "", fmt.Errorf("%w: odd link", ErrUnresolved)
	}
	return string(buf[:n]), nil
}
