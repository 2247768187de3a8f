package driver

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/cgroup"
)

// System says where the cell's programs and libraries come from.
type System struct {
	// Root is a directory with a system of its own; empty means the host's.
	Root string
	// Own makes Paths all that is shown of it, instead of the usual directories.
	// The links in its root (/bin, /lib) are there anyhow.
	Own   bool
	Paths []string
}

// Guard says what the kernel refuses the commands of a cell. Its zero value
// refuses all that it should.
type Guard struct {
	// AllowSyscalls are names taken out of the set of denied system calls.
	AllowSyscalls []string
	// LandlockBestEffort runs the cell also where the kernel's Landlock is
	// older than ABI 3 or missing.
	LandlockBestEffort bool
	// AllowDegraded runs the cell when a limit cannot be enforced, and says so.
	AllowDegraded bool
	// Denied, if set, is told of the rare denied calls, where the kernel can
	// report them. It is called by one goroutine at a time.
	Denied func(Denial)
}

// Network says who serves a cell's connections.
type Network struct {
	// Serve is given what serves the cell, before any command is executed, and
	// owns the sockets also when it fails.
	Serve func(Captured) (Service, error)
	// Files are in the cell's /etc besides, or instead of, what is there; names
	// are relative to it.
	Files []File
}

// Captured is a network namespace of package capture.
type Captured struct {
	// Sockets are the descriptors for package origin.
	Sockets []int
	// InitPID is the cell's first process, on the host.
	InitPID int
	// Watched says that Service.Connecting is called for every connect(2). The
	// kernel refuses that to a driver that is itself under such a filter.
	Watched bool
}

// Service is what serves a cell's network.
type Service struct {
	// Stop ends it. It is called when the cell is gone.
	Stop func()
	// Connecting, if set, is told of a thread of the cell that is about to
	// connect the socket of a descriptor, and waits until it returns. It is
	// called by one goroutine at a time.
	Connecting func(Connect)
}

// Connect is a call of connect(2).
type Connect struct {
	// Thread is the number of the calling thread on the host. It may be another
	// one's as soon as Waiting returns false.
	Thread int
	// Descriptor and Address are the call's arguments: the socket, and where in
	// the caller's memory its destination is.
	Descriptor int
	Address    uint64
	// Waiting reports whether the thread still waits.
	Waiting func() bool
}

// File is a small file of the cell's own.
type File struct {
	Name string
	Data []byte
}

// Denial is one system call that was refused.
type Denial struct {
	// PID is the thread that called, inside the cell; 0 if it is gone already.
	PID int
	// Binary is its executable, as a path in the cell; it may be empty.
	Binary string
	Call   string
	Errno  unix.Errno
}

// Limits are what a cell may use; 0 means no limit. Time is Command.Timeout.
type Limits struct {
	Memory    int64 // bytes, swap included
	CPUsMilli int64 // thousandths of a processor
	PIDs      int64
	OpenFiles int64 // for each process
	// Hit, if set, is told when a limit was met.
	Hit func(LimitHit)
}

// LimitHit says that a limit was met.
type LimitHit struct {
	Limit string // "memory" or "pids"
	Count int64  // how often, in all
}

func (l Limits) group() cgroup.Limits {
	return cgroup.Limits{Memory: l.Memory, CPUsMilli: l.CPUsMilli, PIDs: l.PIDs}
}

// String lists the limits for a receipt.
func (l Limits) String() string {
	var list []string
	add := func(name string, n int64, text string) {
		if n > 0 {
			list = append(list, name+" "+text)
		}
	}
	add("memory", l.Memory, fmt.Sprintf("%d bytes", l.Memory))
	add("cpus", l.CPUsMilli, fmt.Sprintf("%d.%03d", l.CPUsMilli/1000, l.CPUsMilli%1000))
	add("pids", l.PIDs, fmt.Sprint(l.PIDs))
	add("open files", l.OpenFiles, fmt.Sprint(l.OpenFiles))
	if len(list) == 0 {
		return "none asked for"
	}
	return strings.Join(list, ", ")
}

// Why an ordinary user's cell cannot have the host's system to write to, and what
// to do. Subordinate ids would give the cell users, but the files of the host's
// root would be nobody's, and an overlay cannot copy up what belongs to nobody.
const (
	HostOverlayNeedsRoot = "only root can map the owners of the system's files into a cell (an id-mapped mount, else EPERM); with subordinate ids they are nobody's there, and nothing of the system can be changed"
	HostOverlayRemedy    = "run it as root: the cell's users are still nobody on the host"
)

// UnenforceableError says that a control that was asked for does not work here.
type UnenforceableError struct {
	Control, Reason, Remedy string
}

func (e *UnenforceableError) Error() string {
	return fmt.Sprintf("%s cannot be enforced here: %s", e.Control, e.Reason)
}

// liveControl names what the filter denies in a cell that writes to a directory
// of the host, for a receipt.
const liveControl = "no set-id files and no device nodes in the live directory"

// guardPlan is a Guard for the init.
type guardPlan struct {
	AllowSyscalls []string
	BestEffort    bool
	Notify        bool // of denied calls
	Connects      bool // are watched
	OpenFiles     int64
	Processes     int64
	// Live says that the cell writes to a directory of the host.
	Live bool
	// Writable are the directories in the cell that may be written to, besides
	// /dev and /proc.
	Writable [][]byte
}

// guard is what a specification asks of the init's last steps.
func (s *Spec) guard() guardPlan {
	g := guardPlan{
		AllowSyscalls: s.Guard.AllowSyscalls, BestEffort: s.Guard.LandlockBestEffort || s.Guard.AllowDegraded,
		Notify: s.Guard.Denied != nil, Connects: s.Network != nil, OpenFiles: s.Limits.OpenFiles,
	}
	var writable []string
	for _, b := range s.Mounts.Binds {
		if !b.ReadOnly {
			writable = append(writable, b.Target)
		}
		g.Live = g.Live || b.Live
	}
	for _, o := range s.Mounts.Overlays {
		writable = append(writable, o.Target)
	}
	slices.Sort(writable)
	g.Writable = toBytes(slices.Compact(writable))
	return g
}
