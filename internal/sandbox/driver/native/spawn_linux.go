package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/spawn"
	"golang.org/x/sys/unix"
)

// process is the cell's first process, as its parent holds it.
type process struct {
	pid  int
	conn *protocol.Conn
	// pidfd is -1 after destroy: the number may be another cell's
	// by then.
	mu    sync.Mutex
	pidfd int
	// gone is closed when the process, and with it every process of its
	// namespace, has ended, and was reaped.
	gone chan struct{}
	// spent is what is being cleared away while the cell runs.
	spent sync.WaitGroup
}

// startFirst clones the init. It makes what every cell has, and waits for its plan on the
// control socket.
func startFirst(id protocol.Identity, exe string, w protocol.Without, first protocol.Mapped, fds ...int) (*process, error) {
	c, childEnd, err := protocol.SocketPair()
	if err != nil {
		return nil, fault.At("control socket", err)
	}
	defer childEnd.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = c.Close()
		return nil, fault.At("null device", err)
	}
	defer null.Close()
	p := &process{conn: c, gone: make(chan struct{})}
	started := make(chan error, 1)
	go p.parent(id, exe, w, int(null.Fd()), int(childEnd.Fd()), started)
	if err := <-started; err != nil {
		_ = c.Close()
		return nil, fault.At("namespaces", explainClone(err))
	}
	// A process that has died meanwhile is noticed when it gets its plan.
	if err := c.Write(&first, fds...); err != nil && !errors.Is(err, unix.EPIPE) {
		p.destroy()
		return nil, fault.At("namespaces", err)
	}
	return p, nil
}

// oneProcessor makes the runtime of an init start no threads beside the one that does
// the work. The init of a live cell takes more when it knows that it is one.
const oneProcessor = "GOMAXPROCS=1"

// parent starts the init and waits for its end, on one thread: the init is
// killed when the thread that started it dies, so that thread must live as long
// as the init does.
func (p *process) parent(id protocol.Identity, exe string, w protocol.Without, null, control int, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n := spawn.Config{Name: protocol.InitName}
	n.Flags, _ = protocol.Namespaces()
	configureIDs(id, &n)
	env := append(leaveOff(&n, w), oneProcessor)
	var err error
	if p.pid, p.pidfd, err = n.Start(exe, env, []int{null, null, null, control}); err != nil {
		started <- err
		return
	}
	started <- nil
	spawn.Reap(p.pid)
	close(p.gone)
}

// kill ends every process of the cell. It is harmless when they have ended.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
}

// isAlive reports whether the process has not ended.
func (p *process) isAlive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pidfd >= 0 && !hasEnded(p.pidfd)
}

// destroy kills the cell and returns when nothing of it is left.
func (p *process) destroy() {
	p.kill()
	<-p.gone
	p.mu.Lock()
	_ = unix.Close(p.pidfd)
	p.pidfd = -1
	p.mu.Unlock()
	_ = p.conn.Close()
	p.spent.Wait()
}

// explainClone adds what a caller can do about a refused clone.
func explainClone(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("user namespaces are refused here, see forkcell doctor: %w", err)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("the limit of namespaces is reached, see forkcell doctor: %w", err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("namespaces cannot be made here, as inside a cell or under a seccomp profile from before 2019: %w", err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("user namespaces are refused, or the forkcell binary is not executable by everyone: %w", err)
	}
	return err
}
