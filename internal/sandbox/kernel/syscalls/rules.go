package syscalls

import (
	"slices"
	"strings"
)

// Action is the result of a denied call for its caller. Nothing is ever killed.
type Action uint8

// The actions.
const (
	// EPERM says that the call is there and not allowed.
	EPERM Action = iota
	// ENOSYS says that there is no such call, for which callers have a way
	// around: what an older kernel would answer.
	ENOSYS
)

// String returns the name of the error.
func (a Action) String() string {
	if a == ENOSYS {
		return "ENOSYS"
	}
	return "EPERM"
}

// Rule is one entry of the deny set.
type Rule struct {
	Name   string
	Group  string
	Reason string
	Action Action
	// Args says which arguments are denied; empty if the whole call is.
	Args string
	// Rare is set where a denial is worth an event: no ordinary program makes
	// this call in passing.
	Rare bool
}

// Denied returns the rule for a call, and false if the call is allowed.
func Denied(name string) (Rule, bool) {
	at, ok := slices.BinarySearchFunc(rules[:], name, func(r Rule, name string) int {
		return strings.Compare(r.Name, name)
	})
	if !ok {
		return Rule{}, false
	}
	return rules[at], true
}

// Rules returns the whole deny set, sorted by name.
func Rules() []Rule { return slices.Clone(rules[:]) }

// LiveRules returns what is denied besides, or instead of the rule of the same
// name, in a cell that writes to a directory of the host: whatever would make a
// file there that gives rights to those who execute it, or a device node. No
// policy takes anything out of them. They are sorted by name.
func LiveRules() []Rule { return slices.Clone(liveRules[:]) }

// HeldRules returns what is denied besides, or instead of the rule of the same name, in
// a template, which is stopped by a signal while its branches are built: whatever makes
// the kernel send SIGCONT later, and what makes processes that share memory, as two
// branches could. No policy takes anything out of them. They are sorted by name.
func HeldRules() []Rule { return slices.Clone(heldRules[:]) }

// Arguments of the calls that are denied in part.
const (
	argsClone       = "flags with any CLONE_NEW*"
	argsUnshare     = "flags other than CLONE_FS, CLONE_FILES, CLONE_SYSVSEM, CLONE_VM, CLONE_SIGHAND, CLONE_THREAD"
	argsPersonality = "any but 0, ADDR_NO_RANDOMIZE and the query 0xffffffff"
	argsIoctl       = "TIOCSTI, TIOCLINUX, TIOCSETD"
	argsRename      = "RENAME_WHITEOUT, which leaves a device node behind"
	argsMode        = "a mode with a set-user-id or set-group-id bit"
	argsSetSignal   = "F_SETSIG with SIGCONT"
	argsShare       = "flags with CLONE_VM but neither CLONE_THREAD nor CLONE_VFORK, and what other cells are denied"
	argsCreate      = "to make a file with a set-user-id or set-group-id bit"
	argsSocket      = "any but AF_UNIX; AF_INET and AF_INET6 as stream (TCP, MPTCP) or datagram (UDP, ping); AF_NETLINK with NETLINK_ROUTE or NETLINK_AUDIT"
)

