package drivertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

// holds succeeds if the secret can be read there.
func holds(path string) error {
	text, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(text), secret) {
		err = errors.New("held: something else")
	}
	return err
}

// readable succeeds if there is something to be read.
func readable(path string) error {
	if names, err := os.ReadDir(path); err == nil && len(names) > 0 {
		return nil
	}
	text, err := os.ReadFile(path)
	if err == nil && len(text) == 0 {
		err = errors.New("held: nothing in it")
	}
	return err
}

func dial(network, addr string) error {
	c, err := net.Dial(network, addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// shownProbes are about a directory of the host that the cell may look at. Its
// files have all permissions, so that no mode stops anything.
func shownProbes() []probe {
	in := func(name string) string { return filepath.Join(here("SHOWN"), name) }
	const readOnly = "read-only"
	var list []probe
	add := func(name, says string, off []control.Name, do func() error) *probe {
		list = append(list, probe{name: "shown: " + name, without: off, says: says, do: do})
		return &list[len(list)-1]
	}
	// Mounts and Landlock say the same about writing, each on its own; the mount
	// in which sockets are dead is a third that cannot be written.
	three := []control.Name{control.Landlock, control.ReadOnly, control.DeadSockets}
	two := []control.Name{control.ReadOnly, control.DeadSockets}
	const refused = "" // by whichever of them comes first
	add("write", refused, three, func() error { return write(in("write"), os.O_WRONLY) })
	add("append", refused, three, func() error { return write(in("write"), os.O_WRONLY|os.O_APPEND) })
	add("truncate", refused, three, func() error { return os.Truncate(in("truncate"), 3) }).abi = 3
	add("make a file", refused, three, func() error { return os.WriteFile(in("sub/new"), nil, 0o600) })
	add("make a directory", refused, three, func() error { return os.Mkdir(in("sub/dir"+unique()), 0o700) })
	add("make a link", refused, three, func() error { return os.Symlink("/", in("sub/symlink"+unique())) })
	add("make a fifo", refused, three, func() error { return unix.Mkfifo(in("sub/fifo"+unique()), 0o600) })
	add("make a socket", refused, three, func() error {
		_, err := net.Listen("unix", in("sub/s"+unique()))
		return err
	})
	add("remove", refused, three, func() error { return os.Remove(in("remove")) })
	add("rename", refused, three, func() error { return os.Rename(in("rename"), in("sub/renamed")) })
	add("write by another name of an open file", refused, three, func() error {
		f, err := os.Open(in("reopen"))
		if err != nil {
			return err
		}
		return write(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_WRONLY)
	})
	add("touch", readOnly, two, func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, in("times"), nil, 0) })
	add("attributes", readOnly, two, func() error { return unix.Setxattr(in("attribute"), "user.probe", nil, 0) }).optional = true
	dead := []control.Name{control.DeadSockets}
	add("connect to a daemon", "connection refused", dead, func() error { return dial("unix", in("socket")) })
	add("read from a fifo", "held", dead, func() error { return drain(in("fifo")) })
	add("write to a fifo", refused, []control.Name{control.DeadSockets, control.Landlock}, func() error { return write(in("fifo"), os.O_WRONLY|unix.O_NONBLOCK) })
	add("see who has a lock", "held", dead, func() error { return locked(in("lock")) })
	list = append(list,
		probe{name: "a device for /tmp", without: []control.Name{control.Landlock}, says: "permission denied", do: func() error {
			return unix.Mknod("/tmp/whiteout"+unique(), unix.S_IFCHR|0o600, 0)
		}},
		probe{name: "a whiteout for /tmp", without: []control.Name{control.Seccomp}, says: denied, do: func() error { return leaveWhiteout("/tmp/") }},
		// An ordinary caller's own files are open to the caller's cells.
		probe{name: "a private file of the host", caller: "root", without: []control.Name{control.PublicView}, says: "permission denied", do: func() error {
			return holds("/public/private")
		}},
		probe{name: "a masked file", without: []control.Name{control.Masks}, says: "permission denied", do: func() error { return holds("/src/project/.env") }},
		// Mounts protect a name in their own mount namespace only: who changes names must be
		// in it.
		probe{name: "move a masked file away", without: []control.Name{control.Masks}, says: "device or resource busy", do: func() error {
			name := "/src/project/.env.moved" + unique()
			return errors.Join(os.Rename("/src/project/.env", name), os.Rename(name, "/src/project/.env"))
		}},
		probe{name: "write to a read-only path", without: []control.Name{control.Fixed}, says: "read-only", do: func() error {
			return write("/src/project/fixed", os.O_WRONLY)
		}},
		probe{name: "move a read-only path away", without: []control.Name{control.Fixed}, says: "device or resource busy", do: func() error {
			return os.Rename("/src/project/fixed", "/src/project/moved"+unique())
		}},
		probe{name: "make an absent path", without: []control.Name{control.Absent}, says: "device or resource busy", do: func() error {
			return os.Mkdir("/src/project/.claude", 0o755)
		}},
		probe{name: "move to an absent path", without: []control.Name{control.Absent}, says: "device or resource busy", do: func() error {
			if err := os.WriteFile("/src/project/moved", nil, 0o600); err != nil {
				return err
			}
			return os.Rename("/src/project/moved", "/src/project/.mcp.json")
		}},
	)
	return append(list, rootProbes()...)
}

