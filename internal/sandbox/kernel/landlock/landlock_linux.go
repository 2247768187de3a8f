package landlock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// errUnsupported is returned where the kernel has no Landlock, or has it
// switched off.
var errUnsupported = errors.New("landlock: not supported by this kernel")

// Ruleset says what stays possible; all else that Landlock can refuse is refused,
// with EACCES, and EXDEV for renames and links between directories.
//
// The lists hold descriptors, best opened with O_PATH, of directories, which
// stand for all beneath them, or of single files. What several of them say about
// one file adds up. Files that were open before stay as they are.
type Ruleset struct {
	// ReadOnly may be read, listed and executed.
	ReadOnly []int
	// ReadWrite may also be written, and files of all kinds but devices made,
	// removed, renamed, linked.
	ReadWrite []int
	// Existing may be read, executed and written, but nothing made or removed:
	// /proc, where programs set their own name and oom score.
	Existing []int
	// Devices is Existing with ioctl on devices: /dev.
	Devices []int
	// Scope keeps signals and connections to abstract unix sockets within the
	// thread's own domain: itself and all that it starts from now on.
	Scope bool
	// Log lets the kernel report refusals after an exec, where auditing is on
	// already. It does not switch auditing on.
	Log bool
	// MaxABI pretends an older kernel; 0 is the one that there is.
	MaxABI int
}

// Applied describes what the kernel enforces now.
type Applied struct {
	// ABI is the version of the rights in use, not above the newest one known
	// here.
	ABI          int
	files, scope uint64
	wantedScope  bool
}

// Rights returns the names of what is refused where no rule allows it.
func (a Applied) Rights() []string {
	return append(names(a.files, fileRights[:], true), names(a.scope, scopes[:], true)...)
}

// Missing returns the names of what was asked for and this kernel cannot refuse.
// One differs: without "refer" the kernel refuses all renames and links between
// directories, also where they should be allowed.
func (a Applied) Missing() []string {
	missing := names(a.files, fileRights[:], false)
	if a.wantedScope {
		missing = append(missing, names(a.scope, scopes[:], false)...)
	}
	return missing
}

// ABI returns the kernel's version of Landlock, 0 if it has none.
func ABI() int {
	abi, err := version()
	if err != nil {
		return 0
	}
	return abi
}

// Restrict puts the rules on the calling thread, for good; what it starts
// inherits them. The thread must be locked to its goroutine and have
// no_new_privs. Afterwards it cannot change mounts any more.
func Restrict(r Ruleset) (Applied, error) {
	ruleset, a, err := Make(r)
	if err != nil {
		return Applied{}, err
	}
	defer func() { _ = unix.Close(ruleset) }()
	var flags uintptr
	if r.Log && a.ABI >= 7 {
		flags = unix.LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON
	}
	if err := take(ruleset, flags); err != nil {
		return Applied{}, err
	}
	return a, nil
}

// Take does what Restrict does, with a ruleset of Make.
func Take(ruleset int) error { return take(ruleset, 0) }

func take(ruleset int, flags uintptr) error {
	if err := restrictSelf(ruleset, flags); err != nil {
		return fmt.Errorf("landlock: restrict: %w", err)
	}
	return nil
}

// Make returns the descriptor of a ruleset, which another process can put on
// itself.
func Make(r Ruleset) (ruleset int, a Applied, err error) {
	abi := ABI()
	if r.MaxABI > 0 {
		abi = min(abi, r.MaxABI)
	}
	if abi < 1 {
		return -1, Applied{}, errUnsupported
	}
	a = Applied{ABI: min(abi, newest), wantedScope: r.Scope}
	a.files = upTo(a.ABI, fileRights[:])
	if r.Scope {
		a.scope = upTo(a.ABI, scopes[:])
	}
	if ruleset, err = create(a.ABI, a.files, a.scope); err != nil {
		return -1, Applied{}, fmt.Errorf("landlock: ruleset: %w", err)
	}
	for _, l := range []struct {
		what  string
		fds   []int
		grant uint64
	}{
		{"read-only", r.ReadOnly, grantRead},
		{"read-write", r.ReadWrite, grantWrite},
		{"existing", r.Existing, grantExisting},
		{"devices", r.Devices, grantDevices},
	} {
		for i, fd := range l.fds {
			if err := allow(ruleset, fd, l.grant&a.files); err != nil {
				_ = unix.Close(ruleset)
				return -1, Applied{}, fmt.Errorf("landlock: %s rule %d: %w", l.what, i, err)
			}
		}
	}
	return ruleset, a, nil
}

// allow adds one rule. The kernel refuses a rule on a file with rights of
// directories.
func allow(ruleset, fd int, grant uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		grant &= ofFiles
	}
	return addRule(ruleset, fd, grant)
}
