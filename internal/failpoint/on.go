//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

var (
	once   sync.Once
	mu     sync.Mutex
	name   string
	action string
	left   int
)

// parse reads FORKCELL_FAILPOINT=NAME[@N][=kill|enospc|eio]: the action (kill
// unless given) is taken at the N-th hit (the first unless given).
func parse() {
	spec := os.Getenv("FORKCELL_FAILPOINT")
	spec, action, _ = strings.Cut(spec, "=")
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

// Hit kills the process, as kill -9 would, when its name is due.
func Hit(at string) {
	once.Do(parse)
	if (action == "" || action == "kill") && due(at) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
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
