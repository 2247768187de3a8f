// Package caller describes who makes a request, and what a request may use of the
// caller's environment: directory, variables, credentials, policies, paths of the host.
package caller

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Caller identifies the caller of a request, and holds what the engine may use of
// the caller's environment. The engine reads none of this from its own process.
type Caller struct {
	// Actor returns the caller's name, as statements record it.
	Actor func() string
	// ID identifies a caller who is not the operator among all others; "" is the operator,
	// or a caller who is not told apart.
	ID string
	// MayGive reports whether the caller may give a run what else only the operator gives,
	// by its name. nil is of all.
	MayGive func(name string) bool
	// Dir is the directory that relative paths of requests start from. "" for none:
	// then they are refused.
	Dir string
	// Home is the caller's home directory, or "".
	Home string
	// Env has the caller's variables, as K=V: for credentials, for what a policy
	// passes on, and for the search path.
	Env []string
	// Closed returns the directories that cells can have written: no program of the host
	// is started from them. nil for none.
	Closed hosttool.ExcludedDirs
	// Git returns the caller's identity for git. It may be nil.
	Git func() GitUser
	// Expect, if set, is the revision that a cell must have to be changed: the number
	// of the newest statement about it.
	Expect *int64
	// CannotDecide refuses what amounts to a decision: a restore that leaves accepted
	// work, and every change of a live directory.
	CannotDecide bool
	// Within are the directories of the host that requests may use, with everything
	// below them. nil is every directory.
	Within []string
	// Request is the id of the request with a key that the call belongs to, or "".
	Request string
	// Progress is called from time to time during long work. It may be nil.
	Progress func(api.Progress)
	// Stderr gets the error output of commands that provide credentials. nil drops
	// it.
	Stderr io.Writer
	// Sees reports whether the caller may know of a cell, by its name. nil is of all.
	Sees func(cell string) bool
	// Prefix begins the names of all cells of a token that is bound to them; "" for none.
	Prefix string
	// MayUse reports whether the caller may use a line of the credentials file, by its
	// name. nil is of all.
	MayUse func(credential string) bool
	// CommandLine is the operator's command line on the home itself. The addresses of
	// registries that it gives with a policy hold for its own runs in the cell.
	CommandLine bool
	// FileSources refuses lines of the credentials file that read a variable or run a
	// command: those would be the daemon's.
	FileSources bool
	// Guest is what the operator lets a caller do who is not the operator; nil is the
	// operator.
	Guest *Guest
	// Ceiling is a policy that must allow what the policy of a run allows; nil is
	// none.
	Ceiling *api.PolicyFile
	// Budget begins a piece of work that takes disk space. nil is no bound.
	Budget func(context.Context) (Budget, error)
	// Loan is the id of the disk space that the caller's quota has set aside for this
	// process, and LoanBytes its size; "" if it has set aside none.
	Loan      string
	LoanBytes int64
}

// Guest is what the operator lets another caller do.
type Guest struct {
	// AllowControl are patterns of control files that the caller may have written to a
	// directory of the host.
	AllowControl []string
}

// GitUser is an identity for git.
type GitUser struct{ Name, Email string }

// AbsPath returns a path of a request as an absolute path. A trailing slash stays. It
// fails for a relative path of a caller without a directory.
func (c Caller) AbsPath(p string) (string, error) {
	switch {
	case p == "" || filepath.IsAbs(p):
		return p, nil
	case c.Dir == "":
		return "", api.Usagef("give an absolute path", "%s is relative, and there is no working directory", quote.Path(p))
	}
	return c.Dir + "/" + p, nil
}

// MaySee reports whether the caller may know of a cell.
func (c Caller) MaySee(cell string) bool { return c.Sees == nil || c.Sees(cell) }

// Gives reports whether the caller may give a run what else only the operator gives.
func (c Caller) Gives(name string) bool { return c.MayGive == nil || c.MayGive(name) }

// LookupEnv returns the value of one of the caller's variables.
func (c Caller) LookupEnv(name string) (string, bool) {
	for _, kv := range c.Env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Reader reads the caller's sources of credentials.
func (c Caller) Reader() credential.Reader {
	return credential.Reader{Env: c.Env, Dir: c.Dir, Stderr: c.Stderr, Closed: c.Closed}
}

// FileReader reads the sources of the credentials file.
func (c Caller) FileReader() credential.Reader {
	r := c.Reader()
	r.OnlyFiles = c.FileSources
	return r
}

// MayUseLine reports whether the caller may use a line of the credentials file.
func (c Caller) MayUseLine(credential string) bool { return c.MayUse == nil || c.MayUse(credential) }

// GitUser returns the caller's identity for git; it may be empty.
func (c Caller) GitUser() GitUser {
	if c.Git == nil {
		return GitUser{}
	}
	return c.Git()
}

// Report passes the progress of long work on to the caller.
func (c Caller) Report(p api.Progress) {
	if c.Progress != nil {
		c.Progress(p)
	}
}

// InheritedVariables returns the value of each variable that a policy passes on and the
// caller has, as K=V.
func (c Caller) InheritedVariables(p *policy.Policy) (given []string) {
	for _, name := range p.Environment.Inherit {
		if value, ok := c.LookupEnv(name); ok {
			given = append(given, name+"="+value)
		}
	}
	return given
}