// Groups and reasons that several calls share.
const (
	gModules    = "kernel modules"
	gKexec      = "kexec"
	gTracing    = "kernel tracing"
	gMounts     = "mounts"
	gNamespaces = "namespaces"
	gKeyring    = "keyring"
	gSockets    = "sockets"
	gUring      = "io_uring"
	gMemory     = "memory"
	gClock      = "clock"
	gHost       = "host administration"
	gHandles    = "file handles"
	gDevices    = "device nodes"
	gLive       = "directories of the host"
	gHeld       = "templates"
	gExecution  = "execution domain"
	gTerminal   = "terminal"
	gObsolete   = "obsolete"

	whyModule    = "code in the kernel"
	whyKexec     = "another kernel"
	whyMount     = "what exists in the cell is decided before the command starts"
	whyMountInfo = "only /proc/self/mountinfo shows the mount table"
	whyNamespace = "a new namespace makes privileged kernel code reachable"
	whyKeys      = "the kernel does not separate its keys between cells"
	whyUring     = "operations that a filter of system calls does not see"
	whyClock     = "the host's clock"
	whySwap      = "the host's memory"
	whyQuota     = "the host's file systems"
	whySocket    = "families that bypass the egress path, reach the host, or load rarely used kernel code"
	whyPorts     = "access to the machine's ports"
	whyDevices   = "no state can hold one, and an overlay would treat it as a deleted file"
	whyHeld      = "a process that was stopped could let itself go on"
	whyShared    = "branches could share memory"
	whyLive      = "on the host, others could execute the file with the caller's rights"
	whyGone      = "no longer used"
)

// rules is sorted by name.
var rules = [...]Rule{
	{Name: "_sysctl", Group: gObsolete, Reason: whyGone, Rare: true},
	{Name: "acct", Group: gHost, Reason: "process accounting of the host", Rare: true},
	{Name: "add_key", Group: gKeyring, Reason: whyKeys, Rare: true},
	{Name: "adjtimex", Group: gClock, Reason: whyClock},
	{Name: "bpf", Group: gTracing, Reason: "programs in the kernel", Rare: true},
	{Name: "chroot", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "clock_adjtime", Group: gClock, Reason: whyClock},
	{Name: "clock_settime", Group: gClock, Reason: whyClock, Rare: true},
	{Name: "clone", Group: gNamespaces, Reason: whyNamespace, Args: argsClone, Rare: true},
	{Name: "clone3", Group: gNamespaces, Reason: "its flags are in memory, where a filter cannot see them; callers fall back to clone", Action: ENOSYS},
	{Name: "create_module", Group: gModules, Reason: whyModule, Rare: true},
	{Name: "delete_module", Group: gModules, Reason: whyModule, Rare: true},
	{Name: "finit_module", Group: gModules, Reason: whyModule, Rare: true},
	{Name: "fsconfig", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "fsmount", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "fsopen", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "fspick", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "init_module", Group: gModules, Reason: whyModule, Rare: true},
	{Name: "io_uring_enter", Group: gUring, Reason: whyUring},
	{Name: "io_uring_register", Group: gUring, Reason: whyUring},
	{Name: "io_uring_setup", Group: gUring, Reason: whyUring},
	{Name: "ioctl", Group: gTerminal, Reason: "typing into a terminal, the console's selection, and line disciplines that load kernel code", Args: argsIoctl, Rare: true},
	{Name: "ioperm", Group: gHost, Reason: whyPorts, Rare: true},
	{Name: "iopl", Group: gHost, Reason: whyPorts, Rare: true},
	{Name: "kexec_file_load", Group: gKexec, Reason: whyKexec, Rare: true},
	{Name: "kexec_load", Group: gKexec, Reason: whyKexec, Rare: true},
	{Name: "keyctl", Group: gKeyring, Reason: whyKeys, Rare: true},
	{Name: "listmount", Group: gMounts, Reason: whyMountInfo},
	{Name: "listns", Group: gNamespaces, Reason: "namespaces of others"},
	{Name: "lookup_dcookie", Group: gObsolete, Reason: whyGone, Rare: true},
	{Name: "modify_ldt", Group: gExecution, Reason: "segments for programs of 16 and 32 bits, which cells do not run", Rare: true},
	{Name: "mount", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "mount_setattr", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "move_mount", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "name_to_handle_at", Group: gHandles, Reason: "useful only with open_by_handle_at"},
	{Name: "nfsservctl", Group: gObsolete, Reason: whyGone, Rare: true},
	{Name: "open_by_handle_at", Group: gHandles, Reason: "opens files by number, past every directory", Rare: true},
	{Name: "open_tree", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "open_tree_attr", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "perf_event_open", Group: gTracing, Reason: "measures the kernel and other processes", Rare: true},
	{Name: "personality", Group: gExecution, Reason: "execution domains that weaken the layout of memory", Args: argsPersonality, Rare: true},
	{Name: "pivot_root", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "query_module", Group: gModules, Reason: whyModule, Rare: true},
	{Name: "quotactl", Group: gHost, Reason: whyQuota, Rare: true},
	{Name: "quotactl_fd", Group: gHost, Reason: whyQuota, Rare: true},
	{Name: "reboot", Group: gHost, Reason: "the host itself", Rare: true},
	{Name: "renameat2", Group: gDevices, Reason: whyDevices, Args: argsRename, Rare: true},
	{Name: "request_key", Group: gKeyring, Reason: whyKeys, Rare: true},
	{Name: "setns", Group: gNamespaces, Reason: whyNamespace, Rare: true},
	{Name: "settimeofday", Group: gClock, Reason: whyClock, Rare: true},
	{Name: "socket", Group: gSockets, Reason: whySocket, Args: argsSocket, Rare: true},
	{Name: "socketpair", Group: gSockets, Reason: whySocket, Args: argsSocket, Rare: true},
	{Name: "statmount", Group: gMounts, Reason: whyMountInfo},
	{Name: "swapoff", Group: gHost, Reason: whySwap, Rare: true},
	{Name: "swapon", Group: gHost, Reason: whySwap, Rare: true},
	{Name: "syslog", Group: gHost, Reason: "messages of the host's kernel", Rare: true},
	{Name: "umount2", Group: gMounts, Reason: whyMount, Rare: true},
	{Name: "unshare", Group: gNamespaces, Reason: whyNamespace, Args: argsUnshare, Rare: true},
	{Name: "uselib", Group: gObsolete, Reason: whyGone, Rare: true},
	{Name: "userfaultfd", Group: gMemory, Reason: "stops the kernel in the middle of its work", Rare: true},
	{Name: "vhangup", Group: gTerminal, Reason: "ends the terminal of others", Rare: true},
}

