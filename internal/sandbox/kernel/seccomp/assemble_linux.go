package seccomp

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// The instructions in use. The kernel understands these when it works out which
// calls are always allowed, and does not run the program for those any more.
const (
	opLoad    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opAnd     = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	opJump    = unix.BPF_JMP | unix.BPF_JA
	opEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opAbove   = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	opAtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opAnyBit  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opReturn  = unix.BPF_RET | unix.BPF_K
)

// Offsets in the kernel's struct seccomp_data.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// noCall is the number that debuggers put in place of a call to skip it. The
// kernel has no such call; an answer of ours would replace the debugger's.
const noCall = ^uint32(0)

// block is a piece of program of which every way ends in a return, so that
// blocks can be put one after the other without falling from one into the next.
type block []unix.SockFilter

// ret ends the program.
func ret(action uint32) block { return block{{Code: opReturn, K: action}} }

// load reads 32 bits of the call's data, then goes on.
func load(offset uint32, next block) block {
	return append(block{{Code: opLoad, K: offset}}, next...)
}

// mask keeps the given bits of what was read, then goes on.
func mask(bits uint32, next block) block {
	return append(block{{Code: opAnd, K: bits}}, next...)
}

// branch goes on with yes if the condition holds and with no otherwise.
// Conditional jumps reach 255 instructions far: the shorter block comes first,
// and if even that is too long, a jump with a longer reach leads past it.
func branch(op uint16, k uint32, yes, no block) block {
	const reach = 255
	in := unix.SockFilter{Code: op, K: k}
	first, second, past, into := no, yes, &in.Jt, &in.Jf
	if len(yes) < len(no) {
		first, second, past, into = yes, no, &in.Jf, &in.Jt
	}
	out := make(block, 1, 2+len(yes)+len(no))
	if len(first) <= reach {
		*past = uint8(len(first))
	} else {
		*into = 1
		out = append(out, unix.SockFilter{Code: opJump, K: uint32(len(first))})
	}
	out[0] = in
	out = append(out, first...)
	return append(out, second...)
}

// anyOf goes on with yes if the value is one of ks, and with no otherwise.
func anyOf(ks []uint32, yes, no block) block {
	for _, k := range slices.Backward(ks) {
		no = branch(opEqual, k, yes, no)
	}
	return no
}

// segment is a run of numbers that the program treats alike; it ends where the
// next one starts.
type segment struct {
	from uint32
	do   block
}

// assemble makes the program with a listener.
func assemble(arch syscalls.Arch, o Options) block {
	allowed := ret(unix.SECCOMP_RET_ALLOW)
	absent := ret(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
	numbers := search(segments(arch, o))
	// All of x32 is above the last number too: it has its own bit there.
	numbers = branch(opAbove, uint32(syscalls.Last(arch)), branch(opEqual, noCall, allowed, absent), numbers)
	return share(load(atArch, branch(opEqual, auditArch(arch), load(atNumber, numbers), absent)))
}

func auditArch(arch syscalls.Arch) uint32 {
	if arch == syscalls.ARM64 {
		return unix.AUDIT_ARCH_AARCH64
	}
	return unix.AUDIT_ARCH_X86_64
}

// special are the programs of all calls that are not simply allowed, by number.
func special(arch syscalls.Arch, o Options) map[uint32]block {
	all := map[uint32]block{}
	add := func(r syscalls.Rule, do block) {
		if number, exists := syscalls.Number(arch, r.Name); exists {
			all[uint32(number)] = do
		}
	}
	for _, r := range syscalls.Rules() {
		if !slices.Contains(o.Allow, r.Name) {
			add(r, denyBlock(r))
		}
	}
	if o.Live {
		for _, r := range syscalls.LiveRules() {
			add(r, liveBlock(r))
		}
	}
	if o.Held {
		for _, r := range syscalls.HeldRules() {
			before := ret(unix.SECCOMP_RET_ALLOW)
			if rule, denied := syscalls.Denied(r.Name); denied && !slices.Contains(o.Allow, r.Name) {
				before = denyBlock(rule)
			}
			add(r, heldBlock(r, before))
		}
	}
	add(syscalls.Rule{Name: watchedCall}, ret(unix.SECCOMP_RET_USER_NOTIF))
	return all
}

// segments covers all numbers from 0 on.
func segments(arch syscalls.Arch, o Options) []segment {
	all := special(arch, o)
	allowed := ret(unix.SECCOMP_RET_ALLOW)
	list := []segment{{0, allowed}}
	for _, number := range slices.Sorted(maps.Keys(all)) {
		if last := len(list) - 1; list[last].from == number {
			list = list[:last]
		}
		list = append(list, segment{number, all[number]}, segment{number + 1, allowed})
	}
	// Neighbours with one answer are one segment.
	return slices.CompactFunc(list, func(a, b segment) bool { return slices.Equal(a.do, b.do) })
}

// search finds the segment of the number that was read.
func search(list []segment) block {
	if len(list) == 1 {
		return list[0].do
	}
	middle := len(list) / 2
	return branch(opAtLeast, list[middle].from, search(list[middle:]), search(list[:middle]))
}
