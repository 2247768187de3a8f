package session

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Start is a planned session that is to start.
type Start struct {
	Plan *Plan
	// Base is the cell that the session is a fork of; "" is that of the workspace, which
	// is made or refreshed first.
	Base string
	// Name is that of the session's cell; "" makes one from the workspace's cell and
	// the agent.
	Name string
	// KeepHome begins with the home of the base, which its earlier commands have
	// written. Else the home is empty but for the files of the agent.
	KeepHome bool
	// OnTop begins with the undecided work of the base. Else the session begins with what is
	// accepted, and the present contents of the directory.
	OnTop bool
	// Options are the operator's: limits, files shown, grants of the network.
	Options  api.RunOptions
	PathDirs []string
	// Notes is called with what a person should know.
	Notes func(string)
	// Make makes the cell of a directory that has none.
	Make Maker
}

// Maker makes a cell.
type Maker = func(ctx context.Context, r api.InitRequest) (*api.InitResult, error)

// Running is a session whose cell is live and has the agent's files. Its agent is
// executed next.
type Running struct {
	Cell     string
	RunID    string
	Degraded []string
	// Exec executes the agent. The cell ends with it.
	Exec api.ExecRequest

	resumed bool
}

// Undo takes back a session whose agent was not executed: its cell is removed, or
// stopped if the session was resumed.
func (s *Running) Undo(ctx context.Context, e Engine) error { return undo(ctx, e, s.Cell, s.resumed) }

func undo(ctx context.Context, e Engine, name string, resumed bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if !resumed {
		return e.RemoveAll(ctx, []string{name}, true)
	}
	status, err := e.Status(ctx, name)
	if err != nil || status.Live == nil {
		return err
	}
	_, err = e.Stop(ctx, api.StopRequest{Cell: name, Grace: -1})
	return err
}

// limit for what is undone after an error.
const undoLimit = time.Minute

// Leave executes the agent on a terminal of its own, and leaves it there.
func (s *Running) Leave(ctx context.Context, e Engine) error {
	q := s.Exec
	q.TTY, q.Env, q.Size = true, append(q.Env, "TERM=xterm-256color"), api.WindowSize{Rows: 40, Cols: 120}
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	defer begin() // the reader must not wait
	_, err := e.Exec(ctx, q, engine.Stdio{In: detachReader{begun}, Started: func(string) { failpoint.Hit("session.executed"); begin() }})
	return err
}

// detachReader returns ErrDetached once the command has started.
type detachReader struct{ begun chan struct{} }

func (l detachReader) Read([]byte) (int, error) {
	<-l.begun
	return 0, engine.ErrDetached
}

// Begin makes a session: it finds or makes the cell of the workspace, forks it, starts
// the fork, and writes the agent's files. After an error nothing is left but the cell
// of the workspace.
func Begin(ctx context.Context, e Engine, o Start) (*Running, error) {
	base := o.Base
	if base == "" {
		var err error
		if base, err = Base(ctx, e, o.Plan.Workspace, o.Name, o.OnTop, o.Make, o.Notes); err != nil {
			return nil, err
		}
	}
	failpoint.Hit("session.based")
	name, err := fork(ctx, e, base, o)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("session.forked")
	s, err := begin(ctx, e, name, o)
	if err != nil {
		return nil, errors.Join(err, undo(ctx, e, name, false))
	}
	return s, nil
}

func begin(ctx context.Context, e Engine, name string, o Start) (*Running, error) {
	res, err := start(ctx, e, name, o)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("session.started")
	p := o.Plan
	p.Workspace = res.MountAt
	workdir := p.directory
	if !path.IsAbs(workdir) {
		workdir = path.Join(p.Workspace, workdir)
	}
	s := &Running{Cell: name, RunID: res.RunID, Degraded: res.Degraded, Exec: api.ExecRequest{
		Cell: name, Args: p.Command, Workdir: api.Text(workdir), Detachable: true, Main: true,
	}}
	if err := seed(ctx, e, name, p); err != nil {
		return nil, err
	}
	failpoint.Hit("session.seeded")
	return s, nil
}

// busyLimit is how long a new session waits for the cell of the workspace.
const busyLimit = time.Minute

