package native

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// A root caller's cell has no rights over the host's files, so the parent
// prepares every mount of the set and sends the descriptors.

// attachedMounts are detached mounts, and how the plan refers to them.
type attachedMounts struct {
	fds      []int
	numbers  protocol.ParentMounts
	mountAPI string
	degraded []string
	// spent are the layers of finished overlays. Closing a mount waits for
	// other processors, so they are closed later, not during the start.
	spent []int
}

func newAttached() *attachedMounts { return &attachedMounts{mountAPI: mountfd.MountByDescriptor} }

// orError returns the mounts, or closes them if err is set.
func (a *attachedMounts) orError(err error) (*attachedMounts, error) {
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *attachedMounts) close() {
	mountfd.CloseAll(a.fds)
	mountfd.CloseAll(a.spent)
}

// add keeps a descriptor and returns its number in the plan.
func (a *attachedMounts) add(fd int) int {
	a.fds = append(a.fds, fd)
	return len(a.fds)
}

// prepare starts to make the mounts of a root caller's plan and returns the
// function that waits for them. The plan that is left says that they follow. For an
// ordinary user, whose init makes its own mounts, there is nothing to do.
//
// The work is done while the init starts, on a thread of its own, whose
// credentials and mount namespace change and which ends with it.
func (n *Driver) prepare(p *hostPlan) func() (*attachedMounts, error) {
	whole := p.follow()
	if whole == nil {
		return nothingAttached
	}
	return n.attachAside(whole)
}

// prepareHere is like prepare for an init that waits for its plan. The returned function
// makes the mounts on the thread of its caller, while the init builds what does not need
// them: no other thread has to be woken for it.
func (n *Driver) prepareHere(p *hostPlan) func() (*attachedMounts, error) {
	whole := p.follow()
	if whole == nil {
		return nothingAttached
	}
	if n.opt.ForceLegacyMounts || whole.hasHostLower() {
		return n.attachAside(whole)
	}
	return func() (*attachedMounts, error) {
		a, err := n.attachHere(whole)
		if errors.Is(err, errSharedThread) {
			return n.attachAside(whole)()
		}
		return a, err
	}
}

func nothingAttached() (*attachedMounts, error) { return newAttached(), nil }

// follow returns the plan as it is, and leaves one which says that the mounts follow. It
// returns nil if the parent makes none.
func (p *hostPlan) follow() *hostPlan {
	if !p.ID.Root || len(p.Binds)+len(p.Overlays) == 0 {
		return nil
	}
	whole := *p
	p.Follow, p.Overlays = true, nil
	for _, o := range whole.Overlays {
		p.Overlays = append(p.Overlays, protocol.Overlay{Target: o.Target})
	}
	return &whole
}

// attachAside makes the mounts on a thread of its own, and returns the function that
// waits for them.
func (n *Driver) attachAside(p *hostPlan) func() (*attachedMounts, error) {
	a, done := newAttached(), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- n.attach(p, &maker{legacy: n.opt.ForceLegacyMounts, without: n.opt.without, out: a, empty: -1})
	}()
	return func() (*attachedMounts, error) { return a.orError(<-done) }
}

// errSharedThread is the error of mounts that cannot be made on a thread which others
// use afterwards.
var errSharedThread = errors.New("it needs a mount namespace")

// attachHere makes the mounts on the calling thread and leaves it as it was.
func (n *Driver) attachHere(p *hostPlan) (*attachedMounts, error) {
	a := newAttached()
	runtime.LockOSThread()
	before, err := capabilitySets()
	if err == nil {
		err = n.attach(p, &maker{shared: true, without: n.opt.without, out: a, empty: -1})
	}
	if after, failed := capabilitySets(); failed != nil || after != before || !isOneself() {
		// The thread stays locked, and ends with the goroutine.
		return a.orError(errors.Join(err, errors.New("the credentials of a thread could not be restored")))
	}
	runtime.UnlockOSThread()
	return a.orError(err)
}

// attach makes the mounts of a plan.
func (n *Driver) attach(p *hostPlan, m *maker) error {
	ns, err := n.layers.get()
	if err == nil {
		m.userNS = int(ns.Fd())
		if p.hasSystem() {
			if ns, err = n.plain.get(); err == nil {
				m.plainNS = int(ns.Fd())
			}
		}
	}
	if err != nil {
		return fault.At("id map", err)
	}
	return m.all(p)
}

