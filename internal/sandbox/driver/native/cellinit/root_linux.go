package cellinit

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
)

// rootfs builds the cell's file tree, in the init's mount namespace.
//
// A tmpfs, the stage, is mounted over the host's /proc, which the init does not
// need and which exists everywhere. It has a directory "root", which becomes the
// cell's root, and beside it what the cell must not see as such: the cell's own
// /etc, the masks, links to layers. When the old root is detached the stage goes
// with it, and only what was attached below "root" stays.
type rootfs struct {
	plan    *protocol.Plan
	conn    *protocol.Conn
	fds     []int
	without protocol.Without
	stage   int
	root    int
	// host is where the system's directories come from: the host's root, or the
	// directory that the plan gives instead. empty is an empty directory.
	host, empty int
	// mounts are the host's mount points, in order.
	mounts []string
	unions int
	// hostProc is the host's, where the cell has no pid namespace. cellProc is the
	// cell's.
	hostProc, cellProc int

	// template means that the cell can be branched, runtime that its command brings a
	// kernel for what it runs.
	template, runtime bool
	// namespaces are those of the cell, for a process that joins it.
	namespaces []int

	mountAPI  string
	degraded  []string
	stepTimes *stepTimes
	sockets   *capture.Sockets
	// local is the listener of the plan's socket; 0 if there is none.
	local int
	// unanswered is the socket for what the cell asks in vain; 0 if there is none.
	unanswered int
	// asks is the listener at which commands ask for package managers, and broker
	// executes those; nil without them.
	asks   int
	broker *broker
}

func (r *rootfs) hostname() error {
	if r.without.Has(control.UTSNS) {
		return nil
	}
	if err := unix.Sethostname([]byte(r.plan.Hostname)); err != nil {
		return err
	}
	return unix.Setdomainname([]byte("(none)"))
}

func (r *rootfs) makeStage() (err error) {
	if r.stage, err = mountfd.NewFS("tmpfs", mountfd.AttrHost, mountfd.Option{Key: "mode", Value: "0755"}); err != nil {
		return err
	}
	if err := mountfd.MoveTo(r.stage, unix.AT_FDCWD, "/proc"); err != nil {
		return err
	}
	if err := unix.Mkdirat(r.stage, "root", 0o755); err != nil {
		return fmt.Errorf("make root: %w", err)
	}
	if r.root, err = mountfd.CloneTree(r.stage, "root", mountfd.AttrHost, -1); err != nil {
		return err
	}
	if err := mountfd.MoveTo(r.root, r.stage, "root"); err != nil {
		return err
	}
	if r.runtime {
		// A runtime makes the root of its kernel there, in a mount namespace.
		if err := unix.Mkdirat(r.root, "tmp", 0o755); err != nil {
			return fmt.Errorf("make tmp: %w", err)
		}
	}
	for _, name := range []string{"empty", maskDir} {
		if err := unix.Mkdirat(r.stage, name, 0); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	if err := unix.Mknodat(r.stage, maskFile, unix.S_IFREG, 0); err != nil {
		return fmt.Errorf("make %s: %w", maskFile, err)
	}
	r.empty, err = mountfd.OpenDir(r.stage, "empty")
	return err
}

// findHost opens the directory that the system's directories come from.
func (r *rootfs) findHost() (err error) {
	var given int
	if len(r.plan.Root) > 0 {
		if err := r.receiveMounts(); err != nil {
			return err
		}
	}
	switch {
	case r.plan.RootFD > 0:
		given, err = r.passedDescriptor(r.plan.RootFD)
	case len(r.plan.Root) > 0:
		given, err = mountfd.CloneTree(unix.AT_FDCWD, string(r.plan.Root), mountfd.AttrSystem, -1)
	default:
		r.host, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	}
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(r.stage, "host", 0o755); err != nil {
		return fmt.Errorf("make host: %w", err)
	}
	if err := mountfd.MoveTo(given, r.stage, "host"); err != nil {
		return err
	}
	r.host, r.mounts = given, nil
	return nil
}

// ownCgroups makes the group that this process was put into the root of what the
// cell sees of control groups. It must happen after the parent has put it there,
// so it is no flag of its clone.
func (r *rootfs) ownCgroups() error {
	if r.without.Has(control.CgroupNS) {
		return nil
	}
	return unix.Unshare(unix.CLONE_NEWCGROUP)
}

func (r *rootfs) loopback() error {
	if r.without.Has(control.NetNS) {
		return nil
	}
	return loopbackUp()
}

// network captures the connections of a cell that has a network. In one that has none
// it only makes the socket at which the host hears of questions. That changes nothing
// in the cell, so a kernel that refuses the socket is no failure.
func (r *rootfs) network() error {
	if r.without.Has(control.NetNS) {
		return nil
	}
	var err error
	if !r.plan.Capture {
		if r.plan.Guard.Attempts {
			if r.unanswered, err = capture.UnansweredSocket(); err != nil {
				r.unanswered = 0
			}
		}
		return nil
	}
	r.sockets, err = capture.Setup()
	return fault.Wrap("network", fault.CauseNetwork, err)
}

// Names in the stage of unreadable files.
const (
	maskDir  = "mask-dir"
	maskFile = "mask-file"
)

// lookup opens a path as a process in the cell would see it, but for its last
// component, which is never followed, and for links in what the cell writes,
// which would let it choose where things are attached.
func (r *rootfs) lookup(target string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	if r.without.Has(control.InRoot) {
		how.Resolve = 0
	}
	above := r.plan.StateAbove(target)
	if above == "" || r.without.Has(control.InRoot) {
		return unix.Openat2(r.root, strings.TrimPrefix(target, "/"), &how)
	}
	dir, err := r.lookup(above)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	how.Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS
	return unix.Openat2(dir, strings.TrimPrefix(target, above+"/"), &how)
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
	if !r.without.Has(control.ReadOnly) {
		if err := mountfd.SetReadOnly(r.root); err != nil {
			return err
		}
	}
	if r.without.Has(control.NoSUID) {
		if err := allowSUID(r); err != nil {
			return err
		}
	}
	if err := unix.Fchdir(r.root); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	// The old root is stacked on the same place and taken off again.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if !r.without.Has(control.Detached) {
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return fmt.Errorf("detach the host's root: %w", err)
		}
		if err := r.checkAlone(); err != nil {
			return err
		}
	}
	mountfd.CloseAll([]int{r.stage, r.root, r.host, r.empty})
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	return nil
}

// checkAlone checks that nothing is stacked on the cell's root: a mount there would
// not be seen at "/", but "/.." would lead into it.
func (r *rootfs) checkAlone() error {
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
