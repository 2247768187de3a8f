package seccomp

import (
	"slices"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// Answers of a filter.
const (
	allowed       = 0x7fff0000
	notified      = 0x7fc00000 | 1
	deniedEPERM   = 0x00050000 | 1
	deniedENOSYS  = 0x00050000 | 38
	auditAMD64    = 0xc000003e
	auditARM64    = 0xc00000b7
	auditI386     = 0x40000003
	auditARM      = 0x40000028
	x32Bit        = 0x40000000
	upperGarbage  = 0xdead_beef_0000_0000
	newNamespaces = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
)

// model says slowly and plainly what a filter must answer.
func model(arch syscalls.Arch, o Options, c call) uint32 {
	own := map[syscalls.Arch]uint32{syscalls.AMD64: auditAMD64, syscalls.ARM64: auditARM64}[arch]
	if c.arch != own {
		return deniedENOSYS
	}
	if c.number == 0xffffffff {
		return allowed
	}
	if int64(c.number) > int64(syscalls.Last(arch)) {
		return deniedENOSYS
	}
	name, ok := syscalls.Name(arch, int(c.number))
	if !ok {
		return allowed
	}
	rule, ok := syscalls.Denied(name)
	denied := ok && !slices.Contains(o.Allow, name) && modelDenies(name, c.args)
	if live, ok := modelLive(name, c.args); o.Live && ok {
		rule, denied = live, true
	}
	if held, ok := modelHeld(name, c.args); o.Held && ok {
		rule, denied = held, true
	}
	if !denied {
		return allowed
	}
	switch {
	case rule.Action == syscalls.ENOSYS:
		return deniedENOSYS
	case rule.Rare && o.Notify&Denials != 0:
		return notified
	}
	return deniedEPERM
}

// modelHeld decides what a template is denied besides.
func modelHeld(name string, args [6]uint64) (syscalls.Rule, bool) {
	switch name {
	case "timer_create", "clone3":
		return syscalls.Rule{Action: syscalls.ENOSYS}, true
	case "clone":
		return syscalls.Rule{}, args[0]&0x100 != 0 && args[0]&(0x10000|0x4000) == 0
	case "fcntl":
		return syscalls.Rule{}, uint32(args[1]) == 10 && uint32(args[2]) == 18
	}
	return syscalls.Rule{}, false
}

// modelLive decides what a cell is denied besides that writes to the host.
func modelLive(name string, args [6]uint64) (syscalls.Rule, bool) {
	mode, creates := uint64(0), true
	switch name {
	case "openat2":
		return syscalls.Rule{Action: syscalls.ENOSYS}, true
	case "chmod", "creat", "fchmod", "mknod":
		mode = args[1]
	case "fchmodat", "fchmodat2", "mknodat":
		mode = args[2]
	case "open":
		mode, creates = args[2], args[1]&(0o100|0o20000000) != 0
	case "openat":
		mode, creates = args[3], args[2]&(0o100|0o20000000) != 0
	case "renameat2":
		return syscalls.Rule{Rare: true}, args[4]&4 != 0
	}
	if name == "mknod" || name == "mknodat" {
		creates = true
		if kind := mode & 0o170000; kind == 0o020000 || kind == 0o060000 {
			return syscalls.Rule{Rare: true}, true
		}
	}
	return syscalls.Rule{Rare: true}, creates && mode&0o6000 != 0
}

// modelDenies decides by the arguments.
func modelDenies(name string, args [6]uint64) bool {
	low := func(n int) uint32 { return uint32(args[n]) }
	switch name {
	case "clone":
		return low(0)&newNamespaces != 0
	case "unshare":
		return args[0]&^(0x200|0x400|0x40000|0x100|0x800|0x10000) != 0
	case "personality":
		return low(0) != 0 && low(0) != 0x40000 && low(0) != 0xffffffff
	case "renameat2":
		return low(4)&4 != 0
	case "ioctl":
		return low(1) == 0x5412 || low(1) == 0x541c || low(1) == 0x5423
	case "socket", "socketpair":
		kind, protocol := low(1)&15, low(2)
		switch low(0) {
		case 1:
			return false
		case 2, 10:
			stream := kind == 1 && slices.Contains([]uint32{0, 6, 262}, protocol)
			datagram := kind == 2 && slices.Contains([]uint32{0, 17, 1, 58}, protocol)
			return !stream && !datagram
		case 16:
			return protocol != 0 && protocol != 9
		}
		return true
	}
	return true
}

// interesting are arguments on and around every edge, each with a clean and a
// dirty upper half.
func interesting(name string) [][6]uint64 {
	var lists [5][]uint64
	switch name {
	case "clone", "unshare":
		for bit := range 64 {
			lists[0] = append(lists[0], 1<<bit, 0x11|1<<bit)
		}
		lists[0] = append(lists[0], 0, 17, 0x3d0f00, 0x01200011, 0x200, 0x400, 0x600, 0x7e020000, 0x100|17, 0x4100|17, 0x10100, 0x20000100, 0x20004100)
	case "personality":
		lists[0] = []uint64{0, 1, 8, 0x20008, 0x40000, 0x40001, 0x400000, 0x40008, 0xffffffff, 0xfffffffe}
	case "fcntl":
		lists[1], lists[2] = []uint64{0, 1, 9, 10, 11, 1030}, []uint64{0, 17, 18, 19, 0xffffffff}
	case "ioctl":
		lists[1] = []uint64{0, 0x5401, 0x5411, 0x5412, 0x5413, 0x541b, 0x541c, 0x541d, 0x5422, 0x5423, 0x5424, 0x80045430, 0xffffffff}
	case "chmod", "creat", "fchmod", "mknod":
		lists[1] = modes()
	case "fchmodat", "fchmodat2", "mknodat":
		lists[2] = modes()
	case "open":
		lists[1], lists[2] = openFlags(), modes()
	case "openat":
		lists[2], lists[3] = openFlags(), modes()
	case "renameat2":
		lists[4] = []uint64{0, 1, 2, 3, 4, 5, 6, 8, 0xffffffff, 0xfffffffb}
	case "socket", "socketpair":
		for family := range uint64(48) {
			lists[0] = append(lists[0], family)
		}
		lists[0] = append(lists[0], 1<<31, 0xffffffff)
		for kind := range uint64(16) {
			lists[1] = append(lists[1], kind, kind|0x80000|0x800)
		}
		lists[2] = []uint64{0, 1, 2, 4, 6, 9, 15, 16, 17, 33, 58, 115, 132, 136, 255, 256, 262, 0xffffffff}
	}
	for i, list := range lists {
		if list == nil {
			lists[i] = []uint64{0}
		}
	}
	var all [][6]uint64
	for _, a := range lists[0] {
		for _, b := range lists[1] {
			for _, c := range lists[2] {
				for _, d := range lists[3] {
					for _, e := range lists[4] {
						const g = upperGarbage
						all = append(all, [6]uint64{a, b, c, d, e}, [6]uint64{a | g, b | g, c | g, d | g, e | g})
					}
				}
			}
		}
	}
	return all
}

// modes have each kind of file, and each of the upper bits.
func modes() []uint64 {
	var list []uint64
	for kind := range uint64(16) {
		for _, bits := range []uint64{0, 0o644, 0o1777, 0o2000, 0o2755, 0o4000, 0o4755, 0o6777, 0o7777} {
			list = append(list, kind<<12|bits, kind<<12|bits|1<<16)
		}
	}
	return list
}

func openFlags() []uint64 {
	return []uint64{0, 1, 2, 0o100, 0o101, 0o2000000, 0o200000, 0o20200000, 0o20000000, 0o20200002, 0o40, 0xffffffff}
}
