package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// This file finds the supervisor of a live cell. Supervise implements it.

// Launcher starts the process that will call Supervise, sends it the request, and
// returns its answer. The process ends unless it learns that the answer has
// arrived. When ctx ends before that, nothing is left.
type Launcher interface {
	Launch(ctx context.Context, request []byte) (answer []byte, err error)
}

// Start makes a cell live. It returns when the cell can be used; the cell
// outlives this process.
func (e *Engine) Start(ctx context.Context, req api.StartRequest) (*api.StartResult, error) {
	c, err := e.FindCell(req.Cell)
	if err == nil {
		// The supervisor does not know this caller.
		err = errors.Join(e.MayRunIn(c), e.CheckRevision(c))
	}
	if err == nil {
		e, err = e.withOwn(c, req.Policy)
	}
	if err != nil {
		return nil, err
	}
	req.RunOptions = e.addPins(c, req.RunOptions)
	if err := checkWarm(req.Warm, cmp.Or(req.Runtime, c.Runtime)); err != nil {
		return nil, err
	}
	if err := errors.Join(checkControl(req), checkTurns(req), checkPackages(req), e.checkUnrestricted(req)); err != nil {
		return nil, err
	}
	// The caller's environment is read here: the supervisor has another one.
	p, err := e.policyOf(c, startRun(req, nil))
	if err != nil {
		return nil, err
	}
	// So are credentials: their sources name the caller's variables and files.
	values, err := e.readValues(ctx, p, networkRequest{NetworkRequest: req.Network})
	if err != nil {
		return nil, err
	}
	raw := values.HandOver()
	defer wipe(raw)
	// The supervisor cannot read the sources of secrets.
	req.Network.Credentials, req.Network.CredentialsFile = nil, ""
	order := e.startOrder(p)
	order.Request, order.Secrets = req, raw
	answer, err := e.launch(ctx, order, c.Name)
	if err != nil {
		return nil, err
	}
	res, err := supervise.DecodeAnswer(answer)
	if err == nil {
		res.MountAt = c.MountAt
	}
	return res, err
}

// launch starts a supervisor, and returns its answer. of is what it supervises.
func (e *Engine) launch(ctx context.Context, order supervise.StartOrder, of string) ([]byte, error) {
	if e.Caller.Budget != nil {
		budget, err := e.Caller.Begin(ctx)
		if err != nil {
			return nil, err
		}
		defer budget.Close() // then the runs are recorded, with what was lent to them
		left := max(0, budget.Left()/2)
		if err := budget.Use(left); err != nil {
			return nil, err
		}
		order.DiskLeft, order.Loan = &left, store.NewID("op")
	}
	data, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	defer clear(data) // it has secrets
	answer, err := e.launcher.Launch(ctx, data)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, api.Failf(api.CodeSupervisor, err, "start the supervisor of %s", of)
	}
	return answer, nil
}

// startOrder returns an order to a supervisor with what it must know of the caller.
func (e *Engine) startOrder(p *policy.Policy) supervise.StartOrder {
	o := supervise.StartOrder{
		Home: api.Text(e.Path), Actor: e.Caller.Actor(), UserHome: api.Text(e.Caller.Home), Dir: api.Text(e.Caller.Dir), Env: e.Caller.InheritedVariables(p), Ceiling: e.Caller.Ceiling, Caller: e.Caller.ID, Bounded: e.isBounded(),
	}
	git := e.Caller.GitUser()
	o.GitName, o.GitEmail = api.Text(git.Name), api.Text(git.Email)
	if path, ok := e.Caller.LookupEnv("PATH"); ok {
		o.Env = append(o.Env, "PATH="+path)
	}
	return o
}

// OrderCaller returns the caller in an order to a supervisor.
func OrderCaller(o supervise.StartOrder) caller.Caller {
	who := caller.Caller{
		Actor: func() string { return o.Actor }, Git: func() caller.GitUser { return caller.GitUser{Name: string(o.GitName), Email: string(o.GitEmail)} },
		Env: o.Env, Home: string(o.UserHome), Dir: string(o.Dir), Ceiling: o.Ceiling, ID: o.Caller, MayGive: giving(o.Bounded),
	}
	if o.DiskLeft != nil {
		who.Loan, who.LoanBytes = o.Loan, *o.DiskLeft
		who.Budget = caller.SharedBudget(*o.DiskLeft)
	}
	return who
}