// heldRules is sorted by name.
var heldRules = [...]Rule{
	{Name: "clone", Group: gHeld, Reason: whyShared, Args: argsShare},
	{Name: "clone3", Group: gHeld, Reason: whyShared + "; its flags are in memory, where a filter cannot see them, and callers fall back to clone", Action: ENOSYS},
	{Name: "fcntl", Group: gHeld, Reason: whyHeld, Args: argsSetSignal},
	{Name: "timer_create", Group: gHeld, Reason: whyHeld + "; callers fall back to alarm or setitimer", Action: ENOSYS},
}

// liveRules is sorted by name.
var liveRules = [...]Rule{
	{Name: "chmod", Group: gLive, Reason: whyLive, Args: argsMode, Rare: true},
	{Name: "creat", Group: gLive, Reason: whyLive, Args: argsMode, Rare: true},
	{Name: "fchmod", Group: gLive, Reason: whyLive, Args: argsMode, Rare: true},
	{Name: "fchmodat", Group: gLive, Reason: whyLive, Args: argsMode, Rare: true},
	{Name: "fchmodat2", Group: gLive, Reason: whyLive, Args: argsMode, Rare: true},
	{Name: "mknod", Group: gLive, Reason: whyLive, Args: argsMode + ", and devices", Rare: true},
	{Name: "mknodat", Group: gLive, Reason: whyLive, Args: argsMode + ", and devices", Rare: true},
	{Name: "open", Group: gLive, Reason: whyLive, Args: argsCreate, Rare: true},
	{Name: "openat", Group: gLive, Reason: whyLive, Args: argsCreate, Rare: true},
	{Name: "openat2", Group: gLive, Reason: "the mode is in memory, where a filter cannot see it; callers fall back to openat", Action: ENOSYS},
	{Name: "renameat2", Group: gLive, Reason: whyDevices, Args: argsRename, Rare: true},
}
