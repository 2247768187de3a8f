package driver

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// systemNames are the host's entries below "/" that every cell sees, read-only.
// Symbolic links among them stay links. /etc is one of them, but see etc.
func systemNames() []string {
	return []string{"usr", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}
}

// rootfs builds the cell's file tree, in the init's mount namespace.
//
// A tmpfs, the stage, is mounted over the host's /proc, which the init does not
// need and which exists everywhere. It has a directory "root", which becomes the
// cell's root, and beside it what the cell must not see as such: the cell's own
// /etc, the masks, links to layers. When the old root is detached the stage goes
// with it, and only what was attached below "root" stays.
type rootfs struct {
	plan  *plan
	fds   []int
	stage int
	root  int

	mountAPI string
	degraded []string
}

func (r *rootfs) build() error {
	unix.Umask(0)
	steps := []struct {
		name string
		do   func() error
	}{
		{"network", loopbackUp},
		{"host name", r.hostname},
		{"root", r.makeStage},
		{"system directories", r.system},
		{"etc", r.etc},
		{"proc", r.proc},
		{"dev", r.dev},
		{"binds", r.binds},
		{"overlays", r.overlays},
		{"masks", r.masks},
		{"pivot", r.enter},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return at(s.name, err)
		}
	}
	unix.Umask(0o022)
	return nil
}

func (r *rootfs) hostname() error {
	if err := unix.Sethostname([]byte(r.plan.Hostname)); err != nil {
		return err
	}
	return unix.Setdomainname([]byte("(none)"))
}

func (r *rootfs) makeStage() (err error) {
	if r.stage, err = newFS("tmpfs", attrHost, option{"mode", "0755"}); err != nil {
		return err
	}
	if err := moveTo(r.stage, unix.AT_FDCWD, "/proc"); err != nil {
		return err
	}
	if err := unix.Mkdirat(r.stage, "root", 0o755); err != nil {
		return fmt.Errorf("make root: %w", err)
	}
	if r.root, err = cloneTree(r.stage, "root", attrHost, -1); err != nil {
		return err
	}
	return moveTo(r.root, r.stage, "root")
}

func (r *rootfs) system() error {
	for _, name := range systemNames() {
		host := "/" + name
		var st unix.Stat_t
		err := unix.Lstat(host, &st)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", host, err)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			err = r.copyLink(host, name)
		case unix.S_IFDIR:
			err = r.bindSystem(host, name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", host, err)
		}
	}
	return nil
}

func (r *rootfs) copyLink(host, name string) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(host, buf)
	if err != nil {
		return fmt.Errorf("read link: %w", err)
	}
	if err := unix.Symlinkat(string(buf[:n]), r.root, name); err != nil {
		return fmt.Errorf("make link: %w", err)
	}
	return nil
}

func (r *rootfs) bindSystem(host, name string) error {
	fd, err := cloneTree(unix.AT_FDCWD, host, attrSystem, -1)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mkdirat(r.root, name, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return moveTo(fd, r.root, name)
}

func (r *rootfs) proc() error {
	fd, err := newFS("proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("the host hides parts of its own /proc, as containers do by default: %w", err)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mkdirat(r.root, "proc", 0o555); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return moveTo(fd, r.root, "proc")
}

// lookup opens a path as a process in the cell would see it, but for its last
// component, which is never followed.
func (r *rootfs) lookup(target string) (int, error) {
	return unix.Openat2(r.root, strings.TrimPrefix(target, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// mountPoint opens target, and makes it and the directories above it where they
// are missing.
func (r *rootfs) mountPoint(target string, dir bool) (int, error) {
	fd, err := r.lookup(target)
	if !errors.Is(err, unix.ENOENT) {
		if err != nil {
			err = fmt.Errorf("open mount point: %w", err)
		}
		return fd, err
	}
	parent := r.root
	if up := path.Dir(target); up != "/" {
		if parent, err = r.mountPoint(up, true); err != nil {
			return -1, err
		}
		defer unix.Close(parent)
	}
	if dir {
		err = unix.Mkdirat(parent, path.Base(target), 0o755)
	} else {
		err = unix.Mknodat(parent, path.Base(target), unix.S_IFREG|0o444, 0)
	}
	if errors.Is(err, unix.EROFS) {
		return -1, fmt.Errorf("%s does not exist, and cannot be made in a read-only directory: %w", target, err)
	}
	if err != nil {
		return -1, fmt.Errorf("make mount point %s: %w", target, err)
	}
	return r.lookup(target)
}

// enter makes the tree the root directory and leaves the host's behind.
func (r *rootfs) enter() error {
	if err := setReadOnly(r.root); err != nil {
		return err
	}
	if err := unix.Fchdir(r.root); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	// The old root is stacked on the same place and taken off again.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the host's root: %w", err)
	}
	if err := r.alone(); err != nil {
		return err
	}
	closeAll([]int{r.stage, r.root})
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	return nil
}

// alone checks that nothing is stacked on the cell's root: a mount there would
// not be seen at "/", but "/.." would lead into it.
func (r *rootfs) alone() error {
	var own, top unix.Statx_t
	if err := unix.Statx(r.root, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &own); err != nil {
		return fmt.Errorf("stat root: %w", err)
	}
	if err := unix.Statx(unix.AT_FDCWD, "/..", 0, unix.STATX_MNT_ID, &top); err != nil {
		return fmt.Errorf("stat root: %w", err)
	}
	if own.Mnt_id != top.Mnt_id {
		return errors.New("the host's root is still attached")
	}
	return nil
}
