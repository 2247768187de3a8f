package session

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Request is a request for a session, before anything about it is decided.
type Request struct {
	Agent string
	// Place is what the session works on.
	Place          Workspace
	Mode, Autonomy string
	// Arguments are for the agent. For one without a program they begin with it.
	Arguments []string
	Allow     Allowances
	// Acknowledged maps what was acknowledged to the date that was given.
	Acknowledged map[string]string
	// Turns says when turns are taken.
	Turns string
	// KeepHome begins with the home of the cell.
	KeepHome bool
	// OnTop begins with the undecided work of the cell.
	OnTop bool
	// Injection is the file of the injection policy; "" is the default one.
	Injection string
	// Earlier are the terms of the session that is resumed; nil for a new one.
	Earlier *api.SessionTerms
	Options api.RunOptions
	Now     time.Time
	// Bounds are those of a caller who is not the operator; nil for the operator.
	Bounds *Bounds
}

// Bounds says how much of the host the operator lets another caller use.
type Bounds struct {
	// Agents are those whose programs and endpoints the caller may use.
	Agents []string
	// Credential reports whether the caller may use a credential of the injection
	// policy, by its key.
	Credential func(key string) bool
	// Packages lets the caller have package managers run as root in the cell.
	Packages bool
}

// Prepared is a session that was decided about.
type Prepared struct {
	Plan *Plan
	// Options are those of the request, without the credentials of the agent.
	Options api.RunOptions
	// PathDirs are directories that the program expects on PATH.
	PathDirs []string
	// Pins are addresses of registries for the options.
	Pins []string
}

// Prepare decides everything about a session, and starts nothing.
func (h Host) Prepare(w Request) (*Prepared, error) {
	entry, err := h.Find(w.Agent)
	if err != nil {
		return nil, err
	}
	if err := w.Bounds.mayStart(entry.Adapter); err != nil {
		return nil, err
	}
	q := Facts{
		Adapter: entry, Workspace: w.Place.Root, Directory: cmp.Or(string(w.Options.Workdir), w.Place.Below), Mode: w.Mode, Autonomy: w.Autonomy,
		Arguments: w.Arguments, Allow: w.Allow, Acknowledged: w.Acknowledged, Now: w.Now, Cache: w.Options.Cache, KeptHome: w.KeepHome, OnTop: w.OnTop, Turns: w.Turns, Earlier: w.Earlier,
		Degraded: w.Options.AllowDegraded, Masks: true, Limits: defaultLimits(w), Unrestricted: w.Options.Network.Unrestricted,
	}
	p := &Prepared{Options: w.Options}
	if err := h.program(&q); err != nil {
		return nil, err
	}
	p.PathDirs = q.Installation.PathDirs
	if file := w.Options.Policy; file != nil {
		if q.Extra, err = policy.Parse(string(file.Name), file.Text, policy.Options{}); err != nil {
			return nil, caller.PolicyError(err)
		}
	}
	if err := q.planPackages(w); err != nil {
		return nil, err
	}
	if q.Mode == Development || q.Mode == Build {
		if q.Development, p.Pins, err = h.development(q.Packages); err != nil {
			return nil, err
		}
	}
	if p.Options.Network.Credentials, err = h.useCredentials(&q, w); err != nil {
		return nil, err
	}
	p.Plan, err = Make(q)
	return p, err
}

// mayStart refuses an agent of the operator's host that the caller may not use. An agent
// without a program and without endpoints uses nothing of the host.
func (b *Bounds) mayStart(a *adapter.Adapter) error {
	if b == nil || slices.Contains(b.Agents, a.Name) || len(a.Program.Names) == 0 && len(a.Policy.Hosts()) == 0 {
		return nil
	}
	return api.Refusef(api.CodeForbidden, "the operator allows it with `forkcell serve --allow-agent "+a.Name+"`", "the caller may not start the agent %s of this host", a.Name)
}

// Limits of a session without others. Those on memory, processes and disk are Workcell's.
// Memory and processes are limited where the host can enforce that. The disk is looked at
// now and then, because no kernel enforces a limit for a directory.
const (
	strictDisk   = 60 << 30
	otherDisk    = 80 << 30
	strictMemory = 6 << 30
	otherMemory  = 8 << 30
	sessionPIDs  = 1024
	sessionTime  = 7 * 24 * time.Hour
)

// defaultLimits returns the limits of a session that was given none.
func defaultLimits(w Request) policy.Limits {
	l := policy.Limits{Memory: otherMemory, PIDs: sessionPIDs, WallTime: sessionTime, Disk: otherDisk}
	if w.Mode == Strict {
		l.Memory, l.Disk = strictMemory, strictDisk
	}
	if w.Options.Memory != 0 {
		l.Memory = 0 // the option sets it
	}
	if w.Options.PIDs != 0 {
		l.PIDs = 0
	}
	if w.Options.Timeout != 0 {
		l.WallTime = 0
	}
	return l
}

// program finds the program: the agent's, or the first of the arguments.
func (h Host) program(q *Facts) (err error) {
	a := q.Adapter.Adapter
	if len(a.Program.Names) > 0 && !q.Allow.ArbitraryCommand {
		q.Installation, err = a.Find(h.search())
	} else {
		if len(q.Arguments) == 0 {
			return api.Usagef("write: forkcell agent "+a.Name+" -- PROGRAM [ARG]...", "agent %s: no program after --", a.Name)
		}
		q.Installation, err = h.command(a, q.Arguments[0])
		q.Arguments = q.Arguments[1:]
	}
	if err != nil {
		return notUsable(a, err)
	}
	if in := q.Installation; len(a.Program.Names) > 0 && strings.HasPrefix(in.Program, q.Workspace+"/") {
		return api.Refusef(api.CodeAgent, "install it outside of the workspace", "agent %s: its program %s is part of the workspace, which is not trusted", a.Name, quote.Path(in.Program))
	}
	return nil
}

