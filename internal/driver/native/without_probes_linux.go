//go:build probes

package native

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/driver"
)

// without lists controls that are left off, and has what the init and its parent do
// instead. It exists for the tests that show of every control what it stops.
// Nothing outside the package can fill Options.without, and the init takes its plan
// from its parent alone.
type without struct{ controls []driver.Control }

func (w without) has(control driver.Control) bool { return slices.Contains(w.controls, control) }

func (w *without) fields(wi *wire) { texts(wi, &w.controls) }

// weaken takes namespaces off a clone, and gives the init what an ordinary
// user's lacks.
func (w without) weaken(n *spawnConfig) (env []string) {
	for control, flag := range map[driver.Control]uint64{
		driver.ControlIPCNS: unix.CLONE_NEWIPC, driver.ControlNetNS: unix.CLONE_NEWNET, driver.ControlPIDNS: unix.CLONE_NEWPID, driver.ControlUTSNS: unix.CLONE_NEWUTS,
	} {
		if w.has(control) {
			n.flags &^= flag
		}
	}
	if w.has(driver.ControlUserNS) {
		n.flags &^= unix.CLONE_NEWUSER
	}
	if w.has(driver.ControlCapabilities) && len(n.ambient) > 0 {
		n.ambient = nil
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			n.ambient = append(n.ambient, c)
		}
	}
	if w.has(driver.ControlEnvironment) {
		return os.Environ()
	}
	return []string{}
}

// ownMounts keeps what the init mounts to itself. A mount namespace that comes
// with a user namespace does so anyhow; the one of a root without one would share
// its changes with the host's.
func (w without) ownMounts() error {
	if !w.has(driver.ControlUserNS) {
		return nil
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

// keepCapabilities becomes the sandbox user with every capability that the
// calling thread has.
func (w without) keepCapabilities(id identity) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&hdr, &caps[0]); err != nil {
		return err
	}
	if id.Root && !w.has(driver.ControlIDs) {
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
func (without) allowSUID(r *rootfs) error {
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

// systemAttr are the attributes of what the host's directories are shown with.
func (w without) systemAttr() uint64 {
	if w.has(driver.ControlReadOnly) {
		return attrHost
	}
	return attrSystem
}
