package native

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/seccomp"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture/origin"
)

// serveCalls answers the calls that the kernel passes to the listener, and
// reports them. fds has the descriptors of the listeners, one for each thread that forks
// commands, or is empty.
func (c *Cell) serveCalls(fds []int) error {
	if len(fds) == 0 {
		return nil
	}
	threads := 1
	if c.packages != nil {
		threads++
	}
	if len(fds) != threads || c.denied == nil && c.serve == nil && c.attempts == nil {
		mountfd.CloseAll(fds)
		return errors.New("the init sent an unexpected descriptor")
	}
	for i, fd := range fds {
		l, err := seccomp.NewListener(fd)
		if err != nil {
			mountfd.CloseAll(fds[i+1:])
			return err
		}
		c.spent.Go(func() {
			// If it fails, the calls give ENOSYS: they stay denied.
			_ = l.Serve(func(n seccomp.Notice) { c.reportCall(n, l.Waiting) })
			_ = l.Close()
		})
	}
	return nil
}

// reportCall reports one call.
func (c *Cell) reportCall(n seccomp.Notice, waiting func() bool) {
	switch {
	case n.Denied != 0 && c.denied != nil:
		pid, binary := whoCalled(n.PID)
		c.telling.Lock()
		defer c.telling.Unlock()
		c.denied(driver.Denial{PID: pid, Binary: binary, Call: n.Name, Errno: n.Denied})
	case n.Denied == 0 && c.network != nil:
		c.network.attributor.Connecting(connecting(n, waiting))
	case n.Denied == 0 && c.attempts != nil:
		c.hearConnect(connecting(n, waiting))
	}
}

func connecting(n seccomp.Notice, waiting func() bool) origin.Connect {
	// The kernel's descriptors are ints: the upper half is ignored.
	return origin.Connect{Thread: n.PID, Descriptor: int(int32(n.Args[0])), Address: n.Args[1], Waiting: waiting}
}

// whoCalled finds a thread's number in its own namespace, and its executable.
// The thread waits meanwhile.
func whoCalled(pid int) (inside int, binary string) {
	dir := fmt.Sprintf("/proc/%d", pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return 0, ""
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(ids)
			inside, _ = strconv.Atoi(f[len(f)-1])
			break
		}
	}
	// "" if it cannot be read.
	binary, _ = os.Readlink(dir + "/exe")
	return inside, binary
}
