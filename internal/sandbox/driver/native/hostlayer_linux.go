package native

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// A directory of the host below a root caller's overlay is shown through another
// overlay, the public view, in which only those files can be read that every user
// of the host may read. An overlay opens the files below it with the credentials
// of the thread that mounted it. The thread that mounts the public view has an id
// that owns no file, is in no group, and has no capability over files. So a file
// that its owner keeps private is closed to the cell, whenever it was made, even
// if its owner is shown as the cell's user or the cell's root.

// unownedID is a user and group that own no file in the layers' maps, and that
// no account of the host has.
const unownedID = idBase + idCount

// hostLayers takes the host's directory off the layers of o and returns what is
// in its place: the public view of it, mapped like ns, behind a cover layer if it is
// part of the system. It works with root's own credentials.
func (m *maker) hostLayers(p *hostPlan, o *mount.Overlay, ns int) (below []int, err error) {
	if !o.HostLower {
		return nil, nil
	}
	host := o.Lower[len(o.Lower)-1]
	o.Lower = o.Lower[:len(o.Lower)-1]
	if o.System {
		cover, err := newCoverLayer(host, o, p)
		if err != nil || o.Bare {
			return []int{cover}, err
		}
		below = append(below, cover)
	} else if !m.without.Has(control.OwnEtc) {
		own, err := newOwnEtc(host, o.Target, p)
		if err != nil {
			return nil, err
		}
		if own >= 0 {
			below = append(below, own)
		}
	}
	view, err := m.publicView(host, ns)
	if errors.Is(err, errNoMap) && !o.System {
		// Without a map the host's owners are nobody in the cell, so the cell
		// cannot read their private files.
		m.out.degraded = append(m.out.degraded, fmt.Sprintf("%s: its file system has no id maps: the caller's files there are nobody's", o.Target))
		view, err = cloneHost(host, -1)
	}
	if err != nil {
		mountfd.CloseAll(below)
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	return append(below, view), nil
}

// errNoMap means that a file system cannot be shown with other ids.
var errNoMap = errors.New("its file system has no id maps")

func (m *maker) publicView(dir string, ns int) (int, error) {
	if m.empty < 0 {
		fd, err := emptyDirectory()
		if err != nil {
			return -1, err
		}
		m.empty = fd
		m.out.spent = append(m.out.spent, fd)
	}
	host, err := cloneHost(dir, ns)
	if errors.Is(err, unix.EINVAL) {
		return -1, fmt.Errorf("%w: %w", errNoMap, err)
	}
	if err != nil || m.without.Has(control.PublicView) {
		return host, err
	}
	m.out.spent = append(m.out.spent, host)
	back, err := dropFileRights()
	if err != nil {
		return -1, fmt.Errorf("credentials: %w", err)
	}
	view, err := m.readOnlyUnion(host)
	return view, errors.Join(err, back())
}

func emptyDirectory() (int, error) {
	return mountfd.NewFS("tmpfs", mountfd.AttrSystem, mountfd.Option{Key: "mode", Value: "0755"})
}

// readOnlyUnion shows the directory top over an empty one.
func (m *maker) readOnlyUnion(top int) (int, error) {
	if !m.legacy {
		fd, err := mountfd.UnionByDescriptor(top, m.empty)
		if err == nil || !mountfd.NeedsPaths(err) {
			return fd, err
		}
	}
	// m.empty serves all unions, and a mount can be attached once. Older kernels cannot
	// copy a mount that is not attached, so this union gets an empty directory of its own.
	below, err := emptyDirectory()
	if err != nil {
		return -1, err
	}
	m.out.spent = append(m.out.spent, below)
	if err := m.enterStage([]int{top, below}); err != nil {
		return -1, err
	}
	if err := unix.Mount("overlay", mountfd.NameMount, "overlay", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, "lowerdir=0:1"); err != nil {
		return -1, fmt.Errorf("mount overlay: %w", err)
	}
	return mountfd.CloneTree(unix.AT_FDCWD, mountfd.NameMount, mountfd.AttrSystem, -1)
}

// dropFileRights leaves the calling thread without rights over any files, and
// with only the capability that mounting needs. The groups are dropped
// permanently; the returned function restores the rest.
func dropFileRights() (back func() error, err error) {
	before, err := capabilitySets()
	if err != nil {
		return nil, err
	}
	// Of this thread alone, which Go's own function is not.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return nil, fmt.Errorf("groups: %w", errno)
	}
	if err := setFileSystemIDs(unownedID); err != nil {
		return nil, err
	}
	few := before
	few[0].Effective, few[1].Effective = 1<<unix.CAP_SYS_ADMIN, 0
	if err := setCapabilities(few); err != nil {
		return nil, fmt.Errorf("lower capabilities: %w", err)
	}
	return before.restore, nil
}

// cloneHost copies the mount of a directory of the host. Only that one file
// system can be a layer; what is mounted below it stays out.
func cloneHost(dir string, userNS int) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.O_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("clone mount: %w", err)
	}
	set := unix.MountAttr{Attr_set: mountfd.AttrSystem, Propagation: unix.MS_PRIVATE}
	if userNS >= 0 {
		set.Attr_set |= unix.MOUNT_ATTR_IDMAP
		set.Userns_fd = uint64(userNS)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &set); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("restrict mount: %w", err)
	}
	return fd, nil
}