// maker makes a root caller's mounts, on a locked thread.
type maker struct {
	shared  bool // others use the thread afterwards
	userNS  int  // its map is the permuted one
	plainNS int  // its map is the cell's own, for the host's system
	legacy  bool
	private bool
	without protocol.Without
	out     *attachedMounts
	// empty is an empty directory, once one was needed.
	empty int
}

func (m *maker) all(p *hostPlan) error {
	if len(p.Root) > 0 {
		fd, err := mountfd.CloneTree(unix.AT_FDCWD, string(p.Root), mountfd.AttrSystem, -1)
		if err != nil {
			return fault.At("root", err)
		}
		m.out.numbers.Root = m.out.add(fd)
	}
	for _, b := range p.binds {
		attr, ns := uint64(mountfd.AttrHost), -1
		if b.ReadOnly {
			attr = cellinit.SystemAttr(m.without)
		}
		if b.owned {
			ns = m.userNS
		}
		fd, err := mountfd.CloneTree(unix.AT_FDCWD, string(b.Source), attr, ns)
		if err != nil {
			return fault.At(fmt.Sprintf("bind %s", b.Source), err)
		}
		m.out.numbers.Binds = append(m.out.numbers.Binds, m.out.add(fd))
	}
	for _, o := range p.overlays {
		fd, err := m.overlay(p, o)
		if err != nil {
			return fault.At(fmt.Sprintf("overlay %s", o.Target), err)
		}
		m.out.numbers.Overlays = append(m.out.numbers.Overlays, m.out.add(fd))
	}
	return nil
}

func (m *maker) overlay(p *hostPlan, o mount.Overlay) (_ int, err error) {
	ns, owner := m.userNS, idBase+sandboxID
	if o.System {
		ns, owner = m.plainNS, idBase
	}
	below, err := m.hostLayers(p, &o, ns)
	if err != nil {
		return -1, err
	}
	m.out.spent = append(m.out.spent, below...)
	back, err := becomeLayerOwner(owner)
	if err != nil {
		return -1, fmt.Errorf("credentials: %w", err)
	}
	defer func() { err = errors.Join(err, back()) }()
	l, top, err := m.layers(o, ns)
	if err != nil {
		return -1, err
	}
	m.out.spent = append(append(m.out.spent, l.Lower...), l.Upper, l.Work, top)
	l.Lower = append(l.Lower, below...)
	if !m.legacy {
		fd, err := mountfd.OverlayByDescriptor(l, false)
		if err == nil || !mountfd.NeedsPaths(err) {
			return fd, err
		}
		m.legacy = true
	}
	m.out.mountAPI = mountfd.MountByPath
	return m.overlayByPath(l, top, o)
}

// layers opens the layers of o, mapped like ns. Upper and work must be in one
// mount, so the directory that holds both is cloned, as top, and they are opened
// in it.
func (m *maker) layers(o mount.Overlay, ns int) (l mountfd.Layers, top int, err error) {
	l, top = mountfd.Layers{Upper: -1, Work: -1}, -1
	defer func() {
		if err != nil {
			l.Close()
			mountfd.CloseAll([]int{top})
		}
	}()
	for _, dir := range o.Lower {
		fd, err := mountfd.CloneTree(unix.AT_FDCWD, dir, mountfd.AttrHost, ns)
		if err != nil {
			return l, top, fmt.Errorf("%s: %w", dir, err)
		}
		l.Lower = append(l.Lower, fd)
	}
	holder, upper, work := common(o.Upper, o.Work)
	if top, err = mountfd.CloneTree(unix.AT_FDCWD, holder, mountfd.AttrHost, ns); err != nil {
		return l, top, fmt.Errorf("%s: %w", holder, err)
	}
	if l.Upper, err = mountfd.OpenDir(top, upper); err != nil {
		return l, top, fmt.Errorf("upper %s: %w", o.Upper, err)
	}
	if l.Work, err = mountfd.OpenDir(top, work); err != nil {
		return l, top, fmt.Errorf("work %s: %w", o.Work, err)
	}
	return l, top, nil
}

// overlayByPath attaches the layers in a mount namespace of this thread's own.
func (m *maker) overlayByPath(l mountfd.Layers, top int, o mount.Overlay) (int, error) {
	if err := m.enterStage(l.Lower); err != nil {
		return -1, err
	}
	if err := attachNamed(top, "u"); err != nil {
		return -1, fmt.Errorf("upper layer: %w", err)
	}
	_, upper, work := common(o.Upper, o.Work)
	err := errors.Join(unix.Symlink("u/"+upper, mountfd.NameUpper), unix.Symlink("u/"+work, mountfd.NameWork))
	if err != nil {
		return -1, fmt.Errorf("stage: %w", err)
	}
	return mountfd.OverlayByPath(len(l.Lower), false)
}