// rootProbes write beside what is attached in the cell. Its root belongs to the
// user of an ordinary caller's cell, and to root in the cell of a root caller.
func rootProbes() []probe {
	var list []probe
	for _, dir := range []string{"/", "/home/", "/dev/", "/src/"} {
		do := func() error { return os.WriteFile(dir+"probe", nil, 0o600) }
		list = append(list,
			probe{name: "make a file in " + dir, caller: "user", without: []control.Name{control.Landlock, control.ReadOnly}, do: do},
			probe{name: "make a file in " + dir, caller: "root", ownSuper: dir == "/dev/", without: []control.Name{control.Landlock, control.ReadOnly, control.IDs}, do: do},
		)
	}
	return list
}

// unique lets a probe be run more than once on the same host directory.
func unique() string { return fmt.Sprint(os.Getpid(), "-", unix.Gettid()) }

func write(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("x")
	return errors.Join(err, f.Close())
}

// drain takes some of what the host has put into a fifo.
func drain(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	buf := make([]byte, 4)
	n, err := unix.Read(fd, buf)
	if n <= 0 {
		return fmt.Errorf("held: a fifo of its own: %w", err)
	}
	return nil
}

// locked is successful when the host's lock is in the way.
func locked(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	return fmt.Errorf("held: the lock is free: %w", err)
}

// absenceProbes look for what is not in the cell: where the host's root is not
// detached, it is above the cell's own.
func absenceProbes() []probe {
	above := func(path string) string { return "/.." + path }
	in := func(name string) string { return above(filepath.Join(here("DIR"), name)) }
	var list []probe
	// Landlock allows what is below the cell's root, so nothing of the host's,
	// but says nothing about connecting to a socket by its path.
	both := []control.Name{control.Detached, control.Landlock}
	add := func(name string, do func() error) *probe {
		list = append(list, probe{name: "absent: " + name, without: both, says: "no such file", do: do})
		return &list[len(list)-1]
	}
	add("a file of the host", func() error { return holds(in("witness")) })
	add("the layers below the workspace", func() error { return holds(in("base/.env")) })
	add("a daemon's socket", func() error { return dial("unix", above(here("DAEMON"))) }).without = []control.Name{control.Detached}
	add("write a file of the host", func() error { return write(in("open"), os.O_WRONLY|os.O_APPEND) })
	for _, dir := range []string{"/sys", "/run", "/var/lib", "/var/log"} {
		add(dir, func() error {
			_, err := os.ReadDir(above(dir)) // it may be empty
			return err
		}).own = dir == "/sys"
	}
	add("the host's disks", func() error { return blockDevice(above("/sys/block")) })
	add("control groups", func() error { return readable(above("/sys/fs/cgroup")) })
	list = append(list,
		probe{name: "the host's accounts", without: []control.Name{control.OwnEtc}, says: "held", do: func() error {
			text, err := os.ReadFile("/etc/passwd")
			sum := sha256.Sum256(text)
			if err != nil || hex.EncodeToString(sum[:]) != here("PASSWD") {
				return fmt.Errorf("held: another file: %w", err)
			}
			return nil
		}},
		probe{name: "the host's name in a file", without: []control.Name{control.OwnEtc}, says: "held", optional: true, do: func() error {
			text, err := os.ReadFile("/etc/hostname")
			if err != nil || !bytes.Equal(bytes.TrimSpace(text), []byte(here("NODE"))) {
				return fmt.Errorf("held: %q: %w", text, err)
			}
			return nil
		}})
	return list
}

func blockDevice(dir string) error {
	names, err := os.ReadDir(dir)
	if err == nil && len(names) == 0 {
		err = errors.New("held: none")
	}
	return err
}
