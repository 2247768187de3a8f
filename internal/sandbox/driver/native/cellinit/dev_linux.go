package cellinit

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
)

// dev makes a /dev with the harmless devices and the cell's own terminals.
func (r *rootfs) dev() error {
	dev, err := mountfd.NewFS("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, mountfd.Option{Key: "mode", Value: "0755"})
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	if err := unix.Mkdirat(r.root, "dev", 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := mountfd.MoveTo(dev, r.root, "dev"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := device(dev, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, l := range [][2]string{
		{"pts/ptmx", "ptmx"},
		{"/proc/self/fd", "fd"},
		{"/proc/self/fd/0", "stdin"},
		{"/proc/self/fd/1", "stdout"},
		{"/proc/self/fd/2", "stderr"},
	} {
		if err := unix.Symlinkat(l[0], dev, l[1]); err != nil {
			return fmt.Errorf("%s: %w", l[1], err)
		}
	}
	const quiet = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	if err := fsAt(dev, "pts", "devpts", quiet, mountfd.Option{Key: "newinstance"}, mountfd.Option{Key: "ptmxmode", Value: "0666"}, mountfd.Option{Key: "mode", Value: "0620"}); err != nil {
		return fmt.Errorf("pts: %w", err)
	}
	if err := fsAt(dev, "shm", "tmpfs", mountfd.AttrHost, mountfd.Option{Key: "mode", Value: "1777"}); err != nil {
		return fmt.Errorf("shm: %w", err)
	}
	if r.without.Has(control.ReadOnly) {
		return nil
	}
	return mountfd.SetReadOnly(dev)
}

// device shows one of the host's devices. User namespaces cannot make nodes.
func device(dev int, name string) error {
	fd, err := mountfd.CloneTree(unix.AT_FDCWD, "/dev/"+name, mountfd.AttrDevice, -1)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mknodat(dev, name, unix.S_IFREG|0o444, 0); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	return mountfd.MoveTo(fd, dev, name)
}

// fsAt mounts a new file system on a new directory.
func fsAt(dir int, name, kind string, attr int, opts ...mountfd.Option) error {
	fd, err := mountfd.NewFS(kind, attr, opts...)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mkdirat(dir, name, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return mountfd.MoveTo(fd, dir, name)
}

// loopbackUp brings up the only network interface that the cell has.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("name: %w", err)
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	return nil
}
