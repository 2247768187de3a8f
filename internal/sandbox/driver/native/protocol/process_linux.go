package protocol

import "golang.org/x/sys/unix"

// InitName is the first argument by which the binary knows that it is a cell's
// first process.
const InitName = "forkcell-init"

// Namespaces returns those that every cell has for itself. The last is made later, see
// ownCgroups.
func Namespaces() (flags uint64, names []string) {
	return unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS | unix.CLONE_NEWNET,
		[]string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"}
}

// The names of what the first process examines, besides "user namespace" and so on.
const (
	HoldsNoNewPrivs   = "no_new_privs"
	HoldsCapabilities = "no capabilities"
	HoldsLandlock     = "landlock"
	HoldsSeccomp      = "seccomp"
	HoldsDeadSockets  = "dead sockets"
	HoldsProc         = "covered /proc"
	HoldsReadOnly     = "read-only system"
	HoldsHiddenInit   = "hidden init"
	HoldsInside       = "no user namespaces inside"
	HoldsNotices      = "seccomp notification"
)
