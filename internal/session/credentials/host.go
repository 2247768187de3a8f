package credentials

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Host is the operator's side.
type Host struct {
	// Home is the operator's home directory.
	Home string
	// Env has the operator's variables, as K=V.
	Env []string
	// Workspace is the directory of the session, which can hold no source; "" if
	// there is none yet.
	Workspace string
}

func (h Host) has(name string) bool {
	for _, kv := range h.Env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value != ""
		}
	}
	return false
}

// firstSet returns the first of some variables that is set; "" if none is.
func (h Host) firstSet(names []string) string {
	for _, name := range names {
		if h.has(name) {
			return name
		}
	}
	return ""
}

// look finds out whether the value of a selected credential can be had. It opens
// files and reads nothing.
func (h Host) look(d *Decision) {
	problem := func(text, next string) {
		d.Problem, d.Readiness, d.Next = text, ConfiguredOnly, next
	}
	if d.Spec.Key == "" && !d.Entry.Copy {
		problem("no placeholder can stand for this file", `write materialize = "copy" in its table to copy it into the cell`)
		return
	}
	if d.Entry.Copy && d.Target == "" && d.Spec.Login == nil {
		problem("it has no file to copy", `leave materialize = "copy" out: the cell gets a placeholder`)
		return
	}
	if d.Entry.Resolver != "" {
		h.lookResolver(d, problem)
		return
	}
	if _, isFile := d.Entry.Path(); !isFile && d.Spec.Login != nil && d.Spec.Variable == "" {
		problem("a login is a file", "give its path, or use a resolver")
		return
	}
	d.Readiness = Ready
	name, isFile := d.Entry.Path()
	if !isFile {
		s, err := credential.ParseSource(d.Entry.Source)
		if err != nil {
			problem(err.Error(), "forkcell auth set writes a correct one")
			return
		}
		d.Source = s.String()
		if variable, ok := strings.CutPrefix(d.Entry.Source, "env:"); ok && !h.has(variable) {
			problem("the variable "+quote.Arg(variable)+" is not set", "export it, or set another source")
		}
		return
	}
	d.Source = quote.Path(name)
	if why := h.whyUnreadable(name); why != "" {
		problem(why, "make it a private file of yours, outside the workspace: chmod 600 "+quote.Arg(name))
	}
}

// LoginFile returns the file of a resolver below the home; "" if the login cannot be
// read on this system.
func LoginFile(resolver string) string {
	switch resolver {
	case "codex-home-auth-file":
		return ".codex/auth.json"
	case "claude-home-credentials-file":
		return ".claude/.credentials.json"
	case "gemini-home-oauth-file":
		return ".gemini/oauth_creds.json"
	case "opencode-home-auth-file":
		return ".local/share/opencode/auth.json"
	}
	return ""
}

func (h Host) lookResolver(d *Decision, problem func(text, next string)) {
	rel := LoginFile(d.Entry.Resolver)
	if rel == "" || h.Home == "" {
		problem("the resolver "+d.Entry.Resolver+" needs a keychain that this system does not have", "use claude-home-credentials-file")
		return
	}
	full := path.Join(h.Home, rel)
	d.Readiness, d.Source = HostSource, quote.Path(full)
	if why := h.whyUnreadable(full); why != "" {
		problem(why, "log in on the host first")
	}
}

// whyUnreadable returns why a file cannot be the source of a secret; "" if it can.
func (h Host) whyUnreadable(name string) string {
	f, err := injection.OpenSecret(name, h.Workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return quote.Path(name) + " does not exist"
	}
	if err != nil {
		return err.Error()
	}
	_ = f.Close() // nothing was written
	return ""
}
