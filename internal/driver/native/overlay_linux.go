package native

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// How overlays came to be, for Controls.MountAPI.
const (
	mountByDescriptor = "descriptors"
	mountByPath       = "paths"
)

// maxOptions is what mount(2) takes: one page, with its final zero.
const maxOptions = 4095

// overlayOptions are the ones that keep layers plain: every changed file is a
// whole file, every directory is where it seems to be. The overlay is volatile:
// otherwise each unmount would write out the host's whole file system, also after
// a run that changed nothing. Sealing makes durable what a run left.
func overlayOptions(userXattr bool) []option {
	opts := []option{{"redirect_dir", "nofollow"}, {"metacopy", "off"}, {"index", "off"}, {"volatile", ""}}
	if userXattr {
		opts = append(opts, option{"userxattr", ""})
	}
	return opts
}

// layers are the descriptors that an overlay is made of.
type layers struct {
	lower       []int
	upper, work int
}

func (l layers) close() {
	closeAll(l.lower)
	closeAll([]int{l.upper, l.work})
}

// overlayByDescriptor makes a writable overlay of open directories.
func overlayByDescriptor(l layers, userXattr bool) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open overlay: %w", err)
	}
	defer unix.Close(fs)
	for _, o := range overlayOptions(userXattr) {
		if o.value == "" {
			err = unix.FsconfigSetFlag(fs, o.key)
		} else {
			err = unix.FsconfigSetString(fs, o.key, o.value)
		}
		if err != nil {
			return -1, fmt.Errorf("overlay option %s: %w", o.key, err)
		}
	}
	for i, fd := range l.lower {
		if err := unix.FsconfigSetFd(fs, "lowerdir+", fd); err != nil {
			return -1, fmt.Errorf("lower layer %d: %w", i, err)
		}
	}
	if err := unix.FsconfigSetFd(fs, "upperdir", l.upper); err != nil {
		return -1, fmt.Errorf("upper layer: %w", err)
	}
	if err := unix.FsconfigSetFd(fs, "workdir", l.work); err != nil {
		return -1, fmt.Errorf("work directory: %w", err)
	}
	fd, err := finishFS(fs, "overlay", attrHost)
	if err != nil {
		return -1, err
	}
	if err := checkWritable(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// needsPaths reports whether an error means that this kernel cannot do it with
// descriptors. Other errors would come with paths, too. Kernels before about 6.7 do not know
// lowerdir+, before 6.13 no descriptors for it, before 6.15 no detached ones.
func needsPaths(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EBADF)
}

// Names in the directory that overlayByPath works in.
const (
	nameUpper = "up"
	nameWork  = "wk"
	nameMount = "m"
)

// overlayByPath makes the same overlay with mount(2), for older kernels. The
// current directory must be in a mount namespace of the cell's own and hold the
// layers, or symbolic links to them, under the names 0 to lower-1 (the topmost
// first), nameUpper and nameWork, and an empty directory nameMount: with names
// that short one page of options is enough for 500 layers, and no name needs
// quoting. The result is detached from there.
func overlayByPath(lower int, userXattr bool) (int, error) {
	names := make([]string, lower)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	text := []string{"lowerdir=" + strings.Join(names, ":"), "upperdir=" + nameUpper, "workdir=" + nameWork}
	for _, o := range overlayOptions(userXattr) {
		if o.value == "" {
			text = append(text, o.key)
		} else {
			text = append(text, o.key+"="+o.value)
		}
	}
	data := strings.Join(text, ",")
	if len(data) > maxOptions {
		return -1, fmt.Errorf("%d layers do not fit in mount options: %w", lower, unix.E2BIG)
	}
	if err := unix.Mount("overlay", nameMount, "overlay", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return -1, fmt.Errorf("mount overlay: %w", err)
	}
	fd, err := cloneTree(unix.AT_FDCWD, nameMount, attrHost, -1)
	if err != nil {
		return -1, err
	}
	if err := checkWritable(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	if err := unix.Unmount(nameMount, unix.MNT_DETACH); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("unmount: %w", err)
	}
	return fd, nil
}
