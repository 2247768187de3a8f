package drivertest

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

// liveProbes try to leave something in a directory of the host that gives rights
// to who executes it, or that is no file at all.
func liveProbes() []probe {
	var list []probe
	add := func(name, says string, off []control.Name, do func(path string) error) {
		list = append(list, probe{
			name: "live: " + name, without: off, says: says, live: true,
			do: func() error { return do("/live/" + unique() + name) },
		})
	}
	const mode = 0o4755
	made := []control.Name{control.LiveCalls}
	for name, change := range map[string]func(path string, fd int) error{
		"chmod":    func(path string, _ int) error { return call("chmod", path, mode) },
		"fchmod":   func(_ string, fd int) error { return call("fchmod", fd, mode) },
		"fchmodat": func(path string, _ int) error { return call("fchmodat", unix.AT_FDCWD, path, mode) },
		"fchmodat2": func(path string, _ int) error {
			return call("fchmodat2", unix.AT_FDCWD, path, mode, unix.AT_SYMLINK_NOFOLLOW)
		},
		"chmod by its number": func(_ string, fd int) error {
			return call("fchmodat", unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), mode)
		},
	} {
		add(name, denied, made, func(path string) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return errors.Join(change(path, int(f.Fd())), hasSetID(path))
		})
		list[len(list)-1].optional = name == "fchmodat2" // since Linux 6.6
	}
	const flags = unix.O_CREAT | unix.O_WRONLY
	for name, create := range map[string]func(path string) error{
		"creat":   func(path string) error { return call("creat", path, mode) },
		"open":    func(path string) error { return call("open", path, flags, mode) },
		"openat":  func(path string) error { return call("openat", unix.AT_FDCWD, path, flags, mode) },
		"mknod":   func(path string) error { return call("mknod", path, unix.S_IFREG|mode, 0) },
		"mknodat": func(path string) error { return call("mknodat", unix.AT_FDCWD, path, unix.S_IFREG|mode, 0) },
		"a file without a name": func(path string) error {
			fd, err := unix.Open("/live", unix.O_TMPFILE|unix.O_WRONLY, mode)
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
		},
	} {
		add(name, denied, made, func(path string) error { return errors.Join(create(path), hasSetID(path)) })
	}
	add("openat2", "function not implemented", made, func(path string) error {
		_, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: flags, Mode: mode})
		return errors.Join(err, hasSetID(path))
	})
	add("device", denied, []control.Name{control.Landlock, control.LiveCalls}, func(path string) error { return unix.Mknod(path, unix.S_IFCHR, 0) })
	add("whiteout", denied, []control.Name{control.Seccomp}, leaveWhiteout)
	add("file capability", denied, []control.Name{control.Capabilities}, func(path string) error {
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			return err
		}
		return unix.Setxattr(path, "security.capability", everyCapability(os.Getuid()), 0)
	})
	return list
}

// hasSetID is stopped by a file without such a bit.
func hasSetID(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
		err = errors.New("held: no bit")
	}
	return err
}

// leaveWhiteout renames a file such that a device node stays in its place.
func leaveWhiteout(path string) error {
	name := path + "from" + unique()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	return unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, name+"to", unix.RENAME_WHITEOUT)
}
