package cellinit

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// SystemNames are the host's entries below "/" that every cell sees, read-only.
// Symbolic links among them stay links, and are there whatever the policy lists.
// /etc is one of them, but see etc.
func SystemNames() []string {
	return []string{"usr", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}
}

// system shows the directories that the cell's programs come from. Unless the
// plan lists its own, those are the host's usual ones.
func (r *rootfs) system() error {
	listed := protocol.Strings(r.plan.System)
	for _, name := range SystemNames() {
		var st unix.Stat_t
		err := unix.Fstatat(r.host, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("/%s: %w", name, err)
		}
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFLNK:
			err = copyLink(r.host, name, r.root, name)
			listed = slices.DeleteFunc(listed, func(p string) bool { return p == "/"+name })
		case st.Mode&unix.S_IFMT == unix.S_IFDIR && !r.plan.OwnSystem && !r.plan.HasOverlay("/"+name):
			listed = append(listed, "/"+name)
		}
		if err != nil {
			return fmt.Errorf("/%s: %w", name, err)
		}
	}
	slices.Sort(listed)
	for _, p := range slices.Compact(listed) {
		if p == "/etc" || r.plan.StateAbove(p) != "" {
			continue
		}
		if err := r.show(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

func copyLink(from int, name string, to int, as string) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(from, name, buf)
	if err != nil {
		return fmt.Errorf("read link: %w", err)
	}
	if err := unix.Symlinkat(string(buf[:n]), to, as); err != nil {
		return fmt.Errorf("make link: %w", err)
	}
	return nil
}

// link shows a listed link as a link. It is there already when its directory is
// shown too.
func (r *rootfs) link(p string) error {
	fd, err := r.lookup(p)
	if err == nil {
		return unix.Close(fd)
	}
	if !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("open: %w", err)
	}
	dir, err := r.mountPoint(path.Dir(p), true)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return copyLink(r.host, strings.TrimPrefix(p, "/"), dir, path.Base(p))
}

// linksInState shows the listed links that are in a directory of the cell's own,
// which hides what was there before.
func (r *rootfs) linksInState() error {
	for _, p := range protocol.Strings(r.plan.System) {
		if r.plan.StateAbove(p) == "" {
			continue
		}
		if err := r.link(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// show attaches one path of the system, and what the host has mounted below it.
func (r *rootfs) show(p string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(r.host, strings.TrimPrefix(p, "/"), &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return r.link(p)
	}
	fd, err := r.mountWithoutSockets(r.host, strings.TrimPrefix(p, "/"))
	if err != nil {
		return err
	}
	if err := r.attach(fd, p); err != nil {
		return err
	}
	return r.showBelow(r.host, strings.TrimPrefix(p, "/"), p, p)
}

// showBelow attaches what the host has mounted below source, which is at name in
// dir, below target.
func (r *rootfs) showBelow(dir int, name, source, target string) error {
	for _, below := range r.mountedBelow(source) {
		rest := strings.TrimPrefix(below, source)
		fd, err := r.mountWithoutSockets(dir, name+rest)
		if errors.Is(err, unix.EACCES) {
			continue // a mount that the cell's user could not enter anyway
		}
		if err == nil {
			err = r.attach(fd, target+rest)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", below, err)
		}
	}
	return nil
}

// mountWithoutSockets makes a read-only mount of a path of the host in which unix sockets are
// dead: a process of the host that listens there cannot be reached. A directory
// is shown through an overlay, whose inodes are not the ones that sockets are
// bound to. What is mounted below a directory is not in it.
func (r *rootfs) mountWithoutSockets(dir int, name string) (int, error) {
	src, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	defer unix.Close(src)
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return -1, fmt.Errorf("stat: %w", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if r.without.Has(control.DeadSockets) {
			return mountfd.CloneTree(src, "", SystemAttr(r.without), -1)
		}
		return r.readOnlyUnion(src, r.empty)
	case unix.S_IFREG:
		return mountfd.CloneTree(src, "", mountfd.AttrSystem, -1)
	}
	return -1, errors.New("it is neither a file nor a directory")
}

// readOnlyUnion shows the directory top over the directory below.
func (r *rootfs) readOnlyUnion(top, below int) (int, error) {
	if !r.plan.Legacy {
		fd, err := mountfd.UnionByDescriptor(top, below)
		if err == nil || !mountfd.NeedsPaths(err) {
			return fd, err
		}
	}
	return r.unionByPath(top, below)
}

// unionByPath is the same with mount(2), for older kernels. The two are
// attached in the stage first, where their names are short and need no quoting.
func (r *rootfs) unionByPath(top, below int) (int, error) {
	r.unions++
	dir := fmt.Sprintf("union%d", r.unions)
	for _, d := range []string{dir, dir + "/top", dir + "/below", dir + "/" + mountfd.NameMount} {
		if err := unix.Mkdirat(r.stage, d, 0o755); err != nil {
			return -1, fmt.Errorf("stage: %w", err)
		}
	}
	for _, layer := range []struct {
		fd   int
		name string
	}{{top, "top"}, {below, "below"}} {
		fd, err := mountfd.CloneOne(layer.fd, mountfd.AttrSystem)
		if err != nil {
			return -1, err
		}
		err = mountfd.MoveTo(fd, r.stage, dir+"/"+layer.name)
		_ = unix.Close(fd)
		if err != nil {
			return -1, err
		}
	}
	at, err := mountfd.OpenDir(r.stage, dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if err := unix.Fchdir(at); err != nil {
		return -1, fmt.Errorf("enter stage: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_RDONLY
	if err := unix.Mount("overlay", mountfd.NameMount, "overlay", flags, "lowerdir=top:below"); err != nil {
		return -1, fmt.Errorf("mount overlay: %w", err)
	}
	return mountfd.CloneTree(at, mountfd.NameMount, mountfd.AttrSystem, -1)
}

// readMounts remembers where the host has something mounted, while its /proc
// can still be read.
func (r *rootfs) readMounts() (err error) {
	if r.without.Has(control.PIDNS) {
		if r.hostProc, err = mountfd.CloneTree(unix.AT_FDCWD, "/proc", mountfd.AttrHost, -1); err != nil {
			return err
		}
	}
	text, err := readFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 {
			r.mounts = append(r.mounts, unescapeMount(f[4]))
		}
	}
	slices.Sort(r.mounts)
	return nil
}

// mountedBelow lists the mount points strictly below p, the outer ones first.
func (r *rootfs) mountedBelow(p string) []string {
	var list []string
	for _, m := range slices.Compact(slices.Clone(r.mounts)) {
		if m != p && protocol.Within(m, p) {
			list = append(list, m)
		}
	}
	return list
}

// unescapeMount undoes the kernel's escapes: a backslash and three octal digits.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] <= '3' {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return path.Clean(b.String())
}
