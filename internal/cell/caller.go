package cell

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

// Caller is who asks for something, and what of the caller's surroundings the
// engine may use. The engine takes nothing of this from its own process.
type Caller struct {
	// Actor returns the caller's name, as statements record it.
	Actor func() string
	// Dir is where relative paths of requests begin.
	Dir string
	// Home is the caller's home directory; "" is none.
	Home string
	// Env has the caller's variables, as K=V: for credentials, for what a policy
	// passes on, and for the search path.
	Env []string
	// Git returns who the caller is to git. nil is nobody.
	Git func() GitUser
	// Progress is called now and then during long work. nil is nothing.
	Progress func(api.Progress)
	// Stderr takes what commands that provide credentials say. nil drops it.
	Stderr io.Writer
}

// GitUser is who somebody is to git.
type GitUser struct{ Name, Email string }

// As returns an engine that acts for a caller. Engines of one home share the rest.
func (e *Engine) As(c Caller) *Engine {
	other := *e
	other.caller, other.log = c, e.log.For(c.Actor)
	return &other
}

// path returns a path of a request as an absolute path. A slash at its end stays.
func (c Caller) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return c.Dir + "/" + p
}

func (c Caller) lookupEnv(name string) (string, bool) {
	for _, kv := range c.Env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// reader reads the caller's sources of credentials.
func (c Caller) reader() credential.Reader {
	return credential.Reader{Env: c.Env, Dir: c.Dir, Stderr: c.Stderr}
}

func (c Caller) git() GitUser {
	if c.Git == nil {
		return GitUser{}
	}
	return c.Git()
}

func (c Caller) report(p api.Progress) {
	if c.Progress != nil {
		c.Progress(p)
	}
}

// inherited returns the value of each variable that a policy passes on and the
// caller has, as K=V.
func (c Caller) inherited(p *policy.Policy) (given []string) {
	for _, name := range p.Environment.Inherit {
		if value, ok := c.lookupEnv(name); ok {
			given = append(given, name+"="+value)
		}
	}
	return given
}
