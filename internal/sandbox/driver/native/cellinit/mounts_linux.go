package cellinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// What the plan attaches, in its order: binds, overlays, pins, masks.

func (r *rootfs) binds() error {
	for _, b := range r.plan.Binds {
		if err := r.bind(b); err != nil {
			return fault.At(fmt.Sprintf("bind %s", b.Target), err)
		}
	}
	return nil
}

// bind attaches one bind, which may be the parent's work.
func (r *rootfs) bind(b protocol.Bind) error {
	var fd int
	var err error
	switch {
	case b.FD > 0:
		fd, err = r.passedDescriptor(b.FD)
	case b.ReadOnly:
		fd, err = mountfd.CloneTree(unix.AT_FDCWD, string(b.Source), SystemAttr(r.without), -1)
	default:
		fd, err = mountfd.CloneTree(unix.AT_FDCWD, string(b.Source), mountfd.AttrHost, -1)
	}
	if err != nil {
		return err
	}
	if !b.Dead || r.without.Has(control.DeadSockets) {
		return r.attach(fd, string(b.Target))
	}
	return r.attachDead(fd, b)
}

// attachDead attaches a mount of the host's such that sockets in it are dead. It
// is first attached in the stage, since an overlay wants its layers attached.
func (r *rootfs) attachDead(fd int, b protocol.Bind) error {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	r.unions++
	name := fmt.Sprintf("bind%d", r.unions)
	var err error
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = unix.Mkdirat(r.stage, name, 0o755)
	} else {
		err = unix.Mknodat(r.stage, name, unix.S_IFREG|0o444, 0)
	}
	if err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	if err := mountfd.MoveTo(fd, r.stage, name); err != nil {
		return err
	}
	shown, err := r.mountWithoutSockets(r.stage, name)
	if err != nil {
		return err
	}
	if err := r.attach(shown, string(b.Target)); err != nil {
		return err
	}
	return r.showBelow(r.stage, name, string(b.Source), string(b.Target))
}

func (r *rootfs) overlays() error {
	for i, o := range r.plan.Overlays {
		fd, err := r.overlay(i, o)
		if err == nil {
			err = r.attach(fd, string(o.Target))
		}
		if err != nil {
			return fault.At(fmt.Sprintf("overlay %s", o.Target), err)
		}
	}
	return nil
}

// overlay makes one of an ordinary user's overlays, or takes a root caller's.
func (r *rootfs) overlay(i int, o protocol.Overlay) (int, error) {
	if o.FD > 0 {
		return r.passedDescriptor(o.FD)
	}
	// What a policy makes writable below /etc has the host's directory at the bottom,
	// and the cell's own files over it.
	own := r.ownBelow(string(o.Target))
	if !r.plan.Legacy {
		l, err := openLayers(o)
		if err == nil && own != "" {
			err = insertLayer(&l, r.stage, own)
		}
		if err != nil {
			return -1, err
		}
		fd, err := mountfd.OverlayByDescriptor(l, true)
		l.Close()
		if err == nil || !mountfd.NeedsPaths(err) {
			return fd, err
		}
		r.plan.Legacy = true
	}
	r.mountAPI = mountfd.MountByPath
	dir := fmt.Sprintf("layers%d", i)
	if own != "" {
		o.Lower = slices.Insert(slices.Clone(o.Lower), len(o.Lower)-1, []byte("../"+own))
	}
	if err := r.linkLayers(dir, o); err != nil {
		return -1, fmt.Errorf("link layers: %w", err)
	}
	return mountfd.OverlayByPath(len(o.Lower), true)
}

// insertLayer adds a directory above the lowest layer.
func insertLayer(l *mountfd.Layers, at int, name string) error {
	fd, err := mountfd.OpenDir(at, name)
	if err != nil {
		l.Close()
		return err
	}
	l.Lower = slices.Insert(l.Lower, len(l.Lower)-1, fd)
	return nil
}

