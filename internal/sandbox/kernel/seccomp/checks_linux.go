package seccomp

import (
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// Flags of clone that make namespaces. All bits of its flags are taken, so there
// will be no more; CLONE_NEWTIME is in the place of the exit signal there.
const cloneNew = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Flags of unshare that make none.
const unshareOwn = unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SYSVSEM |
	unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD

const (
	addrNoRandomize  = 0x0040000
	personalityQuery = 0xffffffff

	socketTypeMask = 0xf

	setID = unix.S_ISUID | unix.S_ISGID

	// With one of these flags a file is made, of the mode that is given; without,
	// the mode means nothing. The flag itself: O_TMPFILE has O_DIRECTORY too.
	makesFile = unix.O_CREAT | (unix.O_TMPFILE &^ unix.O_DIRECTORY)
)

// denyBlock is the program for one denied call. What it compares is exactly what
// the kernel compares: where a parameter is an int, the upper half of the
// register means nothing to the kernel and must mean nothing here.
func denyBlock(r syscalls.Rule) block {
	allow, deny := ret(unix.SECCOMP_RET_ALLOW), ret(denial(r))
	switch r.Name {
	case "clone":
		// The kernel takes the lower half of an unsigned long.
		return load(argument(0), branch(opAnyBit, cloneNew, deny, allow))
	case "unshare":
		// All of an unsigned long, and new flags may come.
		const others = ^uint32(unshareOwn)
		return load(upper(0), branch(opEqual, 0,
			load(argument(0), branch(opAnyBit, others, deny, allow)), deny))
	case "personality":
		return load(argument(0), anyOf([]uint32{0, addrNoRandomize, personalityQuery}, allow, deny))
	case "ioctl":
		return load(argument(1), anyOf([]uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD}, deny, allow))
	case "socket", "socketpair":
		return socketBlock(allow, deny)
	case "fcntl":
		return load(argument(1), branch(opEqual, unix.F_SETSIG,
			load(argument(2), branch(opEqual, uint32(unix.SIGCONT), deny, allow)), allow))
	case "renameat2":
		return load(argument(4), branch(opAnyBit, unix.RENAME_WHITEOUT, deny, allow))
	}
	return deny
}

// liveBlock is the program for one call of a cell that writes to a directory of
// the host. The kernel takes the lower 16 bits of a mode.
func liveBlock(r syscalls.Rule) block {
	allow, deny := ret(unix.SECCOMP_RET_ALLOW), ret(denial(r))
	mode := argument(modeArgument(r.Name))
	switch r.Name {
	case "chmod", "creat", "fchmod", "fchmodat", "fchmodat2":
		return load(mode, branch(opAnyBit, setID, deny, allow))
	case "mknod", "mknodat":
		return load(mode, branch(opAnyBit, setID, deny,
			mask(unix.S_IFMT, anyOf([]uint32{unix.S_IFCHR, unix.S_IFBLK}, deny, allow))))
	case "open", "openat":
		return load(mode-8, branch(opAnyBit, makesFile, // the flags are before it
			load(mode, branch(opAnyBit, setID, deny, allow)), allow))
	}
	return denyBlock(r)
}

// heldBlock is the program for one call of a template. What it does not deny goes on with
// before, the program that the call has in other cells.
func heldBlock(r syscalls.Rule, before block) block {
	if r.Name != "clone" {
		return denyBlock(r)
	}
	const alone = unix.CLONE_THREAD | unix.CLONE_VFORK // the parent of the latter waits
	return load(argument(0), branch(opAnyBit, unix.CLONE_VM, branch(opAnyBit, alone, before, ret(denial(r))), before))
}

// modeArgument is which argument of a call is the mode of a file.
func modeArgument(name string) uint32 {
	switch name {
	case "openat":
		return 3
	case "fchmodat", "fchmodat2", "mknodat", "open":
		return 2
	}
	return 1
}

// socketBlock lets those sockets through that the cell's network is made for.
func socketBlock(allow, deny block) block {
	stream := anyOf([]uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_MPTCP}, allow, deny)
	datagram := anyOf([]uint32{0, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6}, allow, deny)
	internet := load(argument(1), mask(socketTypeMask,
		branch(opEqual, unix.SOCK_STREAM, load(argument(2), stream),
			branch(opEqual, unix.SOCK_DGRAM, load(argument(2), datagram), deny))))
	// AF_INET and AF_INET6 differ in one bit.
	const internetBits = ^uint32(unix.AF_INET ^ unix.AF_INET6)
	other := mask(internetBits, branch(opEqual, unix.AF_INET&unix.AF_INET6, internet, deny))
	// The kernel keeps auditing from user namespaces itself, with an error that
	// programs such as useradd take for "not there"; another would end them.
	netlink := load(argument(2), anyOf([]uint32{unix.NETLINK_ROUTE, unix.NETLINK_AUDIT}, allow, deny))
	return load(argument(0),
		branch(opEqual, unix.AF_UNIX, allow,
			branch(opEqual, unix.AF_NETLINK, netlink, other)))
}

// denial returns the result of the program for a rule. With a listener the error is
// there as well, for plain.
func denial(r syscalls.Rule) uint32 {
	if r.Rare {
		return unix.SECCOMP_RET_USER_NOTIF | uint32(errno(r.Action))
	}
	return unix.SECCOMP_RET_ERRNO | uint32(errno(r.Action))
}

func errno(a syscalls.Action) unix.Errno {
	if a == syscalls.ENOSYS {
		return unix.ENOSYS
	}
	return unix.EPERM
}

// argument is the offset of the lower half of an argument, upper that of the
// other half: both architectures are little endian.
func argument(n uint32) uint32 { return atArgs + 8*n }
func upper(n uint32) uint32    { return atArgs + 8*n + 4 }