// Processes lists the processes of a live cell. Like every reading verb it finishes
// no work.
func (e *Engine) Processes(ctx context.Context, cell string) ([]api.ProcessInfo, error) {
	client, c, err := e.FindLive(cell)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, e.notRunning(c)
	}
	return client.Processes(ctx)
}

// DialLive finds the supervisor of a cell. If the supervisor was killed, it
// finishes its run and returns an error; the caller can then start the cell again.
func (e *Engine) DialLive(ctx context.Context, cell string) (*supervise.Client, error) {
	client, c, err := e.FindLive(cell)
	if err == nil {
		err = errors.Join(e.MayRunIn(c), e.CheckRevision(c))
	}
	if err != nil || client != nil {
		return client, err
	}
	run, err := e.SettleDead(ctx, c)
	if err == nil && run != "" {
		c, err = e.FindCell(c.Name) // it may be paused now
	}
	if err != nil {
		return nil, err
	}
	return nil, notStarted(c, run)
}

// FindLive finds a cell and its supervisor; the client is nil if it has none.
func (e *Engine) FindLive(cell string) (*supervise.Client, store.Cell, error) {
	if c, ok := e.findByLock(cell); ok {
		return e.Client(c), c, nil
	}
	if err := e.openLate(); err != nil {
		return nil, store.Cell{}, err
	}
	c, err := e.FindCell(cell)
	if err != nil {
		return nil, c, err
	}
	if _, ok := e.Supervisor(c); !ok {
		return nil, c, nil
	}
	return e.Client(c), c, nil
}

// findByLock finds a live cell by the locks of the live cells: opening the database
// takes as long as executing a command.
func (e *Engine) findByLock(name string) (store.Cell, bool) {
	if e.late == nil {
		return store.Cell{}, false
	}
	dir, err := e.Store.Dir().OpenDir(home.SocketDir)
	if err != nil {
		return store.Cell{}, false
	}
	defer dir.Close()
	ids, err := dir.Names()
	if err != nil {
		return store.Cell{}, false
	}
	for _, id := range ids {
		c := store.Cell{ID: id, Name: name}
		if h, ok := e.Supervisor(c); ok && h.Cell == name {
			return c, true
		}
	}
	return store.Cell{}, false
}

// openLate opens the database and the workspaces of the home.
func (e *Engine) openLate() (err error) {
	if e.late == nil {
		return nil
	}
	e.Workspace, err = e.late()
	e.late, e.Evidence = nil, e.Evidence.With(e.Workspace)
	return err
}

// notStarted returns the error for a cell that is not live. run is the run that was
// finished just now, or "".
func notStarted(c store.Cell, run string) error {
	if c.Paused != nil {
		return home.PausedCell(c.Name)
	}
	hint := "`forkcell start " + c.Name + "` starts it"
	if run != "" {
		return api.Refusef(api.CodeNotStarted, hint, "cell %s is not started: the process of its run %s has died, and the run is finished as interrupted", c.Name, run)
	}
	return api.Refusef(api.CodeNotStarted, hint, "cell %s is not started", c.Name)
}

// notRunning returns the error for a reading verb about a cell that is not live.
func (e *Engine) notRunning(c store.Cell) error {
	run, err := e.AbandonedWork(c.ID)
	if err != nil {
		return err
	}
	if run != "" {
		return api.Refusef(api.CodeNotStarted, "`forkcell start "+c.Name+"` finishes it and starts the cell again",
			"cell %s is not started: the process of its run %s has died, and the run is unfinished", c.Name, run)
	}
	return notStarted(c, "")
}

// SettleDead finishes the run that a dead process left in a cell, and returns its
// id. It is "" if there is no such run, or the cell is in use.
func (e *Engine) SettleDead(ctx context.Context, c store.Cell) (run string, err error) {
	if e.Store == nil || e.Store.ReadOnly() {
		return "", nil
	}
	if _, busy := e.Store.CellHolder(c.ID); busy {
		return "", nil
	}
	err = e.Store.View(func(tx *store.Tx) error {
		runs, err := tx.UnfinishedRuns(c.ID)
		if err == nil && len(runs) > 0 {
			run = runs[len(runs)-1].ID
		}
		return err
	})
	if err != nil || run == "" {
		return "", err
	}
	s, err := e.hold(ctx, c.Name, "finish", 0)
	if api.KindOf(err) == api.Busy {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	s.Release()
	return run, nil
}
