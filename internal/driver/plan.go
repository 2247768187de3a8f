package driver

import (
	"errors"
	"slices"
	"syscall"
)

// The protocol between the parent and the cell's first process. The parent
// sends one plan, with descriptors, and after it orders; it need not wait in
// between. The init answers the plan with one report "built" or "failed", and
// each order to execute with "started" (with the streams' descriptors) or
// "failed", and after "started", some time, with one "exited".
//
// Everything that comes from outside is bytes, not text: paths, arguments and
// environments need not be UTF-8, and JSON strings would change them.

// plan is what the init builds.
type plan struct {
	Hostname string   `json:"hostname"`
	ID       identity `json:"id"`
	// Legacy asks for mounts by path from the start.
	Legacy   bool          `json:"legacy,omitempty"`
	Binds    []bindPlan    `json:"binds,omitempty"`
	Overlays []overlayPlan `json:"overlays,omitempty"`
	Pins     [][]byte      `json:"pins,omitempty"`
	Masks    []maskPlan    `json:"masks,omitempty"`
	// System lists host paths shown read-only, instead of the usual ones with
	// OwnSystem, else besides them.
	System    [][]byte `json:"system,omitempty"`
	OwnSystem bool     `json:"own_system,omitempty"`
	// Root is the directory that the system's directories come from instead of
	// the host's root; RootFD, when positive, is 1 + the index of a descriptor
	// with its mount.
	Root   []byte    `json:"root,omitempty"`
	RootFD int       `json:"root_fd,omitempty"`
	Guard  guardPlan `json:"guard"`
	// Capture brings connections to the host side; Files are the cell's own in
	// /etc, besides the usual ones, and FilesFD is 1 + the index of a descriptor
	// with their contents.
	Capture bool       `json:"capture,omitempty"`
	Files   []filePlan `json:"files,omitempty"`
	FilesFD int        `json:"files_fd,omitempty"`
	// files are the same for the parent.
	files []File
	// Without is for tests only: see the type.
	Without without `json:"without,omitempty"`
	// Examine makes the init try its controls, Notice one reported call.
	Examine *examinePlan `json:"examine,omitempty"`
	Notice  bool         `json:"notice,omitempty"`
	// Laps asks for the times of the steps.
	Laps bool `json:"laps,omitempty"`
	// Probe makes the init try the overlay at this path.
	Probe []byte `json:"probe,omitempty"`
}

// filePlan is a file whose contents are a part of a descriptor's.
type filePlan struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
}

// bindPlan attaches a host path. FD, when positive, is 1 + the index of a
// descriptor sent along that holds the mount already.
type bindPlan struct {
	Target   []byte `json:"target"`
	Source   []byte `json:"source,omitempty"`
	FD       int    `json:"fd,omitempty"`
	ReadOnly bool   `json:"ro,omitempty"`
	// Dead makes unix sockets in it unreachable.
	Dead bool `json:"dead,omitempty"`
	// owned is the parent's business only: see mount.Bind.
	owned bool
}

// overlayPlan attaches a finished overlay (FD as in bindPlan) or makes one.
type overlayPlan struct {
	Target []byte   `json:"target"`
	FD     int      `json:"fd,omitempty"`
	Lower  [][]byte `json:"lower,omitempty"`
	Upper  []byte   `json:"upper,omitempty"`
	Work   []byte   `json:"work,omitempty"`
	// hostLower and system are the parent's business: see mount.Overlay.
	hostLower, system bool
}

// hasSystem says whether a part of the host's system is among the overlays.
func (p *plan) hasSystem() bool {
	return slices.ContainsFunc(p.Overlays, func(o overlayPlan) bool { return o.system })
}

// overlays says whether an overlay is attached at target.
func (p *plan) overlays(target string) bool {
	return slices.ContainsFunc(p.Overlays, func(o overlayPlan) bool { return string(o.Target) == target })
}

type maskPlan struct {
	Target []byte `json:"target"`
	Dir    bool   `json:"dir,omitempty"`
}

// order is what the parent says after the plan.
type order struct {
	Exec *execOrder `json:"exec,omitempty"`
	// Signal is sent to the process group of the command with the number To.
	Signal int `json:"signal,omitempty"`
	To     int `json:"to,omitempty"`
}

// execOrder executes a command.
type execOrder struct {
	// ID is the parent's number for it, from 1.
	ID      int        `json:"id"`
	Args    [][]byte   `json:"args"`
	Env     [][]byte   `json:"env,omitempty"`
	Workdir []byte     `json:"workdir"`
	TTY     bool       `json:"tty,omitempty"`
	Size    WindowSize `json:"size"`
	// Stdin says that there is input; otherwise the command reads /dev/null.
	Stdin bool `json:"stdin,omitempty"`
	// Last says that the cell ends with this command.
	Last bool `json:"last,omitempty"`
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
	Kind string `json:"kind"`
	// Exec is the number of the command that it is about; 0 is the cell.
	Exec int `json:"exec,omitempty"`
	// built
	MountAPI string   `json:"mount_api,omitempty"`
	Degraded []string `json:"degraded,omitempty"`
	Landlock string   `json:"landlock,omitempty"`
	Seccomp  string   `json:"seccomp,omitempty"`
	Examined []Check  `json:"examined,omitempty"`
	Laps     []lap    `json:"laps,omitempty"`
	// Captured counts the last descriptors sent along: the network's sockets.
	Captured int `json:"captured,omitempty"`
	// started
	PID int `json:"pid,omitempty"`
	// failed
	Step          string `json:"step,omitempty"`
	Errno         int    `json:"errno,omitempty"`
	Text          string `json:"text,omitempty"`
	NotFound      bool   `json:"not_found,omitempty"`
	NotExecutable bool   `json:"not_executable,omitempty"`
	// exited
	Status uint32 `json:"status,omitempty"`
}

// failure puts an error into a report.
func failure(err error) report {
	r := report{Kind: reportFailed, Step: "init", Text: err.Error()}
	var se *StartError
	if errors.As(err, &se) {
		r.Step, r.Text = se.Step, se.Err.Error()
		r.NotFound, r.NotExecutable = se.NotFound, se.NotExecutable
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		r.Errno = int(no)
	}
	return r
}

// err takes the error out of a report again.
func (r report) err() error {
	return &StartError{
		Step:     r.Step,
		Err:      &remoteError{text: r.Text, errno: syscall.Errno(r.Errno)},
		NotFound: r.NotFound, NotExecutable: r.NotExecutable,
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
