package protocol

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
)

// The protocol between the parent and the cell's first process. The parent
// sends one plan, with descriptors, and after it orders; it need not wait in
// between. The init answers the plan with one report "built" or "failed", and
// each order to execute with "started" (with the streams' descriptors) or
// "failed", and after "started", some time, with one "exited". An order to open a
// file is answered with "opened", with its descriptor, or "failed". A command of the
// cell that wants a package manager executed makes the init say "asked"; the parent
// answers, and when the package manager has ended the init says "ended".
//
// Everything that comes from outside is bytes, not text: paths, arguments and
// environments need not be UTF-8. How it travels: see wire.

// Plan describes the cell that the init builds.
type Plan struct {
	Hostname string
	ID       Identity
	// Legacy asks for mounts by path from the start.
	Legacy   bool
	Binds    []Bind
	Overlays []Overlay
	Pins     [][]byte
	Masks    []Mask
	// Fixed are paths in the cell's state that cannot be written to.
	Fixed [][]byte
	// Absent are whiteouts that cannot be replaced, in directories that overlays
	// will cover.
	Absent [][]byte
	// System lists paths of the system shown read-only, instead of the usual
	// ones with OwnSystem, else besides them; and links anywhere.
	System    [][]byte
	OwnSystem bool
	// Root is the directory that the system's directories come from instead of
	// the host's root; RootFD, when positive, is 1 + the index of a descriptor
	// with its mount.
	Root   []byte
	RootFD int
	// Follow means that RootFD and those of Binds and Overlays come in a message of
	// their own, ParentMounts: the parent makes the mounts while the init builds
	// what does not need them.
	Follow bool
	Guard  Guard
	// Capture brings connections to the host side; Files are the cell's own in
	// /etc, besides the usual ones, and FilesFD is 1 + the index of a descriptor
	// with their contents.
	Capture bool
	Files   []File
	FilesFD int
	// Socket, if not empty, is the path of a unix socket in the cell. Its listener is
	// the last of the sockets of the network.
	Socket []byte
	// Packages lets commands ask for package managers, which run as the cell's root.
	Packages bool
	// Without is for tests only: see the type.
	Without Without
	// Examine makes the init try its controls, Notice one reported call.
	Examine *Examination
	Notice  bool
	// StepTimes asks for the times of the steps.
	StepTimes bool
	// Probe makes the init try the overlay at this path.
	Probe []byte
}

// ParentMounts has the numbers of the descriptors of a plan with Follow, in the
// order of its binds and overlays.
type ParentMounts struct {
	Root            int
	Binds, Overlays []int
}

// File is a file whose contents are a part of a descriptor's.
type File struct {
	Name   string
	Offset int64
	Size   int64
}

// Bind attaches a host path. FD, when positive, is 1 + the index of a
// descriptor sent along that holds the mount already.
type Bind struct {
	Target   []byte
	Source   []byte
	FD       int
	ReadOnly bool
	// Dead makes unix sockets in it unreachable.
	Dead bool
}

// Overlay attaches a finished overlay (FD as in Bind) or makes one.
type Overlay struct {
	Target []byte
	FD     int
	Lower  [][]byte
	Upper  []byte
	Work   []byte
}

// HasOverlay reports whether an overlay is attached at target.
func (p *Plan) HasOverlay(target string) bool {
	return slices.ContainsFunc(p.Overlays, func(o Overlay) bool { return string(o.Target) == target })
}

// Mask hides a path of the cell.
type Mask struct {
	Target []byte
	Dir    bool
}

// Order is a message of the parent after the plan.
type Order struct {
	Exec *ExecOrder
	Open *OpenOrder
	// Signal is sent to the process group of the command with the number To.
	Signal int
	To     int
	// Answer is to a report that a package manager was asked for.
	Answer *Answer
}

// ExecOrder executes a command.
type ExecOrder struct {
	// ID is the parent's number for it, from 1.
	ID      int
	Args    [][]byte
	Env     [][]byte
	Workdir []byte
	TTY     bool
	// Rows and Cols are the terminal's size.
	Rows, Cols uint16
	// Stdin says that there is input; otherwise the command reads /dev/null.
	Stdin bool
	// Last says that the cell ends with this command.
	Last bool
	// Warm gives the command a socket besides its streams, on which it is told to
	// fork. The parent's end is the last descriptor of the answer.
	Warm bool
}

// OpenOrder opens a regular file of the cell for reading. Its ID is of the same
// numbers as those of commands.
type OpenOrder struct {
	ID   int
	Path []byte
}

// Kinds of report.
const (
	Built   = "built"
	Started = "started"
	Failed  = "failed"
	Exited  = "exited"
	Opened  = "opened"
	Reaped  = "reaped"
	Asked   = "asked"
	Ended   = "ended"
)

