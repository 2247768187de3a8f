package mountfd

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Option is one parameter of a new file system; an empty value is a flag.
type Option struct{ Key, Value string }

// NewFS makes a file system and returns it as a detached mount.
func NewFS(kind string, attr int, opts ...Option) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", kind, err)
	}
	defer unix.Close(fs)
	for _, o := range opts {
		if o.Value == "" {
			err = unix.FsconfigSetFlag(fs, o.Key)
		} else {
			err = unix.FsconfigSetString(fs, o.Key, o.Value)
		}
		if err != nil {
			return -1, fmt.Errorf("%s option %s: %w", kind, o.Key, err)
		}
	}
	return finishFS(fs, kind, attr)
}

func finishFS(fs int, kind string, attr int) (int, error) {
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("create %s: %w", kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", kind, err)
	}
	return fd, nil
}

// Attributes of host directories in a cell.
const (
	AttrHost   = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	AttrSystem = AttrHost | unix.MOUNT_ATTR_RDONLY
	AttrMask   = AttrSystem | unix.MOUNT_ATTR_NOEXEC
	AttrDevice = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_RDONLY
)

// CloneTree copies the mounts at path, relative to dir, into a detached tree
// that later mounts of the host cannot reach, with the given attributes on every
// one of them. With a user namespace the copy is id-mapped.
func CloneTree(dir int, path string, attr uint64, userNS int) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.O_CLOEXEC | unix.AT_RECURSIVE)
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(dir, path, flags)
	if err != nil {
		return -1, fmt.Errorf("clone mount: %w", err)
	}
	set := unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE}
	if userNS >= 0 {
		set.Attr_set |= unix.MOUNT_ATTR_IDMAP
		set.Userns_fd = uint64(userNS)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &set); err != nil {
		_ = unix.Close(fd)
		if userNS >= 0 {
			return -1, fmt.Errorf("id-map mount: %w", err)
		}
		return -1, fmt.Errorf("restrict mount: %w", err)
	}
	return fd, nil
}

// MoveTo attaches a detached mount at path below dir.
func MoveTo(fd, dir int, path string) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if path == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	if err := unix.MoveMount(fd, "", dir, path, flags); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	return nil
}

// SetReadOnly makes one attached mount read-only.
func SetReadOnly(fd int) error {
	err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil {
		return fmt.Errorf("make read-only: %w", err)
	}
	return nil
}

// checkWritable refuses an overlay that the kernel has mounted read-only: it
// does so without an error when it cannot use the upper directory.
func checkWritable(fd int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return fmt.Errorf("statfs: %w", err)
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("the kernel mounted it read-only: %w", unix.EROFS)
	}
	return nil
}

// CloneOne copies the one mount that fd is in, from fd downwards, without what
// is mounted below.
func CloneOne(fd int, attr uint64) (int, error) {
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		// The host's mounts cannot be taken apart in a user namespace: then all
		// of them come, and an overlay of the result shows the top one only.
		return CloneTree(fd, "", attr, -1)
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE}); err != nil {
		_ = unix.Close(tree)
		return -1, fmt.Errorf("restrict mount: %w", err)
	}
	return tree, nil
}
