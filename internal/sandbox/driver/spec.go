package driver

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/storage/mount"
)

// Spec says what a cell is made of, and for [Driver.Run] what runs in it.
type Spec struct {
	// ID names the run in messages.
	ID string
	// Hostname is the cell's name.
	Hostname string
	// FullName is what the cell's user is called besides its login name, for git
	// and others that ask the list of accounts; "" for no full name.
	FullName string
	// Mounts are the workspace, the home, the private /tmp and so on.
	Mounts mount.Set
	// ReadOnly holds host paths shown at the same path, read-only.
	ReadOnly []string
	System   System
	// AsRoot makes the command root in the cell, with what it takes to install
	// packages, and nobody on the host. Only a root caller can have that.
	AsRoot bool
	// Packages, if set, lets commands have package managers executed as the cell's
	// root. Only a root caller can have that.
	Packages *Packages
	Guard    Guard
	// Network, if set, brings every connection of the cell to the host side;
	// otherwise the cell has only its own loopback.
	Network *Network
	// Attempts, if set, hears what a cell without Network tries to reach.
	Attempts *Attempts
	Limits   Limits
	// Template makes a cell that can be branched: see the interface Template.
	Template bool
	// Scratch is an empty, private directory of the host for the runtime of a cell that
	// can be saved, which keeps there for a moment what it saves. Without one it is in the
	// cell's memory. The caller removes it with the cell.
	Scratch string
	// Freezable makes a cell that can be frozen, where the host can do that.
	Freezable bool
	// Started, if set, is called when the first process exists and before it does
	// anything, so that the record can be kept for [Driver.Reap]. An error ends the
	// run.
	Started func(Record) error
	// Command is the command that Run executes.
	Command
}

// Command is one program in a cell.
type Command struct {
	// Args[0] is looked up in the cell along Env's PATH.
	Args []string
	// Env is the command's whole environment.
	Env []string
	// Workdir is an absolute path in the cell.
	Workdir string
	// TTY gives the command a terminal of the cell's own, of the given size.
	TTY  bool
	Size WindowSize
	// Timeout ends the command when it has run that long, and with Run the whole
	// cell; 0 = never.
	Timeout time.Duration
	// Warm gives the command a socket, by which it says that it is warm and is told
	// to fork. It is for a cell with Spec.Template, and for one command of it, whose
	// environment has WarmVariable.
	Warm bool
	// Executed, if set, is called with the command's pid inside the cell.
	Executed func(pid int)
}

// WindowSize is a terminal's size in characters.
type WindowSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Stdio is the caller's side of the command's streams. None of it is handed to
// the cell: bytes are copied.
type Stdio struct {
	// In feeds the command's standard input; nil means /dev/null. A reader that
	// is blocked when the command ends is left behind, since nothing can
	// interrupt it.
	In io.Reader
	// Out and Err take the streams, as they come; nil discards. With a terminal
	// everything goes to Out. A writer that fails closes the stream: the command
	// then meets a broken pipe, as it would without a cell.
	Out, Err io.Writer
	// Resize changes the terminal's size.
	Resize <-chan WindowSize
	// Signals are sent to the command's process group.
	Signals <-chan os.Signal
}

// System says where the cell's programs and libraries come from.
type System struct {
	// Root is a directory with its own system; empty means the host's.
	Root string
	// Own makes Paths all that is shown of it, instead of the usual directories.
	// The links in its root (/bin, /lib) are there anyhow.
	Own   bool
	Paths []string
}

// Guard lists what the kernel refuses the commands of a cell. Its zero value
// refuses all that it should.
type Guard struct {
	// AllowSyscalls are names taken out of the set of denied system calls.
	AllowSyscalls []string
	// LandlockBestEffort runs the cell also where the kernel's Landlock is
	// older than ABI 3 or missing.
	LandlockBestEffort bool
	// LandlockRequired refuses the cell where commands have no Landlock at all, though
	// mounts alone enforce the same paths.
	LandlockRequired bool
	// AllowDegraded runs the cell when a limit cannot be enforced, and says so.
	AllowDegraded bool
	// Denied, if set, is called for the rare denied calls, where the kernel can
	// report them. It is called by one goroutine at a time.
	Denied func(Denial)
}

// Limits bounds what a cell may use; 0 means no limit. Time is Command.Timeout.
type Limits struct {
	Memory    int64 // bytes, swap included
	CPUsMilli int64 // thousandths of a processor
	PIDs      int64
	OpenFiles int64 // for each process
	// Hit, if set, is called when a limit was met.
	Hit func(LimitHit)
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

// NotEnforced is the line of a record about a limit that this host cannot set.
func NotEnforced(limit, why string) string { return notEnforced(limit) + why }

func notEnforced(limit string) string { return "limit " + limit + " is not enforced: " }

// Achieved lists the limits for a receipt, without those that a line of NotEnforced in
// degraded names.
func (l Limits) Achieved(degraded []string) string {
	missing := false
	for limit, n := range map[string]*int64{"memory": &l.Memory, "cpu": &l.CPUsMilli, "pids": &l.PIDs} {
		if *n > 0 && slices.ContainsFunc(degraded, func(line string) bool { return strings.HasPrefix(line, notEnforced(limit)) }) {
			*n, missing = 0, true
		}
	}
	if missing && l.Memory+l.CPUsMilli+l.PIDs+l.OpenFiles == 0 {
		return "none of those asked for"
	}
	return l.String()
}
