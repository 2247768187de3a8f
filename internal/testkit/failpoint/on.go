//go:build failpoints

package failpoint

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	once   sync.Once
	mu     sync.Mutex
	name   string
	action string
	file   string
	left   int
)

// parse reads FORKCELL_FAILPOINT=NAME[@N][=kill|stop:FILE|enospc|eio]: the action (kill
// unless given) is taken at the N-th hit (the first unless given).
func parse() {
	spec := os.Getenv("FORKCELL_FAILPOINT")
	spec, action, _ = strings.Cut(spec, "=")
	action, file, _ = strings.Cut(action, ":")
	var count string
	name, count, _ = strings.Cut(spec, "@")
	left, _ = strconv.Atoi(count)
	left = max(left, 1)
}

func due(at string) bool {
	once.Do(parse)
	if at != name || name == "" {
		return false
	}
	mu.Lock()
	defer mu.Unlock()
	left--
	return left == 0
}

// Hit kills the process, as kill -9 would, when its name is due, or writes its process id
// to the file and stops it until a test continues it.
func Hit(at string) {
	once.Do(parse)
	switch action {
	case "", "kill":
		if due(at) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	case "stop":
		if due(at) {
			//nolint:forbidigo // only for tests, in a directory of theirs
			_ = os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
			stop()
		}
	}
}

// stop stops the process. A signal to the process may be taken by another thread, while
// this one goes on; one to this thread does not let it return.
func stop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}

// Err returns the asked error when its name is due, and otherwise acts as Hit.
func Err(at string) error {
	once.Do(parse)
	switch action {
	case "enospc":
		if due(at) {
			return syscall.ENOSPC
		}
		return nil
	case "eio":
		if due(at) {
			return syscall.EIO
		}
		return nil
	}
	Hit(at)
	return nil
}
