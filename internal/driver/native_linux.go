package driver

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// Options are the knobs of a Native driver. The zero value is right for use.
type Options struct {
	// Executable is the binary whose main calls InitMain; empty means this one.
	Executable string
	// ForceLegacyMounts makes overlays by path with mount(2), as on kernels that
	// cannot make them of descriptors.
	ForceLegacyMounts bool
	// Probes are how Doctor asks the host; nil functions are the real ones.
	Probes Probes
	// ProbeDir is where Doctor tries an overlay; empty means the temporary
	// directory.
	ProbeDir string
}

// Native runs commands in namespaces of this kernel. It is safe for concurrent
// use.
type Native struct {
	opt    Options
	layers layerNamespace
	warm   warmed
}

// NewNative returns a driver. It does nothing to the system yet.
func NewNative(opt Options) *Native {
	if opt.Executable == "" {
		opt.Executable = "/proc/self/exe"
	}
	return &Native{opt: opt}
}

// Run makes a cell, executes the command of s in it, and returns when the
// command has ended and no process of the cell exists any more. An error means
// that the command was not executed, mostly a *StartError. Cancelling ctx kills
// the cell.
func (n *Native) Run(ctx context.Context, s Spec, stdio Stdio) (Outcome, error) {
	begin := time.Now()
	cell, err := n.begin(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	defer cell.Close()
	// The order follows the plan at once: the init need not be asked twice.
	e, err := cell.order(s.Command, stdio.In != nil, true)
	if err == nil {
		err = cell.awaitBuilt(ctx)
	}
	if err != nil {
		return Outcome{}, err
	}
	if err := e.awaitStarted(ctx); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Controls: cell.controls, StartTook: time.Since(begin)}
	e.attend(ctx, stdio, &out)
	return out, nil
}

// Start makes a cell in which nothing runs yet but its first process. It lives
// until it is closed, or ctx ends, or this process does.
func (n *Native) Start(ctx context.Context, s Spec) (*Cell, error) {
	cell, err := n.begin(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := cell.awaitBuilt(ctx); err != nil {
		cell.Close()
		return nil, err
	}
	return cell, nil
}

// Resolve says what would hold the command of s, without running anything.
func (n *Native) Resolve(s Spec) (Controls, error) {
	p, err := newPlan(s)
	if err != nil {
		return Controls{}, err
	}
	if _, err := s.Command.order(1, false); err != nil {
		return Controls{}, err
	}
	api := mountByDescriptor
	if n.opt.ForceLegacyMounts {
		api = mountByPath
	}
	return controls(p.ID, api, nil), nil
}

// controls are the facts of a cell that was built.
func controls(id identity, mountAPI string, degraded []string) Controls {
	_, names := namespaces()
	return Controls{
		Runtime: "native", Kernel: kernelRelease(), Namespaces: names,
		User: id.String(), NoNewPrivs: true, Capabilities: "none",
		Network: "loopback only", Landlock: "absent", Seccomp: "absent", Limits: "absent",
		MountAPI: mountAPI, Degraded: append([]string{}, degraded...),
	}
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
