package driver

import (
	"time"

	"golang.org/x/sys/unix"
)

// Lingering bounds the wait for the output of a command that has ended, while processes
// that it left in a live cell hold its streams open.
const Lingering = 200 * time.Millisecond

// Outcome is how a command that was started has ended.
type Outcome struct {
	// Code is the command's exit code, 128+Signal when a signal ended it, 124
	// when it ran out of time.
	Code int
	// Signal is the signal that killed the command, or 0.
	Signal int
	// TimedOut says that Spec.Timeout passed.
	TimedOut bool
	// Killed says that the whole cell was killed: by the caller's context, or
	// by someone else on the host.
	Killed bool
	// StartTook is the time before the command. CommandTook is the command's own time,
	// from its fork to its end, as measured in the cell. Together they are at most the
	// time of the whole.
	StartTook, CommandTook time.Duration
	Controls               Controls
	Usage                  Usage
	// Refused counts the attempts of the command's cell to send something to where
	// nothing is: names asked for and connections in a cell without a network.
	Refused int64
}

// Settle completes an outcome that says already whether the time was up or the caller
// killed the command. Reported says that the command's first process reported its end,
// with this status; last that the cell ends with the command. A cell that is killed
// reports nothing, so a report about its last command wins over a time-out of the same
// instant.
func (o *Outcome) Settle(reported, last bool, status unix.WaitStatus) {
	ours := o.TimedOut || o.Killed
	killed := status.Signaled() && status.Signal() == unix.SIGKILL
	if reported && (last || !ours || !killed) {
		o.TimedOut, o.Killed = false, false
		o.Code = status.ExitStatus()
		if status.Signaled() {
			o.Signal = int(status.Signal())
			o.Code = 128 + o.Signal
		}
		return
	}
	o.Signal = int(unix.SIGKILL)
	o.Code = 128 + o.Signal
	o.Killed = !o.TimedOut
	if o.TimedOut {
		o.Code = 124
	}
}

// Usage is what the cell's processes have used; -1 where it was not counted.
type Usage struct {
	MemoryPeak int64 `json:"memory_peak"`
	CPUMicros  int64 `json:"cpu_us"`
	// OOMKills counts processes killed for memory, PIDsHits those that could not
	// be started.
	OOMKills int64 `json:"oom_kills"`
	PIDsHits int64 `json:"pids_hits"`
}

// Controls lists the controls that were achieved, in words for a receipt.
type Controls struct {
	Runtime      string   `json:"runtime"`
	Kernel       string   `json:"kernel"`
	Namespaces   []string `json:"namespaces"`
	User         string   `json:"user"`
	NoNewPrivs   bool     `json:"no_new_privs"`
	Capabilities string   `json:"capabilities"`
	Network      string   `json:"network"`
	Landlock     string   `json:"landlock"`
	Seccomp      string   `json:"seccomp"`
	Limits       string   `json:"limits"`
	MountAPI     string   `json:"mount_api"`
	Degraded     []string `json:"degraded"`
	// Sockets says what became of the listening sockets and the connections of the cell
	// that this one is a branch of, "" in another cell.
	Sockets string `json:"sockets,omitempty"`
}

// Check is one line of what this host can enforce. Status is "works",
// "degraded" or "missing".
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// Process is one process of a cell.
type Process struct {
	// PID and PPID are those inside the cell; SID is the process that began its
	// session there, which is the command itself for what Exec started.
	PID, PPID, SID int
	// HostPID is the number outside.
	HostPID int
	// UID is the user inside.
	UID int
	// State is the kernel's letter.
	State   string
	Started time.Time
	// CPU is the processor time used, RSS the resident memory in bytes.
	CPU time.Duration
	RSS int64
	// Args is the command line, of which a long one is cut; for a process that
	// has none, its name in brackets.
	Args []string
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

// LimitHit means that a limit was met.
type LimitHit struct {
	Limit string // "memory" or "pids"
	Count int64  // how often, in all
}
