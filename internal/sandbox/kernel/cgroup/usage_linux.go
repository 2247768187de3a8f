package cgroup

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Unknown stands for a number that this group does not count: the control was
// not asked for, or the kernel has no such file.
const Unknown = -1

// Usage counts what the processes of a group have used so far, the dead included.
type Usage struct {
	// MemoryPeak is in bytes.
	MemoryPeak int64
	// CPUMicros is processor time.
	CPUMicros int64
	// Throttled counts the periods in which the cell had to wait for its next
	// share, ThrottledMicros the time it waited.
	Throttled, ThrottledMicros int64
	// OOMKills counts processes killed for memory, PIDsHits the processes that
	// could not be started.
	OOMKills, PIDsHits int64
}

// number is one counter of a group: where it is, and what to divide it by.
type number struct {
	to        *int64
	d         *dir
	file, key string
	unit      int64
}

// Usage reads the counters. A file that is missing leaves its number Unknown;
// any other failure is an error.
func (g *Group) Usage() (Usage, error) {
	u := Usage{
		MemoryPeak: Unknown, CPUMicros: Unknown, Throttled: Unknown, ThrottledMicros: Unknown,
		OOMKills: Unknown, PIDsHits: Unknown,
	}
	for _, n := range g.numbers(&u) {
		if n.d == nil {
			continue
		}
		v, err := n.read()
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return Usage{}, err
		}
		*n.to = v
	}
	return u, nil
}

func (n number) read() (v int64, err error) {
	if n.key == "" {
		v, err = n.d.readInt(n.file)
	} else {
		v, err = n.d.readKey(n.file, n.key)
	}
	if err != nil || v < 0 {
		return Unknown, err
	}
	return v / n.unit, nil
}

func (g *Group) numbers(u *Usage) []number {
	list := []number{{&u.PIDsHits, g.by[PIDs], "pids.events", "max", 1}}
	if d := g.by[Memory]; d != nil && d.v2 {
		list = append(
			list,
			number{&u.MemoryPeak, d, "memory.peak", "", 1},
			number{&u.OOMKills, d, "memory.events", "oom_kill", 1},
		)
	} else {
		list = append(
			list,
			number{&u.MemoryPeak, d, "memory.max_usage_in_bytes", "", 1},
			number{&u.OOMKills, d, "memory.oom_control", "oom_kill", 1},
		)
	}
	d := g.by[CPU]
	list = append(list, number{&u.Throttled, d, "cpu.stat", "nr_throttled", 1})
	if d != nil && d.v2 {
		list = append(list, number{&u.ThrottledMicros, d, "cpu.stat", "throttled_usec", 1})
	} else {
		list = append(list, number{&u.ThrottledMicros, d, "cpu.stat", "throttled_time", 1000})
	}
	if g.v2 != nil {
		// Every group of version 2 counts time, without any controller.
		return append(list, number{&u.CPUMicros, g.v2, "cpu.stat", "usage_usec", 1})
	}
	// The file is there where cpu and cpuacct share a hierarchy.
	return append(list, number{&u.CPUMicros, d, "cpuacct.usage", "", 1000})
}
