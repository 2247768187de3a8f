package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/policy/preset"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Host is the part of the operator's host that sessions use: adapters, programs and credentials.
type Host struct {
	// Config is the operator's configuration directory; "" if there is none.
	Config string
	// Home is the operator's home directory.
	Home string
	// Path is the search path of programs.
	Path string
	// Env has the operator's variables for credentials, as K=V.
	Env []string
	// Tools is the environment of the host's package tools, which are asked for their
	// registries, as K=V.
	Tools []string
	// Closed are the directories from which no tool is started: cells can have written them.
	Closed hosttool.ExcludedDirs
	// Served reports that a daemon plans the sessions. Its variables, its commands and
	// the addresses that it finds are not those of its callers.
	Served bool
}

// search returns the search path without directories that cells can have written: an
// agent's program is the operator's, not that of an earlier run.
func (h Host) search() string { return hosttool.In(h.Path, h.Closed).Path() }

// config returns the path of a file of the operator's configuration; "" if there is
// none.
func (h Host) config(name string) string {
	if h.Config == "" {
		return ""
	}
	return h.Config + "/" + name
}

// Catalogue returns the adapters that come with the program and the operator's.
func (h Host) Catalogue() adapter.Catalogue { return adapter.NewCatalogue(h.config("agents")) }

// All returns every adapter.
func (h Host) All() ([]*adapter.Entry, error) {
	list, err := h.Catalogue().All()
	if err != nil {
		return nil, api.Usagef("", "%v", err)
	}
	return list, nil
}

// Find returns the adapter of a name.
func (h Host) Find(name string) (*adapter.Entry, error) {
	e, err := h.Catalogue().Find(name)
	if errors.Is(err, adapter.ErrUnknown) {
		return nil, &api.Error{
			Kind: api.NotFound, Code: api.CodeNotFound, Message: err.Error(), Err: err,
			Hint: "`forkcell agent list` shows them, and generic runs any program",
		}
	}
	if err != nil {
		return nil, api.Usagef("", "%v", err)
	}
	return e, nil
}

// Admission returns the rules for directories of sessions.
func (h Host) Admission(nonGit bool) Admission {
	return Admission{Home: h.Home, NonGit: nonGit, StateDirs: h.Catalogue().StateDirs}
}

// injectionFile is the default name of the injection policy.
const injectionFile = "injection-policy.toml"

// Store returns the operator's injection policy, which is at the default place if file
// is "", and the adapters that it is read for.
func (h Host) Store(file string) (injection.Store, []*adapter.Entry, error) {
	list, err := h.All()
	if err != nil {
		return injection.Store{}, nil, err
	}
	store := injection.Store{Loader: injection.Loader{Names: credentials.Vocabulary(list), Home: h.Home}}
	if file == "" {
		file = h.config(injectionFile)
	}
	store.Path, err = filepath.Abs(file)
	return store, list, err
}

// Injection reads the injection policy for a session on a workspace, which may be "".
// Without a policy at the default place, which file "" means, it returns nil.
func (h Host) Injection(file, workspace string) (*injection.Policy, error) {
	if file == "" {
		// The adapters are read for a policy only, and usually there is none.
		if _, err := os.Lstat(h.config(injectionFile)); h.Config == "" || errors.Is(err, fs.ErrNotExist) {
			return nil, nil //nolint:nilnil // as documented
		}
	}
	store, _, err := h.Store(file)
	if err != nil {
		return nil, err
	}
	store.Workspace = workspace
	p, err := store.Load(store.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && file == "":
		return nil, nil //nolint:nilnil // no policy is the usual start
	case errors.Is(err, fs.ErrNotExist):
		return nil, api.Usagef("", "the injection policy %s does not exist", quote.Path(store.Path))
	}
	return p, err
}

// Credentials returns what decides about the credentials of an agent's session.
func (h Host) Credentials(a *adapter.Adapter, mode string, p *injection.Policy, workspace string) credentials.Request {
	return credentials.Request{Adapter: a, Mode: mode, Policy: p, Host: credentials.Host{Home: h.Home, Env: h.Env, Workspace: workspace}}
}

// State says whether an agent is ready on this host.
func (h Host) State(e *adapter.Entry) api.AgentState {
	a := e.Adapter
	st := api.AgentState{
		Name: a.Name, Title: a.Title, File: e.File, Tested: a.Tested.To, Place: adapter.VersionUnknown, Shown: []string{},
		Reaches: append([]string{}, a.Policy.Hosts()...), Credentials: []string{},
	}
	p, err := h.Injection("", "")
	if err != nil {
		st.Problem = err.Error()
	}
	for _, d := range h.markUnserved(credentials.Decide(h.Credentials(a, Strict, p, ""))) {
		if d.Usable() {
			st.Credentials = append(st.Credentials, d.Credential+" from "+d.Source)
		}
	}
	if len(a.Program.Names) == 0 {
		st.Installed, st.Ready = true, true
		return st
	}
	in, err := a.Find(h.search())
	if err != nil {
		st.Problem = "not installed"
		if !errors.Is(err, adapter.ErrNotInstalled) {
			st.Problem = err.Error()
		}
		return st
	}
	st.Installed, st.Program, st.Version, st.Shown = true, in.Program, in.Version, in.Show
	st.Place = a.Tested.Place(in.Version)
	st.Ready = len(st.Credentials) > 0 || len(a.Credentials) == 0
	if !st.Ready {
		st.Problem = "no credential: it can use " + strings.Join(a.Keys(), ", ")
	}
	return st
}

// development returns the policy for code hosts and registries, with system also for the
// mirrors of the system's packages. pins are addresses of the registries that the host's
// tools use.
func (h Host) development(system bool) (p *policy.Policy, pins []string, err error) {
	// Queries of the host's tools have their own time-outs.
	text, registries := preset.DevText(context.Background(), h.Tools, h.Closed, system)
	for _, r := range registries {
		if !h.Served {
			pins = append(pins, engine.RegistryPins(r.Host, r.Port, r.Addrs)...)
		}
	}
	p, err = policy.Parse("preset "+preset.Dev, text, policy.Options{})
	return p, pins, err
}

// injectionHash returns the hash of an injection policy: that of the hashes of its
// files.
func injectionHash(p *injection.Policy) string {
	sum := sha256.New()
	for _, f := range p.Sources {
		_, _ = io.WriteString(sum, f.SHA256) // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Why says which credentials a session of an agent would get in a mode.
func (h Host) Why(name, mode string) ([]api.CredentialDecision, error) {
	e, err := h.Find(name)
	if err != nil {
		return nil, err
	}
	p, err := h.Injection("", "")
	if err != nil {
		return nil, err
	}
	out := []api.CredentialDecision{}
	for _, d := range h.markUnserved(credentials.Decide(h.Credentials(e.Adapter, mode, p, ""))) {
		out = append(out, d.CredentialDecision)
	}
	return out, nil
}