// Base returns the cell of a workspace, for a session of the given name or of none. One
// that exists gets what has changed in the directory, unless the session begins before
// its undecided work; else one is made. If the session cannot have its name, nothing
// changes.
func Base(ctx context.Context, e Engine, dir, session string, onTop bool, build Maker, notes func(string)) (string, error) {
	name, below, err := e.CellAt(ctx, dir)
	if err != nil {
		return "", api.WithHint(err, api.CodeSeveralCells, "a session forks the only one: `forkcell rm CELL` removes one that is not needed")
	}
	if err := checkName(ctx, e, session, dir, name == "" || below != "."); err != nil {
		return "", err
	}
	if name == "" || below != "." {
		res, err := build(ctx, api.InitRequest{From: dir, Runtime: api.RuntimeNative, Sole: true})
		if err == nil {
			return res.Cell, nil
		}
		// Another session of the directory may have made it meanwhile.
		if api.CodeOf(err) == api.CodeNameTaken {
			name, below, _ = e.CellAt(ctx, dir)
		}
		if name == "" || below != "." {
			return "", err
		}
	}
	if !onTop {
		status, err := e.Status(ctx, name)
		if err != nil || waits(status) {
			return name, err // the fork is refreshed
		}
	}
	return name, refresh(ctx, e, name, notes)
}

// waits reports whether a cell has undecided work, or runs: then a session begins before
// that.
func waits(status *api.StatusResult) bool {
	return len(status.PendingRuns)+len(status.PendingStates) > 0 || status.Live != nil
}

// refresh brings what has changed in the directory into a cell.
func refresh(ctx context.Context, e Engine, name string, notes func(string)) error {
	q := api.RefreshRequest{Cell: name, OnConflict: "fail"}
	res, err := e.Refresh(ctx, q)
	if api.CodeOf(err) == api.CodeBusy {
		// Another session of the directory may be starting.
		q.Wait = api.Duration(busyLimit)
		res, err = e.Refresh(ctx, q)
	}
	if err == nil && len(res.Changed) > 0 {
		notes(api.Counted(len(res.Changed), "change") + " of the directory brought into cell " + name)
	}
	return api.WithHint(err, api.CodeConflict, "`forkcell refresh "+name+" --on-conflict ours` or `theirs` settles them")
}

// checkName refuses the name of a session that a cell has, or that the cell of the
// directory will have when it is made.
func checkName(ctx context.Context, e Engine, name, dir string, isNew bool) error {
	if name == "" {
		return nil
	}
	if err := home.CheckName("session", name); err != nil {
		return err
	}
	if isNew && name == home.NameAfter(dir) {
		return api.Refusef(api.CodeNameTaken, "choose another --name", "%s is the name of the directory's own cell, which the session is a fork of", name)
	}
	_, err := e.Status(ctx, name)
	if api.CodeOf(err) == api.CodeNotFound {
		return nil
	}
	if err == nil {
		err = api.Refusef(api.CodeNameTaken, "choose another --name", "cell %s exists already", quote.Line(name))
	}
	return err
}

// maxTries bounds the search for a free name.
const maxTries = 1000

// fork forks the cell of the workspace. Without a name for the session it takes the
// first that is free.
func fork(ctx context.Context, e Engine, base string, o Start) (string, error) {
	settings := api.Settings{Labels: map[string]string{api.LabelAgent: o.Plan.Terms.Agent}}
	status, err := e.Status(ctx, base)
	if err != nil {
		return "", err
	}
	for try := 1; ; try++ {
		name := o.Name
		if name == "" {
			name = sessionName(base, o.Plan.Terms.Agent, try)
		}
		res, err := e.Fork(ctx, api.ForkRequest{Cell: base, Name: name, NewHome: !o.KeepHome, Accepted: !o.OnTop, Settings: settings})
		if err == nil {
			return name, o.settleFork(ctx, e, name, status, res)
		}
		if api.CodeOf(err) != api.CodeNameTaken || o.Name != "" || try == maxTries {
			return name, err
		}
	}
}