func openLayers(o protocol.Overlay) (l mountfd.Layers, err error) {
	l.Upper, l.Work = -1, -1
	open := func(dir []byte) int {
		if err != nil {
			return -1
		}
		fd, e := unix.Open(string(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if e != nil {
			err = fmt.Errorf("open %s: %w", dir, e)
			return -1
		}
		return fd
	}
	for _, dir := range o.Lower {
		l.Lower = append(l.Lower, open(dir))
	}
	l.Upper, l.Work = open(o.Upper), open(o.Work)
	if err != nil {
		l.Close()
	}
	return l, err
}

// linkLayers gives the layers short names in a new current directory.
func (r *rootfs) linkLayers(dir string, o protocol.Overlay) error {
	if err := unix.Mkdirat(r.stage, dir, 0o700); err != nil {
		return err
	}
	fd, err := mountfd.OpenDir(r.stage, dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchdir(fd); err != nil {
		return err
	}
	for i, lower := range o.Lower {
		if err := unix.Symlink(string(lower), strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return errors.Join(
		unix.Symlink(string(o.Upper), mountfd.NameUpper),
		unix.Symlink(string(o.Work), mountfd.NameWork),
		unix.Mkdir(mountfd.NameMount, 0o700))
}

// fixPaths makes paths in the cell's state such that they cannot be written to.
func (r *rootfs) fixPaths() error {
	if r.without.Has(control.Fixed) {
		return nil
	}
	for _, target := range r.plan.Fixed {
		if err := r.pin(string(target), unix.MOUNT_ATTR_RDONLY); err != nil {
			return fault.At(fmt.Sprintf("read-only path %s", target), err)
		}
	}
	return nil
}

// absent makes whiteouts mount points, before the overlays cover them.
func (r *rootfs) absent() error {
	if r.without.Has(control.Absent) {
		return nil
	}
	for _, target := range r.plan.Absent {
		if err := r.holdWhiteout(string(target)); err != nil {
			return fault.At(fmt.Sprintf("absent path %s", target), err)
		}
	}
	return nil
}

// holdWhiteout attaches a file to a whiteout. Anything else at the path is an
// error: the cell would see it.
func (r *rootfs) holdWhiteout(target string) error {
	point, err := r.lookup(target)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(point)
	var st unix.Stat_t
	if err := unix.Fstat(point, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		return errors.New("it is no whiteout")
	}
	fd, err := mountfd.CloneTree(r.stage, maskFile, mountfd.AttrMask, -1)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return mountfd.MoveTo(fd, point, "")
}

// masks hides paths behind unreadable things, when the directories that
// have to keep their names for it are pinned. A path that is not there needs no
// mask.
func (r *rootfs) masks() error {
	if r.without.Has(control.Masks) {
		return nil
	}
	for _, target := range r.plan.Pins {
		if err := r.pin(string(target), 0); err != nil {
			return fault.At(fmt.Sprintf("pin %s", target), err)
		}
	}
	for _, m := range r.plan.Masks {
		name := maskFile
		if m.Dir {
			name = maskDir
		}
		if err := r.mask(name, string(m.Target)); err != nil {
			return fault.At(fmt.Sprintf("mask %s", m.Target), err)
		}
	}
	return nil
}

// mask hides a path. What this process cannot reach needs no mask: it still has every
// right over what the cell's users own, and commands cannot change the modes of the rest.
func (r *rootfs) mask(name, target string) error {
	point, err := r.lookup(target)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(point)
	fd, err := mountfd.CloneTree(r.stage, name, mountfd.AttrMask, -1)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return mountfd.MoveTo(fd, point, "")
}

// pin attaches a path to itself: the kernel renames and removes no mount
// point of the namespace that asks. What is attached below it comes along.
func (r *rootfs) pin(target string, attr uint64) error {
	point, err := r.lookup(target)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(point)
	fd, err := mountfd.CloneTree(point, "", attr, -1)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return mountfd.MoveTo(fd, point, "")
}

// receiveMounts takes the mounts that the parent has made meanwhile, once.
func (r *rootfs) receiveMounts() error {
	p := r.plan
	if !p.Follow {
		return nil
	}
	p.Follow = false
	var m protocol.ParentMounts
	fds, err := r.conn.Read(&m)
	if errors.Is(err, io.EOF) {
		os.Exit(1)
	}
	if err != nil {
		return err
	}
	sent := len(r.fds)
	r.fds = append(r.fds, fds...)
	if len(m.Binds) != len(p.Binds) || len(m.Overlays) != len(p.Overlays) {
		return errors.New("not the mounts of the plan")
	}
	if m.Root > 0 {
		p.RootFD = sent + m.Root
	}
	for i, n := range m.Binds {
		p.Binds[i].FD = sent + n
	}
	for i, n := range m.Overlays {
		p.Overlays[i].FD = sent + n
	}
	return nil
}

// passedDescriptor is a descriptor that the parent sent.
func (r *rootfs) passedDescriptor(n int) (int, error) {
	if n > len(r.fds) {
		return -1, errors.New("the plan names a descriptor that was not sent")
	}
	return r.fds[n-1], nil
}

// attach puts a mount at target, which it makes if need be, and closes fd.
func (r *rootfs) attach(fd int, target string) error {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	point, err := r.mountPoint(target, st.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return err
	}
	defer unix.Close(point)
	return mountfd.MoveTo(fd, point, "")
}
