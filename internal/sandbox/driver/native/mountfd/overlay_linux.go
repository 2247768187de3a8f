package mountfd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// How overlays came to be, for Controls.MountAPI.
const (
	MountByDescriptor = "descriptors"
	MountByPath       = "paths"
)

// maxOptions is the longest text that mount(2) takes: one page, with its final zero.
const maxOptions = 4095

// overlayOptions are the ones that keep layers plain: every changed file is a
// whole file, every directory is where it seems to be. The overlay is volatile:
// otherwise each unmount would write out the host's whole file system, also after
// a run that changed nothing. Sealing makes durable what a run left.
func overlayOptions(userXattr bool) []Option {
	opts := []Option{{Key: "redirect_dir", Value: "nofollow"}, {Key: "metacopy", Value: "off"}, {Key: "index", Value: "off"}, {Key: "volatile"}}
	if userXattr {
		opts = append(opts, Option{Key: "userxattr"})
	}
	return opts
}

// Layers are the descriptors that an overlay is made of.
type Layers struct {
	Lower       []int
	Upper, Work int
}

// Close closes the descriptors.
func (l Layers) Close() {
	CloseAll(l.Lower)
	CloseAll([]int{l.Upper, l.Work})
}

// OverlayByDescriptor makes a writable overlay of open directories.
func OverlayByDescriptor(l Layers, userXattr bool) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open overlay: %w", err)
	}
	defer unix.Close(fs)
	for _, o := range overlayOptions(userXattr) {
		if o.Value == "" {
			err = unix.FsconfigSetFlag(fs, o.Key)
		} else {
			err = unix.FsconfigSetString(fs, o.Key, o.Value)
		}
		if err != nil {
			return -1, fmt.Errorf("overlay option %s: %w", o.Key, err)
		}
	}
	for i, fd := range l.Lower {
		if err := unix.FsconfigSetFd(fs, "lowerdir+", fd); err != nil {
			return -1, fmt.Errorf("lower layer %d: %w", i, err)
		}
	}
	if err := unix.FsconfigSetFd(fs, "upperdir", l.Upper); err != nil {
		return -1, fmt.Errorf("upper layer: %w", err)
	}
	if err := unix.FsconfigSetFd(fs, "workdir", l.Work); err != nil {
		return -1, fmt.Errorf("work directory: %w", err)
	}
	fd, err := finishFS(fs, "overlay", AttrHost)
	if err != nil {
		return -1, err
	}
	if err := checkWritable(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// NeedsPaths reports whether an error means that this kernel cannot do it with
// descriptors. Other errors would come with paths, too. Kernels before about 6.7 do not know
// lowerdir+, before 6.13 no descriptors for it, before 6.15 no detached ones.
func NeedsPaths(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EBADF)
}

// Names in the directory that OverlayByPath works in.
const (
	NameUpper = "up"
	NameWork  = "wk"
	NameMount = "m"
)

// OverlayByPath makes the same overlay with mount(2), for older kernels. The
// current directory must be in a mount namespace of the cell's own and hold the
// layers, or symbolic links to them, under the names 0 to lower-1 (the topmost
// first), NameUpper and NameWork, and an empty directory NameMount: with names
// that short one page of options is enough for 500 layers, and no name needs
// quoting. The result is detached from there.
func OverlayByPath(lower int, userXattr bool) (int, error) {
	names := make([]string, lower)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	text := []string{"lowerdir=" + strings.Join(names, ":"), "upperdir=" + NameUpper, "workdir=" + NameWork}
	for _, o := range overlayOptions(userXattr) {
		if o.Value == "" {
			text = append(text, o.Key)
		} else {
			text = append(text, o.Key+"="+o.Value)
		}
	}
	data := strings.Join(text, ",")
	if len(data) > maxOptions {
		return -1, fmt.Errorf("%d layers do not fit in mount options: %w", lower, unix.E2BIG)
	}
	if err := unix.Mount("overlay", NameMount, "overlay", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return -1, fmt.Errorf("mount overlay: %w", err)
	}
	fd, err := CloneTree(unix.AT_FDCWD, NameMount, AttrHost, -1)
	if err != nil {
		return -1, err
	}
	if err := checkWritable(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	if err := unix.Unmount(NameMount, unix.MNT_DETACH); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("unmount: %w", err)
	}
	return fd, nil
}

// UnionByDescriptor makes a read-only mount that shows the directory top over the
// directory below.
func UnionByDescriptor(top, below int) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open overlay: %w", err)
	}
	defer unix.Close(fs)
	for _, fd := range []int{top, below} {
		if err := unix.FsconfigSetFd(fs, "lowerdir+", fd); err != nil {
			return -1, fmt.Errorf("lower layer: %w", err)
		}
	}
	return finishFS(fs, "overlay", AttrSystem)
}
