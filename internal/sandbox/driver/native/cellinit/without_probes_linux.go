//go:build probes

package cellinit

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// preparesEarly reports that the first process prepares what every cell has before
// it gets its plan. Here the plan says what of it is left off.
const preparesEarly = false

// ownMounts keeps what the init mounts to itself. A mount namespace that comes
// with a user namespace does so anyhow; the one of a root without one would share
// its changes with the host's.
func ownMounts(w protocol.Without) error {
	if !w.Has(control.UserNS) {
		return nil
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

// keepCapabilities becomes the sandbox user with every capability that the
// calling thread has.
func keepCapabilities(id protocol.Identity, w protocol.Without) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&hdr, &caps[0]); err != nil {
		return err
	}
	if id.Root && !w.Has(control.IDs) {
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return err
		}
		if err := setIDs(id); err != nil {
			return err
		}
	}
	for i := range caps {
		caps[i].Effective, caps[i].Inheritable = caps[i].Permitted, caps[i].Permitted
	}
	if err := unix.Capset(&hdr, &caps[0]); err != nil {
		return err
	}
	for c := range uintptr(64) {
		if caps[c/32].Permitted&(1<<(c%32)) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("capability %d: %w", c, err)
		}
	}
	return nil
}

// allowSUID lets setuid programs and file capabilities work in what the cell
// writes to. The host's own mounts may have the flag for good.
func allowSUID(r *rootfs) error {
	for _, o := range r.plan.Overlays {
		fd, err := r.lookup(string(o.Target))
		if err != nil {
			return err
		}
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NOSUID})
		_ = unix.Close(fd)
		if err != nil {
			return fmt.Errorf("allow setuid programs in %s: %w", o.Target, err)
		}
	}
	return nil
}

// SystemAttr are the attributes of what the host's directories are shown with.
func SystemAttr(w protocol.Without) uint64 {
	if w.Has(control.ReadOnly) {
		return mountfd.AttrHost
	}
	return mountfd.AttrSystem
}
