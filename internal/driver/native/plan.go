package native

import (
	"errors"
	"slices"
	"syscall"

	"github.com/forkcell/forkcell/internal/driver"
)

// The protocol between the parent and the cell's first process. The parent
// sends one plan, with descriptors, and after it orders; it need not wait in
// between. The init answers the plan with one report "built" or "failed", and
// each order to execute with "started" (with the streams' descriptors) or
// "failed", and after "started", some time, with one "exited".
//
// Everything that comes from outside is bytes, not text: paths, arguments and
// environments need not be UTF-8. How it travels: see wire.

// plan is what the init builds.
type plan struct {
	Hostname string
	ID       identity
	// Legacy asks for mounts by path from the start.
	Legacy   bool
	Binds    []bindPlan
	Overlays []overlayPlan
	Pins     [][]byte
	Masks    []maskPlan
	// Fixed are paths in the cell's state that cannot be written to.
	Fixed [][]byte
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
	// their own, parentMounts: the parent makes the mounts while the init builds
	// what does not need them.
	Follow bool
	Guard  guardPlan
	// Capture brings connections to the host side; Files are the cell's own in
	// /etc, besides the usual ones, and FilesFD is 1 + the index of a descriptor
	// with their contents.
	Capture bool
	Files   []filePlan
	FilesFD int
	// files are the same for the parent.
	files []driver.File
	// Without is for tests only: see the type.
	Without without
	// Examine makes the init try its controls, Notice one reported call.
	Examine *examinePlan
	Notice  bool
	// Laps asks for the times of the steps.
	Laps bool
	// Probe makes the init try the overlay at this path.
	Probe []byte
}

// parentMounts has the numbers of the descriptors of a plan with Follow, in the
// order of its binds and overlays.
type parentMounts struct {
	Root            int
	Binds, Overlays []int
}

// filePlan is a file whose contents are a part of a descriptor's.
type filePlan struct {
	Name   string
	Offset int64
	Size   int64
}

// bindPlan attaches a host path. FD, when positive, is 1 + the index of a
// descriptor sent along that holds the mount already.
type bindPlan struct {
	Target   []byte
	Source   []byte
	FD       int
	ReadOnly bool
	// Dead makes unix sockets in it unreachable.
	Dead bool
	// owned is the parent's business only: see mount.Bind.
	owned bool
}

// overlayPlan attaches a finished overlay (FD as in bindPlan) or makes one.
type overlayPlan struct {
	Target []byte
	FD     int
	Lower  [][]byte
	Upper  []byte
	Work   []byte
	// hostLower, system and bare are the parent's business: see mount.Overlay.
	hostLower, system, bare bool
}

// hasSystem reports whether a part of the host's system is among the overlays.
func (p *plan) hasSystem() bool {
	return slices.ContainsFunc(p.Overlays, func(o overlayPlan) bool { return o.system })
}

// overlays reports whether an overlay is attached at target.
func (p *plan) overlays(target string) bool {
	return slices.ContainsFunc(p.Overlays, func(o overlayPlan) bool { return string(o.Target) == target })
}

type maskPlan struct {
	Target []byte
	Dir    bool
}

// order is what the parent says after the plan.
type order struct {
	Exec *execOrder
	// Signal is sent to the process group of the command with the number To.
	Signal int
	To     int
}

// execOrder executes a command.
type execOrder struct {
	// ID is the parent's number for it, from 1.
	ID      int
	Args    [][]byte
	Env     [][]byte
	Workdir []byte
	TTY     bool
	Size    driver.WindowSize
	// Stdin says that there is input; otherwise the command reads /dev/null.
	Stdin bool
	// Last says that the cell ends with this command.
	Last bool
}

// Kinds of report.
const (
	reportBuilt   = "built"
	reportStarted = "started"
	reportFailed  = "failed"
	reportExited  = "exited"
)

// report is what the init says.
type report struct {
	Kind string
	// Exec is the number of the command that it is about; 0 is the cell.
	Exec int
	// built
	MountAPI string
	Degraded []string
	Landlock string
	Seccomp  string
	Examined []driver.Check
	Laps     []lap
	// Captured counts the last descriptors sent along: the network's sockets.
	Captured int
	// started
	PID int
	// failed
	Step  string
	Errno int
	Text  string
	Cause driver.Cause
	// exited
	Status uint32
	// Refused counts attempts to use a network that the cell does not have.
	Refused int64
}

// failure puts an error into a report.
func failure(err error) *report {
	r := &report{Kind: reportFailed, Step: "init", Text: err.Error()}
	var se *driver.StartError
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

// err takes the error out of a report again.
func (r report) err() error {
	return &driver.StartError{
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

func toBytes(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}
