package cellinit

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

// Some limits of the kernel are for all that a user has, whatever cell it is in. What a
// cell takes of them the user who started it lacks elsewhere: without inotify instances
// editors fail. A user namespace can have limits of its own for most of them, which count
// before those of the user outside.

// A userLimit is a setting below /proc/sys/user.
type userLimit struct{ file, value string }

// noUserNamespaces: in one the command would hold capabilities and could reach far more of
// the kernel. What has no capability cannot raise it.
var noUserNamespaces = userLimit{"max_user_namespaces", "0"}

// watchLimits bound what a cell watches. A template counts for its branches too.
func watchLimits() []userLimit {
	return []userLimit{
		{"max_fanotify_groups", "16"},
		{"max_fanotify_marks", "4096"},
		{"max_inotify_instances", "32"},
		{"max_inotify_watches", "32768"},
	}
}

// namespaceLimits say that no namespaces can be made: commands have no right to make any,
// and the cell's own are there. To the kernel a mount that is not attached yet is a
// namespace of mounts, and the first process of a live cell makes some later.
func namespaceLimits() []userLimit {
	return []userLimit{
		{"max_cgroup_namespaces", "0"},
		{"max_ipc_namespaces", "0"},
		{"max_mnt_namespaces", "64"},
		{"max_net_namespaces", "0"},
		{"max_pid_namespaces", "0"},
		{"max_time_namespaces", "0"},
		{"max_uts_namespaces", "0"},
	}
}

// limitsNamespaces reports whether the cell's programs need no namespaces. A template's
// spawner makes those of branches, and a runtime those of what it runs.
func (r *rootfs) limitsNamespaces() bool { return !r.template && !r.runtime }

// limitUser makes limits of the cell's user namespace. Without a namespace of its own they
// would be the host's. An older kernel counts less.
func (r *rootfs) limitUser(proc int, limits ...userLimit) error {
	if r.without.Has(control.UserNSLimit) || r.without.Has(control.UserNS) {
		return nil
	}
	for _, l := range limits {
		err := setSysctl(proc, "user/"+l.file, l.value)
		if errors.Is(err, unix.ENOENT) && l.file != noUserNamespaces.file {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.file, err)
		}
	}
	return nil
}

// userResources are the resource limits that the kernel counts for a user: the most that a
// command may have. That of processes is a limit of the policy.
func userResources() map[int]uint64 {
	return map[int]uint64{
		unix.RLIMIT_SIGPENDING: 4096,
		unix.RLIMIT_MSGQUEUE:   256 << 10,
		unix.RLIMIT_MEMLOCK:    8 << 20,
	}
}

// clamp returns a limit with none of its values above the most.
func clamp(lim syscall.Rlimit, most uint64) syscall.Rlimit {
	lim.Max = min(lim.Max, most)
	lim.Cur = lim.Max
	return lim
}
