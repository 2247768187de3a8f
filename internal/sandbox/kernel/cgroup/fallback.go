package cgroup

// Fallback describes what could replace a limit where no group can be made. It is
// always weaker than a group, so a run that uses it is degraded.
type Fallback struct {
	// Rlimit is the name of the resource limit, or "none".
	Rlimit string
	// Reason says what it does not do, or why there is none.
	Reason string
}

// NoFallback is the Rlimit of a control that nothing weaker stands in for.
const NoFallback = "none"

// FallbackFor returns which resource limit, set on the cell's first process inside
// its user namespace, is the next best means.
//
// Only the number of processes has one. The kernel (since 5.14) counts
// RLIMIT_NPROC for each user in each user namespace, so that it holds for one
// cell; before, it counted every process of the mapped user on the host.
func FallbackFor(c Control) Fallback {
	switch c {
	case PIDs:
		return Fallback{
			Rlimit: "RLIMIT_NPROC",
			Reason: "counts the processes of one user of the cell, not of the cell; hits are not counted",
		}
	case Memory:
		return Fallback{
			Rlimit: NoFallback,
			Reason: "RLIMIT_AS limits the addresses of each process, not the memory of all; it breaks programs that reserve more than they use and a cell passes it with two processes",
		}
	case CPU:
		return Fallback{
			Rlimit: NoFallback,
			Reason: "RLIMIT_CPU ends a process after a total of processor time; only a control group limits a rate",
		}
	case Freezer:
		return Fallback{
			Rlimit: NoFallback,
			Reason: "stop signals can be seen, sent and undone by the cell's own processes",
		}
	}
	return Fallback{Rlimit: NoFallback, Reason: "unknown control"}
}
