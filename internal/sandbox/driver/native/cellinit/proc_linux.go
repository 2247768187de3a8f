package cellinit

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
)

// Parts of /proc that tell about the host, or reach into it. The kernel keeps
// most of them from an unprivileged user already; here they are gone or
// read-only all the same.
func maskedProc() []string {
	return []string{
		"acpi", "asound", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags",
		"latency_stats", "sched_debug", "scsi", "slabinfo", "timer_list", "timer_stats", "vmallocinfo", "zoneinfo",
	}
}

// settingsDir is the part of /proc with the kernel's settings. It becomes read-only
// like readOnlyProc, once they are made.
const settingsDir = "sys"

func readOnlyProc() []string {
	return []string{"bus", "fs", "irq", "sysrq-trigger", "driver", "mtrr"}
}

func (r *rootfs) newProc() (int, error) {
	if r.without.Has(control.PIDNS) {
		return r.hostProc, nil
	}
	return mountfd.NewFS("proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

// lowPorts lets the cell's user bind every port: the cell's addresses are its own.
// Kernels without the setting keep the low ones for root.
func lowPorts(proc int) error {
	if err := setSysctl(proc, "net/ipv4/ip_unprivileged_port_start", "0"); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("low ports: %w", err)
	}
	return nil
}

// setSysctl writes a setting of the kernel's, which is a file beneath /proc/sys.
func setSysctl(proc int, name, value string) error {
	fd, err := unix.Openat(proc, settingsDir+"/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(value))
	return err
}

func (r *rootfs) makeProc() error {
	fd, err := r.newProc()
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("the host hides parts of its own /proc, as containers do by default: %w", err)
	}
	if err != nil {
		return err
	}
	r.cellProc = fd
	if err := unix.Mkdirat(r.root, "proc", 0o555); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := mountfd.MoveTo(fd, r.root, "proc"); err != nil {
		return err
	}
	// Settings are made while /proc/sys can be written.
	limits := watchLimits()
	if r.limitsNamespaces() {
		limits = append(limits, noUserNamespaces)
	}
	if err := r.limitUser(fd, limits...); err != nil {
		return err
	}
	if !r.without.Has(control.NetNS) {
		if err := lowPorts(fd); err != nil {
			return err
		}
	}
	if r.runtime {
		// It mounts a /proc for itself, which the kernel allows only where the
		// present one is whole. What it runs sees neither.
		return nil
	}
	return r.coverProc(fd)
}

// finishProc makes the settings of a cell with a network, and then all settings
// read-only.
func (r *rootfs) finishProc() error {
	defer unix.Close(r.cellProc)
	if r.plan.Capture && !r.without.Has(control.NetNS) {
		for _, s := range capture.Settings() {
			if err := setSysctl(r.cellProc, s.File, s.Value); err != nil {
				return fmt.Errorf("%s: %w", s.File, err)
			}
		}
	}
	if r.limitsNamespaces() { // the cell's own are made
		if err := r.limitUser(r.cellProc, namespaceLimits()...); err != nil {
			return err
		}
	}
	if r.without.Has(control.ReadOnlyProc) || r.runtime {
		return nil
	}
	return r.protect(r.cellProc, settingsDir)
}

// protect makes a part of /proc read-only.
func (r *rootfs) protect(proc int, name string) error {
	return r.coverWith(proc, name, func() (int, error) {
		return mountfd.CloneTree(proc, name, mountfd.AttrMask, -1)
	})
}

// coverProc hides and write-protects. The covers lie in the proc mount itself,
// which no process of the cell can take apart.
func (r *rootfs) coverProc(proc int) error {
	for _, name := range readOnlyProc() {
		if r.without.Has(control.ReadOnlyProc) {
			break
		}
		if err := r.protect(proc, name); err != nil {
			return err
		}
	}
	for _, name := range maskedProc() {
		if r.without.Has(control.ProcMasks) {
			break
		}
		var st unix.Stat_t
		if err := unix.Fstatat(proc, name, &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, unix.ENOENT) {
			continue
		}
		mask := maskFile
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			mask = maskDir
		}
		if err := r.coverWith(proc, name, func() (int, error) {
			return mountfd.CloneTree(r.stage, mask, mountfd.AttrMask, -1)
		}); err != nil {
			return err
		}
	}
	return nil
}

// coverWith mounts something over a name in proc, if there is such a name.
func (r *rootfs) coverWith(proc int, name string, cover func() (int, error)) error {
	if err := unix.Faccessat(proc, name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, unix.ENOENT) {
		return nil
	}
	fd, err := cover()
	if err == nil {
		err = mountfd.MoveTo(fd, proc, name)
		_ = unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("cover %s: %w", name, err)
	}
	return nil
}
