package native

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// Options configure a Driver. The zero value is right for use.
type Options struct {
	// Executable is the binary that imports package first; empty means this one.
	Executable string
	// TemplateProgram, if set, returns the same for a template and its branches. It is
	// called when a template starts. Empty means Executable.
	TemplateProgram func() (string, error)
	// ForceLegacyMounts makes overlays by path with mount(2), as on kernels that
	// cannot make them of descriptors.
	ForceLegacyMounts bool
	// Probes are how Doctor asks the host; nil functions are the real ones.
	Probes Probes
	// ProbeDir is where Doctor tries an overlay: the state directory, or where it
	// will be; empty means the temporary directory.
	ProbeDir string
	// Cgroups say where control groups are; the zero value is the real host.
	Cgroups cgroup.Options
	// Runtime makes cells whose command is a runtime that holds programs with a
	// kernel of its own. It may make namespaces and mounts, and a root caller's is
	// root in the cell's user namespace. Nothing else may be executed in them.
	Runtime bool
	// without is for this package's tests only.
	without protocol.Without
	// stepTimes, if set, gets the times of a start's steps; for benchmarks.
	stepTimes func([]protocol.StepTime)
	// joinLimit bounds the time that a warm process has to make a copy; 0 means
	// joinLimit.
	joinLimit time.Duration
	// sameOf compares two tasks; nil means kcmp(2).
	sameOf func(a, b, kind int) (bool, error)
}

var _ driver.Driver = (*Driver)(nil)

// Driver runs commands in namespaces of this kernel. It is safe for concurrent
// use.
type Driver struct {
	opt    Options
	layers layerNamespace // with the permuted map
	plain  layerNamespace // with the cells' own
	pool   pool
	groups struct {
		once sync.Once
		host *cgroup.Host
		err  error
	}
}

// New returns a driver. It does nothing to the system yet.
func New(opt Options) *Driver {
	if opt.Executable == "" {
		opt.Executable = "/proc/self/exe"
	}
	if opt.joinLimit == 0 {
		opt.joinLimit = joinLimit
	}
	if opt.sameOf == nil {
		opt.sameOf = sameOf
	}
	n := &Driver{opt: opt, layers: layerNamespace{idMap: permutedMap()}, plain: layerNamespace{idMap: plainMap()}}
	n.pool.start, n.pool.later = n.spawn, afterDelay
	return n
}

// spawn starts the first process of a cell.
func (n *Driver) spawn() (*process, error) {
	return startFirst(callerIdentity(), n.opt.Executable, n.opt.without, protocol.Mapped{Runtime: n.opt.Runtime})
}

// Run makes a cell, executes the command of s in it, and returns when the
// command has ended and no process of the cell exists any more. An error means
// that the command was not executed, mostly a *StartError. Cancelling ctx kills
// the cell.
func (n *Driver) Run(ctx context.Context, s driver.Spec, stdio driver.Stdio) (out driver.Outcome, err error) {
	begin := time.Now()
	cell, err := n.begin(ctx, s)
	if err != nil {
		return driver.Outcome{}, err
	}
	defer func() {
		// The command's outcome stands, whatever is left of its control group.
		if left := cell.Close(); left != nil {
			out.Controls.Degraded = append(out.Controls.Degraded, left.Error())
		}
	}()
	// A network is served before anything can use it.
	if s.Network != nil {
		if err := cell.awaitBuilt(ctx); err != nil {
			return driver.Outcome{}, err
		}
	}
	// Else the order follows the plan at once: the init need not be asked twice.
	e, err := cell.order(s.Command, stdio.In != nil, true)
	if s.Network == nil {
		// Why the cell could not be built says more than that it ended.
		if failed := cell.awaitBuilt(ctx); failed != nil {
			if err == nil {
				e.drop()
			}
			err = failed
		}
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	if err := e.awaitStarted(ctx); err != nil {
		return driver.Outcome{}, err
	}
	out = driver.Outcome{Controls: cell.controls, StartTook: time.Since(begin)}
	e.serve(ctx, stdio, &out)
	// The host may have known of the start late, when the command had run for a while.
	out.StartTook = min(out.StartTook, time.Since(begin)-out.CommandTook)
	out.Usage = cell.limits.usage()
	return out, nil
}

// Start makes a cell in which nothing runs yet but its first process. It lives
// until it is closed, or ctx ends, or this process does.
func (n *Driver) Start(ctx context.Context, s driver.Spec) (driver.Cell, error) {
	if s.Template {
		cell, err := n.startTemplate(ctx, s)
		if err != nil {
			return nil, err // a nil *template would not be a nil driver.Cell
		}
		return cell, nil
	}
	cell, err := n.start(ctx, s)
	if err != nil {
		return nil, err
	}
	return cell, nil
}

func (n *Driver) start(ctx context.Context, s driver.Spec) (*Cell, error) {
	cell, err := n.begin(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := cell.awaitBuilt(ctx); err != nil {
		return nil, errors.Join(err, cell.Close())
	}
	return cell, nil
}

// Resolve returns what would hold the command of s, without running anything.
func (n *Driver) Resolve(s driver.Spec) (driver.Controls, error) {
	p, err := newPlan(s)
	if err != nil {
		return driver.Controls{}, err
	}
	if _, err := newOrder(&s.Command, false); err != nil {
		return driver.Controls{}, err
	}
	api := mountfd.MountByDescriptor
	if n.opt.ForceLegacyMounts {
		api = mountfd.MountByPath
	}
	r := protocol.Report{Landlock: "asked for", Seccomp: "asked for"}
	if p.Guard.Live {
		r.Seccomp += "; " + cellinit.LiveControl
	}
	if asked := groupLimits(s.Limits); asked != (cgroup.Limits{}) {
		host, err := n.cgroups()
		if err == nil {
			r.Degraded, err = weaken(host, &asked, s.Guard.AllowDegraded)
		}
		if err != nil {
			return driver.Controls{}, fault.At("limits", err)
		}
	}
	c := controls(p.ID, api, s.Limits.Achieved(r.Degraded), r)
	if s.Network != nil {
		c.Network = describeNetwork
	}
	return c, nil
}

// controls are the facts of a cell that was built.
func controls(id protocol.Identity, mountAPI, limits string, r protocol.Report) driver.Controls {
	_, names := protocol.Namespaces()
	return driver.Controls{
		Runtime: "native", Kernel: kernelRelease(), Namespaces: names,
		User: describeIDs(id), NoNewPrivs: true, Capabilities: capabilities(id),
		Network: "loopback only", Landlock: r.Landlock, Seccomp: r.Seccomp, Limits: limits,
		MountAPI: mountAPI, Degraded: append([]string{}, r.Degraded...),
	}
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