// enterStage makes a new current directory, in a separate mount namespace of
// this thread, with the lower layers under their numbers and a mount point.
func (m *maker) enterStage(lower []int) error {
	if m.shared {
		return errSharedThread
	}
	if !m.private {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("private mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("private mounts: %w", err)
		}
		m.private = true
	}
	stage, err := mountfd.NewFS("tmpfs", 0, mountfd.Option{Key: "mode", Value: "0755"})
	if err != nil {
		return err
	}
	defer unix.Close(stage)
	// On top of the root directory: there always is one, and paths from the
	// root still lead below it.
	if err := mountfd.MoveTo(stage, unix.AT_FDCWD, "/"); err != nil {
		return err
	}
	if err := unix.Fchdir(stage); err != nil {
		return fmt.Errorf("enter stage: %w", err)
	}
	for i, fd := range lower {
		if err := attachNamed(fd, strconv.Itoa(i)); err != nil {
			return fmt.Errorf("lower layer %d: %w", i, err)
		}
	}
	if err := unix.Mkdir(mountfd.NameMount, 0o755); err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	return nil
}

// attachNamed attaches a mount in the current directory.
func attachNamed(fd int, name string) error {
	if err := unix.Mkdir(name, 0o755); err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	return mountfd.MoveTo(fd, unix.AT_FDCWD, name)
}

// becomeLayerOwner gives the calling thread the file system ids that the
// permuted map gives to root's files, and its capabilities back: an overlay
// works with its mounter's credentials, and what it makes must belong, on disk,
// to root. With fsuid 0, which the layers' map does not know, the kernel would
// mount the overlay read-only. The returned function restores the ids.
func becomeLayerOwner(id int) (back func() error, err error) {
	before, err := capabilitySets()
	if err != nil {
		return nil, err
	}
	if err := setFileSystemIDs(id); err != nil {
		becomeOneself()
		return nil, err
	}
	if err := setCapabilities(before); err != nil {
		becomeOneself()
		return nil, fmt.Errorf("raise capabilities: %w", err)
	}
	return before.restore, nil
}

// capabilitySet has the capabilities of a thread.
type capabilitySet [2]unix.CapUserData

func capabilitySets() (sets capabilitySet, err error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&hdr, &sets[0]); err != nil {
		return sets, fmt.Errorf("read capabilities: %w", err)
	}
	return sets, nil
}

func setCapabilities(sets capabilitySet) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&hdr, &sets[0])
}

// restore gives the calling thread these capabilities, and the file system ids of its
// process.
func (c capabilitySet) restore() error {
	becomeOneself()
	if err := setCapabilities(c); err != nil {
		return fmt.Errorf("restore capabilities: %w", err)
	}
	return nil
}

// setFileSystemIDs changes the user and group of the calling thread for file
// access. It drops the capabilities over files, unless the user is root.
func setFileSystemIDs(id int) error {
	for _, set := range []func(int) (int, error){unix.SetfsgidRetGid, unix.SetfsuidRetUid} {
		if _, err := set(id); err != nil {
			return fmt.Errorf("set file system id: %w", err)
		}
		// The call does not report a failure, so the ids are read again.
		if now, _ := set(-1); now != id {
			return fmt.Errorf("file system id %d was refused: %w", id, unix.EPERM)
		}
	}
	return nil
}

// becomeOneself makes the file system ids of the calling thread the effective ones.
func becomeOneself() {
	_, _ = unix.SetfsuidRetUid(unix.Geteuid())
	_, _ = unix.SetfsgidRetGid(unix.Getegid())
}

// isOneself reports whether the calling thread has the file system ids of the process.
func isOneself() bool {
	uid, _ := unix.SetfsuidRetUid(-1)
	gid, _ := unix.SetfsgidRetGid(-1)
	return uid == unix.Geteuid() && gid == unix.Getegid()
}

// common splits two paths into the deepest directory above both and the rest.
func common(a, b string) (dir, restA, restB string) {
	dir = filepath.Dir(filepath.Clean(a))
	for dir != "/" && !strings.HasPrefix(filepath.Clean(b), dir+"/") {
		dir = filepath.Dir(dir)
	}
	cut := func(p string) string {
		return strings.TrimPrefix(strings.TrimPrefix(filepath.Clean(p), dir), "/")
	}
	return dir, cut(a), cut(b)
}
