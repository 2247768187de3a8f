//go:build linux

package landlock

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rulesetAttr is the kernel's struct landlock_ruleset_attr.
type rulesetAttr struct{ files, ports, scope uint64 }

// size is the length of the struct in an ABI; an older kernel refuses a longer
// one, unless the rest is zero.
func (a *rulesetAttr) size(abi int) uintptr {
	switch {
	case abi >= 6:
		return unsafe.Sizeof(*a)
	case abi >= 4:
		return unsafe.Offsetof(a.scope)
	}
	return unsafe.Offsetof(a.ports)
}

func version() (int, error) {
	abi, _, no := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if no != 0 {
		return 0, no
	}
	return int(abi), nil
}

func create(abi int, files, scope uint64) (int, error) {
	attr := rulesetAttr{files: files, scope: scope}
	fd, _, no := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), attr.size(abi), 0)
	if no != 0 {
		return -1, no
	}
	return int(fd), nil
}

func addRule(ruleset, fd int, grant uint64) error {
	// struct landlock_path_beneath_attr is packed.
	var attr [12]byte
	binary.NativeEndian.PutUint64(attr[:], grant)
	binary.NativeEndian.PutUint32(attr[8:], uint32(fd))
	_, _, no := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if no != 0 {
		return no
	}
	return nil
}

func restrictSelf(ruleset int, flags uintptr) error {
	_, _, no := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), flags, 0)
	if no != 0 {
		return no
	}
	return nil
}
