package driver

import (
	"context"
	"errors"
	"io"
	"syscall"
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
}

// NewNative returns a driver. It does nothing to the system yet.
func NewNative(opt Options) *Native {
	if opt.Executable == "" {
		opt.Executable = "/proc/self/exe"
	}
	return &Native{opt: opt}
}

// Run executes the command of s and returns when it has ended and no process of
// the cell exists any more. An error means that the command was not executed,
// mostly a *StartError. Cancelling ctx kills the cell.
func (n *Native) Run(ctx context.Context, s Spec, stdio Stdio) (Outcome, error) {
	begin := time.Now()
	p, err := newPlan(s, stdio.In != nil)
	if err != nil {
		return Outcome{}, err
	}
	p.Legacy = n.opt.ForceLegacyMounts
	cell, err := n.start(ctx, s, p)
	if err != nil {
		return Outcome{}, err
	}
	defer cell.bury()
	out := Outcome{Controls: cell.controls, StartTook: time.Since(begin)}
	streams := cell.connect(stdio, s.TTY)
	cell.attend(ctx, s, stdio, streams, &out)
	streams.finish()
	return out, nil
}

// Resolve says what would hold the command of s, without running anything.
func (n *Native) Resolve(s Spec) (Controls, error) {
	p, err := newPlan(s, false)
	if err != nil {
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

// running is a cell whose command was executed.
type running struct {
	*process
	// streams are the descriptors that the init sent: a terminal's master, or
	// the parent's ends of the pipes: output, errors, input if there is any.
	streams  []int
	controls Controls
}

// start makes the cell and returns when the command has been executed in it.
func (n *Native) start(ctx context.Context, s Spec, p *plan) (_ *running, err error) {
	prepared := n.prepare(p)
	proc, err := spawn(p.ID, n.opt.Executable)
	if err != nil {
		if mounts, failed := prepared(); failed == nil {
			mounts.close()
		}
		return nil, err
	}
	stop := context.AfterFunc(ctx, proc.kill)
	defer func() {
		stop()
		if err == nil {
			return
		}
		proc.bury()
		if ctx.Err() != nil {
			err = at("start", ctx.Err())
		}
	}()
	var refused error
	if s.Started != nil {
		refused = at("record start", s.Started(proc.pid))
	}
	mounts, err := prepared()
	if err != nil {
		return nil, err
	}
	defer proc.spent.Go(mounts.close)
	if refused != nil {
		return nil, refused
	}
	if err := proc.conn.write(p, mounts.fds...); err != nil {
		return nil, at("send plan", err)
	}
	var r report
	fds, err := proc.conn.read(&r)
	switch {
	case errors.Is(err, io.EOF):
		return nil, at("init", errors.New("the cell's first process died"))
	case err != nil:
		return nil, at("answer of the init", err)
	case r.Kind != reportStarted:
		closeAll(fds)
		return nil, r.err()
	}
	api := mounts.mountAPI
	if r.MountAPI != "" {
		api = r.MountAPI
	}
	return &running{process: proc, streams: fds, controls: controls(p.ID, api, r.Degraded)}, nil
}

// attend does what the command needs while it runs, and fills in how it ended.
func (c *running) attend(ctx context.Context, s Spec, stdio Stdio, streams *streams, out *Outcome) {
	begin := time.Now()
	var limit <-chan time.Time
	if s.Timeout > 0 {
		t := time.NewTimer(s.Timeout)
		defer t.Stop()
		limit = t.C
	}
	exited := make(chan report, 1)
	go func() {
		defer close(exited)
		var r report
		if _, err := c.conn.read(&r); err == nil && r.Kind == reportExited {
			exited <- r
		}
	}()
	cancelled, signals, resize := ctx.Done(), stdio.Signals, stdio.Resize
	for {
		select {
		case <-limit:
			out.TimedOut, limit = true, nil
			c.kill()
		case <-cancelled:
			out.Killed, cancelled = true, nil
			c.kill()
		case sig, open := <-signals:
			if !open {
				signals = nil
			} else if no, ok := sig.(syscall.Signal); ok {
				// A cell that is gone needs no signal.
				_ = c.conn.write(order{Signal: int(no)})
			}
		case size, open := <-resize:
			if !open {
				resize = nil
			} else {
				streams.resize(size)
			}
		case r, natural := <-exited:
			out.CommandTook = time.Since(begin)
			<-c.gone
			out.end(natural, unix.WaitStatus(r.Status))
			return
		}
	}
}

// end settles an outcome. The init reports a natural end only: when the cell is
// killed it dies first. So a report wins over a time-out of the same instant.
func (o *Outcome) end(natural bool, status unix.WaitStatus) {
	switch {
	case natural && status.Signaled():
		o.TimedOut, o.Killed = false, false
		o.Signal = int(status.Signal())
		o.Code = 128 + o.Signal
	case natural:
		o.TimedOut, o.Killed = false, false
		o.Code = status.ExitStatus()
	case o.TimedOut:
		o.Killed = false
		o.Signal, o.Code = int(unix.SIGKILL), 124
	default:
		o.Killed = true
		o.Signal, o.Code = int(unix.SIGKILL), 128+int(unix.SIGKILL)
	}
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