// settleFork says which undecided work of the base the new session has, or does not have. A
// session without it gets the present contents of the directory; after an error it is
// removed.
func (o Start) settleFork(ctx context.Context, e Engine, name string, base *api.StatusResult, res *api.ForkResult) error {
	cell := quote.Line(base.Cell)
	switch {
	case len(res.PendingRuns) > 0:
		o.Notes("the session begins with undecided work of cell " + cell + ", and accepting it accepts that, too: " + strings.Join(res.PendingRuns, ", "))
	case o.OnTop:
	case base.Live != nil:
		o.Notes("the session begins without what the live cell " + cell + " has changed; --on-top begins with it")
	case res.CheckpointID != base.Head:
		o.Notes("the session begins without the undecided work of cell " + cell + ": " +
			strings.Join(slices.Concat(base.PendingRuns, base.PendingStates), ", ") + "; --on-top begins with it")
	}
	if o.OnTop || !waits(base) {
		return nil
	}
	err := refresh(ctx, e, name, o.Notes)
	if code := api.CodeOf(err); o.Base != "" && (code == api.CodeNoSource || code == api.CodeForbidden) {
		return nil // the daemon does not have the directory, or the caller may not have it read
	}
	if err != nil {
		err = errors.Join(api.WithHint(err, api.CodeConflict, "`forkcell apply "+cell+"` writes what is accepted there; --on-top begins with the present state of the cell"), undo(ctx, e, name, false))
	}
	return err
}

// maxCellName is how long the name of a cell may be.
const maxCellName = 63

// sessionName returns a name for a session of an agent: the cell's, the agent's and,
// from the second on, a number.
func sessionName(base, agent string, try int) string {
	end := "-" + agent
	if try > 1 {
		end += "-" + strconv.Itoa(try)
	}
	return base[:min(len(base), maxCellName-len(end))] + end
}

// start makes the session's cell live.
func start(ctx context.Context, e Engine, name string, o Start) (*api.StartResult, error) {
	p := o.Plan
	q := api.StartRequest{Cell: name, RunOptions: o.Options, Session: &p.Terms}
	q.Policy, q.Control, q.Turns = p.file(), p.control, p.turns
	q.WatchDisk = p.OptionalLimits
	q.Grants.Addresses = slices.Concat(q.Grants.Addresses, p.addresses)
	if q.Network.Unrestricted {
		q.Degraded = append(q.Degraded, anyHost)
	}
	q.ReadOnly = append(slices.Clone(o.Options.ReadOnly), p.Show...)
	q.Network.Credentials = append(slices.Clone(q.Network.Credentials), p.grant.Sources...)
	q.Network.Placeholders, q.Network.Logins = p.grant.Placeholders, p.grant.Logins
	q.Network.SSH = p.ssh
	q.Env = slices.Concat(p.variables(o.PathDirs), q.Env)
	if p.packages {
		res, err := startLimited(ctx, e, withPackages(q), o)
		if api.CodeOf(err) != api.CodeBackend {
			return res, err
		}
		o.Notes(noPackagesHere)
	}
	return startLimited(ctx, e, q, o)
}

// startLimited starts the cell, without the default limits that cannot be enforced.
func startLimited(ctx context.Context, e Engine, q api.StartRequest, o Start) (*api.StartResult, error) {
	p, degraded := o.Plan, q.Degraded
	res, err := e.Start(ctx, q)
	without := func(memory int64, reason string) {
		if !p.OptionalLimits || api.CodeOf(err) != api.CodeUnenforced {
			return
		}
		other := *p.policy
		other.Limits.Memory, other.Limits.PIDs = memory, 0
		p.policy = &other
		q.Policy, q.Degraded = p.file(), append(slices.Clone(degraded), reason)
		if res, err = e.Start(ctx, q); err == nil {
			o.Notes(reason)
		}
	}
	without(p.policy.Limits.Memory, noProcessLimit)
	without(0, noLimits)
	return res, err
}

const anyHost = "the network is unrestricted: the session reaches every host, but for this one, loopback, link-local and metadata addresses"

// What is recorded where default limits cannot be enforced: the runtime gvisor counts no
// processes, and a host may have no control groups.
const (
	noProcessLimit = "the default limit on processes cannot be enforced here: the session has none"
	noLimits       = "the default limits on memory and processes cannot be enforced here: the session has none"
)

// file returns the policy as a file.
func (p *Plan) file() *api.PolicyFile {
	return &api.PolicyFile{Name: api.Text("the policy of agent " + p.Terms.Agent), Text: p.policy.Canonical()}
}

// cellPath is PATH in a cell.
const cellPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// variables returns the agent's variables as K=V, sorted.
func (p *Plan) variables(dirs []string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.Environment)) {
		out = append(out, name+"="+p.Environment[name])
	}
	if len(dirs) > 0 {
		out = append(out, "PATH="+cellPath+":"+strings.Join(dirs, ":"))
	}
	return out
}