// Report is a message of the init.
type Report struct {
	Kind string
	// Exec is the number of the command that it is about; 0 is the cell.
	Exec int
	// built
	MountAPI  string
	Degraded  []string
	Landlock  string
	Seccomp   string
	Examined  []Finding
	StepTimes []StepTime
	// The descriptors sent along: the listener of denied calls, if there is one; with
	// Join the namespaces of JoinOrder, and with Rules those of Landlock; and as many
	// sockets of the network as Captured says.
	Captured int
	Join     bool
	Rules    bool
	// started
	PID int
	// failed
	Step  string
	Errno int
	Text  string
	Cause fault.Cause
	// exited, and reaped: of a process with this PID that the init was left with
	Status uint32
	// Took is the time from the fork of an exited command to its end, by the init's
	// monotonic clock: see CommandTook.
	Took time.Duration
	// asked, where Exec counts what was asked for, and ended, with Status or Text
	Args [][]byte
	// Refused counts attempts to use a network that the cell does not have.
	Refused int64
}

// CommandTook returns how long a command took: what the init says, or elapsed, the time
// from its order to the report of its end on the host. The host may be told of the
// command's start long after it, so the init's word is the better one. Commands cannot
// change it, but code that controls the init can. So it counts only within elapsed.
func (r Report) CommandTook(elapsed time.Duration) time.Duration {
	if r.Took <= 0 || r.Took > elapsed {
		return elapsed
	}
	return r.Took
}

// Failure puts an error into a report.
func Failure(err error) *Report {
	r := &Report{Kind: Failed, Step: "init", Text: err.Error()}
	var se *fault.StartError
	if errors.As(err, &se) {
		r.Step, r.Text = se.Step, se.Err.Error()
		r.Cause = se.Cause
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		r.Errno = int(no)
	}
	return r
}

// Err takes the error out of a report again.
func (r Report) Err() error {
	return &fault.StartError{
		Step:  r.Step,
		Err:   &remoteError{text: r.Text, errno: syscall.Errno(r.Errno)},
		Cause: r.Cause,
	}
}

// remoteError is an error that happened in the init; errors.Is still finds its
// errno.
type remoteError struct {
	text  string
	errno syscall.Errno
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// Bytes turns strings into what a message carries.
func Bytes(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

// Strings undoes Bytes.
func Strings(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}

// Guard is a Guard for the init.
type Guard struct {
	AllowSyscalls []string
	BestEffort    bool
	Notify        bool // of denied calls
	Connects      bool // are watched
	// Attempts to use a network that the cell does not have are reported: connects by
	// the listener of denied calls, unless there is a Runtime, and questions for names
	// at a socket of its own.
	Attempts  bool
	OpenFiles int64
	// Processes is the limit that a resource limit holds. Limited says that there is
	// a limit of processes, held by whatever.
	Processes int64
	Limited   bool
	// Live says that the cell writes to a directory of the host.
	Live bool
	// Template leaves off what the cell's branches could not get rid of: Landlock,
	// whose rules name the template's files. It allows setns. Join asks for a descriptor of the rules,
	// for a process that joins the cell.
	Template, Join bool
	// Runtime leaves off what would keep the cell's command from holding programs
	// with a kernel of its own: Landlock, which forbids mounts, and for a root
	// caller the loss of capabilities in the cell's user namespace.
	Runtime bool
	// Writable are the directories in the cell that may be written to, besides
	// /dev and /proc.
	Writable [][]byte
}

// Examination asks the init of a throw-away cell to try its own controls.
type Examination struct {
	// Host are the caller's namespaces.
	Host map[string]string
	// Socket is that of a listener in a path that is shown.
	Socket []byte
}

// Identity maps the caller's ids to those of the cell.
type Identity struct {
	// Root is set for a root caller: ranges of ids, id-mapped layers.
	Root bool
	// UID and GID are the sandbox user's, inside the cell.
	UID int
	GID int
	// Super is set when the command is the cell's root.
	Super bool
	// FullName is the command's user's, in the list of accounts.
	FullName string
}

// StateAbove is the innermost directory of the cell's state that a path is in,
// without the path itself; "" if it is in none.
func (p *Plan) StateAbove(target string) string {
	above := ""
	for _, o := range p.Overlays {
		above = innermost(above, string(o.Target), target)
	}
	for _, b := range p.Binds {
		if !b.ReadOnly {
			above = innermost(above, string(b.Target), target)
		}
	}
	return above
}

func innermost(above, dir, target string) string {
	if dir != target && Within(target, dir) && len(dir) > len(above) {
		return dir
	}
	return above
}

// Within reports whether path is dir or below it.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// StepTime is the time that a step of a start took.
type StepTime struct {
	Step string
	Took time.Duration
}

// Finding is the result of one examination; an empty Problem means that the control
// holds.
type Finding struct {
	Name    string
	Problem string
}
