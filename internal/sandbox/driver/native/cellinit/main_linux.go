package cellinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// controlFD is where the init finds its socket.
const controlFD = 3

// IsInit reports whether this process was started as a cell's first process.
// or as the spawner of a template's.
func IsInit() bool {
	return len(os.Args) > 0 && (os.Args[0] == protocol.InitName || os.Args[0] == protocol.SpawnerName)
}

// Main is the cell's first process. Package first calls it before
// anything else when [IsInit]; it does not return. It builds the cell, executes
// what it is told to, and reaps what is left to it; when it ends, the kernel
// ends everything else in the cell. The work is done on the main thread, which
// in the course of it becomes the unprivileged sandbox user.
func Main() {
	runtime.LockOSThread()
	c, err := protocol.NewConn(controlFD)
	if err != nil {
		os.Exit(1)
	}
	defer func() {
		if r := recover(); r != nil {
			_ = c.Write(protocol.Failure(fmt.Errorf("panic: %v", r)))
			os.Exit(1)
		}
	}()
	if os.Args[0] == protocol.SpawnerName {
		serveSpawner(c)
	}
	p, b, err := build(c)
	if err != nil {
		// A parent that does not listen is gone.
		_ = c.Write(protocol.Failure(err))
		os.Exit(1)
	}
	if p.Guard.Limited {
		keepThreads(b != nil)
	}
	newExecutor(c, p.Without, p.Guard.Template, b).serve()
}

// build takes the plan, builds the cell and leaves this thread as weak as the
// commands that it will fork. The broker is nil without package managers.
func build(c *protocol.Conn) (*protocol.Plan, *broker, error) {
	var p protocol.Plan
	r := &rootfs{plan: &p, conn: c, stepTimes: newStepTimes()}
	if err := r.begin(); err != nil {
		return nil, nil, err
	}
	var failed error
	if preparesEarly {
		failed = r.prepare()
	}
	fds, err := c.Read(&p)
	if err != nil {
		return nil, nil, fault.At("plan", orEnd(err))
	}
	r.fds, r.without = fds, p.Without
	r.stepTimes.last = time.Now()
	if !preparesEarly {
		if failed = ownMounts(r.without); failed == nil {
			failed = r.prepare()
		}
	}
	if failed != nil {
		return nil, nil, failed
	}
	if err := r.build(); err != nil {
		return nil, nil, err
	}
	g, err := r.weaken()
	if err != nil {
		return nil, nil, err
	}
	if len(p.Probe) > 0 {
		if err := tryOverlay(string(p.Probe)); err != nil {
			return nil, nil, fault.At("try overlay", err)
		}
	}
	return &p, r.broker, r.report(g)
}

// report informs the parent that the cell is built.
func (r *rootfs) report(g describeGuards) error {
	p := r.plan
	var examined []protocol.Finding
	if p.Examine != nil {
		examined = examine(p.Examine)
	}
	give, captured := g.descriptors(r.namespaces), r.captureSockets()
	if r.broker != nil && r.broker.root.guarded.listener >= 0 {
		give = append([]int{r.broker.root.guarded.listener}, give...)
	}
	give = append(give, captured...)
	report := &protocol.Report{
		Kind: protocol.Built, Captured: len(captured), Join: p.Guard.Join, Rules: g.rules >= 0, MountAPI: r.mountAPI, Degraded: append(r.degraded, g.degraded...),
		Landlock: g.landlock, Seccomp: g.seccomp, Examined: examined,
	}
	if p.StepTimes {
		report.StepTimes = r.stepTimes.list
	}
	err := r.conn.Write(report, give...)
	mountfd.CloseAll(give)
	if p.Notice {
		beNoticed()
	}
	return err
}

// awaitMaps waits for the users and groups of the process's namespace.
func (r *rootfs) awaitMaps() error {
	var m protocol.Mapped
	fds, err := r.conn.Read(&m)
	if err != nil {
		return fault.At("ids", orEnd(err))
	}
	r.runtime = m.Runtime
	if !m.Template {
		return nil
	}
	defer mountfd.CloseAll(fds)
	if len(fds) != 1 {
		return fault.At("spawner", unix.EINVAL)
	}
	r.template = true
	return fault.At("spawner", startSpawner(fds[0]))
}

// orEnd ends this process if an error means that the parent is gone.
func orEnd(err error) error {
	if errors.Is(err, io.EOF) {
		os.Exit(1)
	}
	return err
}

// keepNamespaces opens the cell's namespaces for processes that join it.
func (r *rootfs) keepNamespaces() (err error) {
	if r.plan.Guard.Join {
		r.namespaces, err = openNamespaces()
	}
	return err
}

// startBroker starts the thread that executes package managers.
func (r *rootfs) startBroker() error {
	if !r.plan.Packages {
		return nil
	}
	root, err := startRootThread(r.plan)
	if err != nil {
		return err
	}
	r.broker = &broker{listener: r.asks, root: root}
	r.degraded = append(r.degraded, root.degraded...)
	return nil
}

// ownKeyring gives this thread a session keyring of its own.
func (r *rootfs) ownKeyring() error {
	degraded, err := leaveKeyring(r.plan.Without)
	r.degraded = append(r.degraded, degraded...)
	return err
}

// stepTimes are the times of the steps of a start, for a benchmark.
type stepTimes struct {
	last time.Time
	list []protocol.StepTime
}

func newStepTimes() *stepTimes { return &stepTimes{last: time.Now()} }

func (l *stepTimes) add(step string) {
	now := time.Now()
	l.list = append(l.list, protocol.StepTime{Step: step, Took: now.Sub(l.last)})
	l.last = now
}

// dieWithParent arms the signal that ends the init with its parent. Every change
// of credentials disarms it. The end of the control socket has the same effect;
// the two do not depend on each other.
func dieWithParent() error {
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}
