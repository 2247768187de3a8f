package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// examineCell builds a throw-away cell whose first process tries its controls,
// on a directory below dir. An error means that no cell could be built.
func (n *Driver) examineCell(ctx context.Context, dir string) (found []driver.Check, err error) {
	tmp, err := os.MkdirTemp(dir, ".forkcell-probe-")
	if err != nil {
		return nil, fmt.Errorf("examine: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	socket, stop, err := listenFor(tmp)
	if err != nil {
		return nil, fmt.Errorf("examine: %w", err)
	}
	defer stop()
	s := driver.Spec{Hostname: "probe", ReadOnly: []string{tmp}, Guard: driver.Guard{LandlockBestEffort: true}}
	p, err := newPlan(s)
	if err != nil {
		return nil, err
	}
	p.Examine = &protocol.Examination{Host: ownNamespaces(), Socket: []byte(socket)}
	cell, err := n.beginPlan(ctx, s, p, n.firstProcess)
	if err != nil {
		return nil, err
	}
	err = errors.Join(cell.awaitBuilt(ctx), cell.Close())
	return cell.examined, err
}

// listenFor listens at a socket in dir that everyone may connect to. Package
// net is not used, because its initialisation would slow every first process of
// a cell.
func listenFor(dir string) (socket string, stop func(), err error) {
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("socket: %w", err)
	}
	stop = func() { _ = unix.Close(fd) }
	socket = filepath.Join(dir, "s")
	if err := listenAt(fd, dir); err != nil {
		stop()
		return "", nil, err
	}
	return socket, stop, os.Chmod(socket, 0o777)
}

// listenAt binds by the descriptor of the directory: a socket's name must be short.
func listenAt(fd int, dir string) error {
	d, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(d)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/s", d)}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return unix.Listen(fd, 1)
}

func ownNamespaces() map[string]string {
	_, names := protocol.Namespaces()
	own := map[string]string{}
	for _, name := range names {
		// One that cannot be read differs from the cell's.
		own[name], _ = os.Readlink("/proc/self/ns/" + name)
	}
	return own
}

// probeNotices builds a cell whose first process makes a denied call, and waits
// for the report.
func (n *Driver) probeNotices(ctx context.Context) error {
	told := make(chan driver.Denial, 1)
	s := driver.Spec{Hostname: "probe", Guard: driver.Guard{LandlockBestEffort: true, Denied: func(d driver.Denial) {
		select {
		case told <- d:
		default:
		}
	}}}
	p, err := newPlan(s)
	if err != nil {
		return err
	}
	p.Notice = true
	cell, err := n.beginPlan(ctx, s, p, n.firstProcess)
	if err != nil {
		return err
	}
	if err := cell.awaitBuilt(ctx); err != nil {
		return errors.Join(err, cell.Close())
	}
	const patience = 5 * time.Second
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-told:
	case <-wait.Done():
		err = errors.New("a denied call was not reported")
	}
	return errors.Join(err, cell.Close())
}

// limitChecks reports what control groups can do for this caller, and tries it.
func (n *Driver) limitChecks(ctx context.Context, cells bool) []driver.Check {
	host, err := n.cgroups()
	var list []driver.Check
	for _, control := range cgroup.Controls() {
		name := "limit " + string(control)
		if control == cgroup.Freezer {
			name = "freezer"
		}
		if err != nil {
			list = append(list, driver.Check{Name: name, Status: statusMissing, Reason: err.Error()})
			continue
		}
		can := host.Can(control)
		c := driver.Check{Name: name, Status: string(can.Status), Reason: can.Reason, Remedy: can.Remedy}
		if can.Status != cgroup.Missing {
			if can.Status == cgroup.Works {
				c.Reason = "cgroup " + can.Version
			}
			if cells {
				if tried := n.tryLimit(ctx, control); tried != nil {
					c = driver.Check{Name: name, Status: statusMissing, Reason: tried.Error(), Remedy: "what the kernel offers here does not work; `forkcell help limits` has what each limit needs"}
				}
			}
		}
		if weaker := cgroup.FallbackFor(control); can.Status == cgroup.Missing && weaker.Rlimit != cgroup.NoFallback {
			c.Reason += "; " + weaker.Rlimit + " stands in with --allow-degraded"
		}
		list = append(list, c)
	}
	return list
}

// tryLimit puts a throw-away cell under one limit, or freezes it.
func (n *Driver) tryLimit(ctx context.Context, control cgroup.Control) error {
	s := driver.Spec{ID: fmt.Sprintf("doctor-%d-%s", os.Getpid(), control), Hostname: "probe", Guard: driver.Guard{LandlockBestEffort: true, AllowDegraded: true}}
	const enough, memory, processor = 1 << 10, 1 << 30, 1000
	switch control {
	case cgroup.Memory:
		s.Limits.Memory = memory
	case cgroup.CPU:
		s.Limits.CPUsMilli = processor
	case cgroup.PIDs:
		s.Limits.PIDs = enough
	case cgroup.Freezer:
		s.Freezable = true
	}
	cell, err := n.Start(ctx, s)
	if err != nil {
		return err
	}
	if control == cgroup.Freezer {
		if err = cell.Freeze(ctx); err == nil {
			err = cell.Thaw()
		}
	}
	return errors.Join(err, cell.Close())
}

// probePidfd opens this process by descriptor.
func probePidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	return unix.Close(fd)
}

// probeHeld examines a cell as the limit of disk space does.
func (n *Driver) probeHeld(ctx context.Context) error {
	var record driver.Record
	cell, err := n.Start(ctx, driver.Spec{
		Hostname: "probe", Guard: driver.Guard{LandlockBestEffort: true},
		Started: func(r driver.Record) error { record = r; return nil },
	})
	if err != nil {
		return err
	}
	_, err = n.HeldSpace(record, time.Now())
	return errors.Join(err, cell.Close())
}

// errBorrow means that the sockets of other processes cannot be borrowed.
var errBorrow = errors.New("no process may look at another one's sockets (kernel.yama.ptrace_scope=3, or a seccomp profile without pidfd_getfd)")

// probeBorrow tries to take a descriptor of another process. The process need
// not have a descriptor of that number.
func probeBorrow(pid int) error {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errBorrow, err)
	}
	fd, err := unix.PidfdGetfd(pidfd, 0, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	_ = unix.Close(pidfd)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: %w", errBorrow, err)
	}
	return nil
}

// probeEgress builds a cell whose connections are captured, and closes it.
func (n *Driver) probeEgress(ctx context.Context) error {
	s := driver.Spec{Hostname: "probe", Guard: driver.Guard{LandlockBestEffort: true}, Network: &driver.Network{
		Serve: func(c driver.Captured) (func(), error) {
			c.Close()
			return func() {}, nil
		},
	}}
	cell, err := n.begin(ctx, s)
	if err != nil {
		return err
	}
	built := cell.awaitBuilt(ctx)
	borrow := n.probes().Borrow(cell.pid)
	if err := errors.Join(built, cell.Close()); err != nil {
		return err
	}
	return borrow
}

// examined turns what the first process found into a check.
func examined(f protocol.Finding) driver.Check {
	if f.Problem != "" {
		return driver.Check{Name: f.Name, Status: statusMissing, Reason: f.Problem}
	}
	return driver.Check{Name: f.Name, Status: statusWorks}
}
