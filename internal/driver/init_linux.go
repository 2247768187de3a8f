package driver

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// controlFD is where the init finds its socket.
const controlFD = 3

// IsInit says whether this process was started as a cell's first process.
func IsInit() bool { return len(os.Args) > 0 && os.Args[0] == initName }

// InitMain is the cell's first process. The binary's main calls it before
// anything else when [IsInit]; it does not return. It builds the cell, executes
// the command, reaps what is left to it and ends with the command, and the
// kernel then ends everything else in the cell. All its work is done on the
// main thread, which in the course of it becomes the unprivileged sandbox user.
func InitMain() {
	runtime.LockOSThread()
	c, err := newConn(controlFD)
	if err != nil {
		os.Exit(1)
	}
	// The caller may have left open whatever it likes, without the flag.
	if err := unix.CloseRange(controlFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		_ = c.write(failure(at("descriptors", err)))
		os.Exit(1)
	}
	defer func() {
		if r := recover(); r != nil {
			_ = c.write(failure(fmt.Errorf("panic: %v", r)))
			os.Exit(1)
		}
	}()
	pid, err := begin(c)
	if err != nil {
		// A parent that does not listen is gone.
		_ = c.write(failure(err))
		os.Exit(1)
	}
	go obey(c, pid)
	reap(c, pid)
}

// begin takes the plan, builds the cell and executes the command.
func begin(c *conn) (pid int, err error) {
	if err := dieWithParent(); err != nil {
		return 0, err
	}
	var p plan
	fds, err := c.read(&p)
	if errors.Is(err, io.EOF) {
		os.Exit(1)
	}
	if err != nil {
		return 0, at("plan", err)
	}
	r := &rootfs{plan: &p, fds: fds}
	if err := r.build(); err != nil {
		return 0, err
	}
	if err := noUserNamespaces(); err != nil {
		return 0, at("user namespaces", err)
	}
	if err := becomeSandbox(p.ID); err != nil {
		return 0, err
	}
	keys, err := leaveKeyring()
	if err != nil {
		return 0, err
	}
	r.degraded = append(r.degraded, keys...)
	if p.Probe {
		if len(p.Overlays) > 0 {
			if err := tryOverlay(string(p.Workdir)); err != nil {
				return 0, at("try overlay", err)
			}
		}
		_ = c.write(report{Kind: reportStarted, MountAPI: r.mountAPI, Degraded: r.degraded})
		_ = c.write(report{Kind: reportExited})
		os.Exit(0)
	}
	s, err := newCellStreams(&p)
	if err != nil {
		return 0, err
	}
	pid, err = execute(&p, s)
	if err != nil {
		return 0, err
	}
	err = c.write(report{Kind: reportStarted, MountAPI: r.mountAPI, Degraded: r.degraded}, s.parent...)
	s.release()
	return pid, err
}

// dieWithParent arms the signal that ends the init with its parent. Every change
// of credentials disarms it. The end of the control socket has the same effect;
// the two do not depend on each other.
func dieWithParent() error {
	return at("parent's death", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
}

// obey passes signals on and ends the cell when the parent is gone.
func obey(c *conn, pid int) {
	for {
		var o order
		if _, err := c.read(&o); err != nil {
			os.Exit(1)
		}
		if o.Signal > 0 {
			// A group that has ended needs no signal.
			_ = unix.Kill(-pid, unix.Signal(o.Signal))
		}
	}
}

// noUserNamespaces keeps the command from making user namespaces, in which it
// would hold capabilities and could reach far more of the kernel. The limit is
// the namespace's own, and what has no capability cannot raise it.
func noUserNamespaces() error {
	fd, err := unix.Open("/proc/sys/user/max_user_namespaces", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("0"))
	return err
}

// reap collects every process of the cell until the command is among them.
func reap(c *conn, pid int) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			os.Exit(1)
		case got == pid && (status.Exited() || status.Signaled()):
			_ = c.write(report{Kind: reportExited, Status: uint32(status)})
			os.Exit(0)
		}
	}
}
