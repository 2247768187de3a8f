package seccomp

import "golang.org/x/sys/unix"

// share lets the branches of a program use each answer's last return where it is
// in reach, and drops the returns that nothing leads to any more. The kernel
// compiles the program when it is installed, which takes time for each
// instruction.
func share(program block) block {
	last := map[uint32]int{}
	for i, in := range program {
		if in.Code == opReturn {
			last[in.K] = i
		}
	}
	out := make(block, len(program))
	for i, in := range program {
		if conditional(in) {
			in.Jt = branchDistance(program, last, i, in.Jt)
			in.Jf = branchDistance(program, last, i, in.Jf)
		}
		out[i] = in
	}
	return dropUnreached(out)
}

func conditional(in unix.SockFilter) bool {
	return in.Code&0x07 == unix.BPF_JMP && in.Code != opJump
}

// branchDistance is the distance from instruction i to the return that the branch is to
// use from now on.
func branchDistance(program block, last map[uint32]int, i int, distance uint8) uint8 {
	const reach = 255
	target := program[i+1+int(distance)]
	if target.Code != opReturn || last[target.K]-i-1 > reach {
		return distance
	}
	return uint8(last[target.K] - i - 1)
}

// dropUnreached closes the gaps. All jumps go forward, so one pass finds what is
// reached, and distances only become shorter.
func dropUnreached(program block) block {
	reached := make([]bool, len(program))
	reached[0] = true
	place := make([]int, len(program))
	kept := 0
	for i, in := range program {
		place[i] = kept
		if !reached[i] {
			continue
		}
		kept++
		switch {
		case conditional(in):
			reached[i+1+int(in.Jt)], reached[i+1+int(in.Jf)] = true, true
		case in.Code == opJump:
			reached[i+1+int(in.K)] = true
		case in.Code != opReturn:
			reached[i+1] = true
		}
	}
	out := make(block, 0, kept)
	for i, in := range program {
		if !reached[i] {
			continue
		}
		distance := func(old int) int { return place[i+1+old] - place[i] - 1 }
		switch {
		case conditional(in):
			in.Jt, in.Jf = uint8(distance(int(in.Jt))), uint8(distance(int(in.Jf)))
		case in.Code == opJump:
			in.K = uint32(distance(int(in.K)))
		}
		out = append(out, in)
	}
	return out
}