// command finds a program that the caller names. A caller of a daemon names one that
// the cell has: the host's other programs are not shown.
func (h Host) command(a *adapter.Adapter, name string) (*adapter.Installation, error) {
	inCell := &adapter.Installation{Program: name, Command: []string{name}, Show: []string{}}
	if h.Served {
		return inCell, nil
	}
	in, err := a.FindCommand(h.search(), name)
	if errors.Is(err, adapter.ErrNotInstalled) && strings.Contains(name, "/") || err != nil && os.IsNotExist(err) {
		return inCell, nil // it may be in the workspace only
	}
	return in, err
}

// useCredentials decides which credentials the session uses: those of the options, else
// those of the injection policy, else those of the environment. It returns the options'
// other credentials.
func (h Host) useCredentials(q *Facts, w Request) (others []string, err error) {
	decisions, named, others, err := h.readGiven(q.Adapter.Adapter, w.Options.Network.Credentials)
	if err != nil {
		return nil, err
	}
	p, err := h.Injection(w.Injection, q.Workspace)
	if err != nil {
		return nil, err
	}
	if p != nil {
		q.InjectionPolicy = injectionHash(p)
	}
	request := h.Credentials(q.Adapter.Adapter, q.Mode, p, q.Workspace)
	switch configured := w.Bounds.bound(h.markUnserved(credentials.Decide(request))); {
	case len(named) > 0:
		if configured, err = chosenCredentials(configured, named); err != nil {
			return nil, err
		}
		decisions = append(decisions, configured...)
	case len(decisions) == 0:
		decisions = configured
	}
	if q.Grant, err = credentials.NewGrant(decisions, request.Host); err != nil {
		return nil, err
	}
	if err := w.Bounds.inject(q, p, request.Host); err != nil {
		return nil, err
	}
	for _, d := range decisions {
		if d.Selected {
			q.Credentials = append(q.Credentials, Credential{Key: d.Credential, How: d.How, Source: d.Source + q.Grant.Notes[d.Credential]})
		}
	}
	for _, c := range q.Grant.Copies() {
		q.Credentials = append(q.Credentials, Credential{Key: c.Key, How: credentials.Copy, Source: c.Source})
	}
	return others, nil
}

// FromRequest is the source of a credential that a caller of a daemon brings along.
const FromRequest = "the request"

// readGiven reads credentials as NAME=SOURCE. Of those of the agent it returns decisions,
// and of those that a caller of a daemon only names, the names.
func (h Host) readGiven(a *adapter.Adapter, list []string) (decisions []credentials.Decision, named, others []string, err error) {
	for _, text := range list {
		key, source, _ := strings.Cut(text, "=")
		c, known := a.Credential(key)
		switch {
		case known && source == "" && h.Served:
			named = append(named, key)
			continue
		case !known || source == "":
			others = append(others, text)
			continue
		}
		d, err := credentials.DecideGiven(c, source)
		if err != nil {
			return nil, nil, nil, err
		}
		if h.Served {
			d.Source = FromRequest
		}
		decisions = append(decisions, d)
	}
	return decisions, named, others, nil
}

// markUnserved marks credentials of the injection policy that a daemon does not use for its
// callers: a variable or a command would be the daemon's.
func (h Host) markUnserved(list []credentials.Decision) []credentials.Decision {
	for i := range list {
		d := &list[i]
		if _, isFile := d.Entry.Path(); h.Served && d.Selected && !isFile && d.Entry.Resolver == "" {
			d.Problem, d.Readiness, d.Next = "a daemon reads no variable and runs no command for its callers", credentials.ConfiguredOnly, "give the credential a file: `forkcell auth set --source PATH`"
		}
	}
	return list
}

// bound leaves out credentials that the caller may not use, and marks those that it
// could read.
func (b *Bounds) bound(list []credentials.Decision) []credentials.Decision {
	for i := range list {
		d := &list[i]
		switch {
		case b == nil || !d.Selected:
		case !b.Credential(d.Credential):
			d.Selected, d.How, d.Reason = false, "", "the caller may not use it"
		case d.How == credentials.Copy:
			d.Problem, d.Next = "it is copied into the cell, where the caller could read it", "configure it without materialize"
		}
	}
	return list
}

// chosenCredentials returns the credentials of these keys, which must be configured.
func chosenCredentials(list []credentials.Decision, keys []string) (out []credentials.Decision, err error) {
	for _, d := range list {
		if !slices.Contains(keys, d.Credential) {
			continue
		}
		if !d.Selected {
			return nil, api.Refusef(api.CodeCredential, d.Next, "the credential %s cannot be used: %s", d.Credential, d.Reason)
		}
		out = append(out, d)
	}
	return out, nil
}

// inject adds what the injection policy has besides credentials. Files and ssh keys of the
// operator are not for other callers, and neither are its endpoints; what it denies holds
// for all.
func (b *Bounds) inject(q *Facts, p *injection.Policy, h credentials.Host) error {
	if p == nil {
		return nil
	}
	q.Endpoints = p.Network
	if b != nil {
		q.Endpoints.Allow = nil
		return nil
	}
	return q.Grant.Inject(p, q.Adapter.Adapter.Name, q.Mode, h)
}
