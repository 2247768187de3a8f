package cellinit

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// rootThread is a thread that is the cell's root with the capabilities of package
// managers, under the same filter and rules as the thread that forks commands. Package
// managers are forked from it.
type rootThread struct {
	work    chan func()
	guarded describeGuards
	// degraded is what is not as it should be, besides what the controls say.
	degraded []string
}

// startRootThread makes the thread. It must come before the main thread hides the
// process, which a change of credentials takes back.
func startRootThread(p *protocol.Plan) (*rootThread, error) {
	t := &rootThread{work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := t.weaken(p)
		ready <- err
		if err != nil {
			return
		}
		for do := range t.work {
			do()
		}
	}()
	return t, <-ready
}

// weaken takes from the thread what package managers must not have.
func (t *rootThread) weaken(p *protocol.Plan) (err error) {
	id := p.ID
	id.Super = true
	if err := weakenThread(id, false, p.Without); err != nil {
		return err
	}
	if t.degraded, err = leaveKeyring(p.Without); err != nil {
		return err
	}
	t.guarded, err = guard(p.Guard, p.Without)
	return err
}

// start forks a package manager and returns its number. Its wait status is sent to
// done.
func (t *rootThread) start(e *executor, o *protocol.ExecOrder, streams []int) (pid int, done chan unix.WaitStatus, err error) {
	done = make(chan unix.WaitStatus, 1)
	finished := make(chan struct{})
	t.work <- func() {
		defer close(finished)
		e.mu.Lock()
		defer e.mu.Unlock()
		pid, _, err = execute(o, &cellStreams{stdin: streams[0], stdout: streams[1], stderr: streams[2]}, e.without)
		if err == nil {
			e.commands[pid] = command{terminal: -1, done: done}
		}
	}
	<-finished
	if err == nil {
		e.reapInBackground()
	}
	return pid, done, err
}
