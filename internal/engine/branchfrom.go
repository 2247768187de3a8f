package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/moments"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// savedRun describes the run that saved memory belongs to.
type savedRun struct {
	Cell  string    `json:"cell"`
	RunID string    `json:"run_id"`
	At    time.Time `json:"at"`
	// Options are those that the run was started with, without credentials, and
	// Ceiling is its policy, which branches cannot exceed.
	Options api.RunOptions `json:"options"`
	Ceiling []byte         `json:"ceiling"`
}

// readFor reads it for a caller. Grants of the operator's configuration are none for a
// caller who may not give them.
func (r *savedRun) readFor(e *Engine, image moments.Image) (*policy.Policy, error) {
	p, err := r.read(image)
	if !e.Caller.Gives(optionGrant) {
		r.Options.Grants.ConfigFile = ""
	}
	return p, err
}

// read reads it from an image, and parses the policy in it.
func (r *savedRun) read(image moments.Image) (*policy.Policy, error) {
	data, err := image.Read(moments.Run)
	if err != nil {
		return nil, err
	}
	var found *policy.Policy
	if err = json.Unmarshal(data, r); err == nil {
		found, err = policy.Parse("the policy of "+r.Cell, r.Ceiling, policy.Options{})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %q cannot be read: %w", moments.ErrDamaged, moments.Run, err)
	}
	return found, nil
}

// savedMoment is a checkpoint with memory.
type savedMoment struct {
	savedRun
	at     store.Checkpoint
	image  moments.Image
	policy *policy.Policy
}

// savedMoment finds a checkpoint with memory. It is not verified yet.
func (e *Engine) savedMoment(c store.Cell, ref string) (m savedMoment, err error) {
	err = e.Store.View(func(tx *store.Tx) error {
		m.at, err = e.FindCheckpoint(tx, c, ref)
		return err
	})
	if err != nil {
		return m, err
	}
	if err := e.mayRead(c, m.at); err != nil {
		return m, err
	}
	if m.at.Memory == "" {
		return m, api.Refusef(api.CodeNoMemory, "the memory of a live cell is kept if forkcell checkpoint is told to", "checkpoint %s has no memory", m.at.ID)
	}
	if err := home.CheckUsable(m.at); err != nil {
		return m, err
	}
	m.image = e.Images().Image(m.at.ID)
	if m.policy, err = m.readFor(e, m.image); err != nil {
		return m, home.MemoryError(m.at.ID, err)
	}
	return m, nil
}

// mayRead refuses memory of a cell that the caller may not know of. A fork has the files
// of such a cell in its history, but never had its memory.
func (e *Engine) mayRead(c store.Cell, at store.Checkpoint) error {
	if at.CellID == c.ID || e.Caller.Sees == nil {
		return nil
	}
	return e.Store.View(func(tx *store.Tx) error {
		other, err := tx.CellByID(at.CellID)
		if err == nil && !e.Caller.MaySee(other.LastName) {
			err = api.Refusef(api.CodeForbidden, "the memory of checkpoints of "+c.Name+" can be used", "checkpoint %s is not one that cell %s has made", at.ID, c.Name)
		}
		return err
	})
}

// verify checks every byte of the memory, and that the signed log has the same digest of
// it as the database.
func (m savedMoment) verify(ctx context.Context, e *Engine) error {
	if err := m.image.Verify(ctx, m.at.Memory); err != nil {
		return home.MemoryError(m.at.ID, err)
	}
	unsigned, err := e.unsignedStates()
	if err != nil {
		return err
	}
	if found := unsigned[m.at.ID]; len(found) > 0 {
		return home.MemoryError(m.at.ID, fmt.Errorf("%w: %s", moments.ErrDamaged, found[0]))
	}
	return nil
}

// branchFrom makes live cells with the memory of a checkpoint, all or none, of a cell that
// has a revision; nil is any. A new process supervises them.
func (e *Engine) branchFrom(ctx context.Context, req api.BranchRequest, expect *int64) (*api.BranchResult, error) {
	if err := e.openLate(); err != nil {
		return nil, err
	}
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return nil, err
	}
	if err := e.mayBranch(c, req); err != nil {
		return nil, err
	}
	m, err := e.savedMoment(c, req.From)
	if err != nil {
		return nil, err
	}
	next := m.policy
	if req.Policy != nil {
		if next, err = e.Caller.ParsePolicy(*req.Policy); err != nil {
			return nil, err
		}
	}
	grant := api.NetworkRequest{Credentials: req.Credentials, CredentialsFile: req.CredentialsFile}
	values, err := e.readValues(ctx, next, networkRequest{NetworkRequest: grant})
	if err != nil {
		return nil, err
	}
	raw := values.HandOver()
	defer wipe(raw)
	req.Credentials, req.CredentialsFile, req.From = nil, "", m.at.ID
	order := e.startOrder(next)
	order.Branch = &supervise.BranchOrder{
		ID: store.NewID("op"), Request: req, Actor: e.Caller.Actor(), Caller: e.Caller.ID, Bounded: e.isBounded(), RequestID: e.Caller.Request, Expect: expect, Ceiling: e.Caller.Ceiling, Secrets: raw,
	}
	answer, err := e.launch(ctx, order, "branches of "+c.Name)
	if err != nil {
		return nil, err
	}
	return supervise.DecodeBranched(answer)
}

// SuperviseBranches makes branches of a checkpoint, and serves them until the last has
// ended. It calls ready when they can be used; if ready fails, none is left.
func (e *Engine) SuperviseBranches(ctx context.Context, order supervise.StartOrder, ready func(*api.BranchResult) error) error {
	o := *order.Branch
	defer wipe(o.Secrets)
	if err := home.Explain(e.Store.RefuseFull()); err != nil {
		return err
	}
	c, err := e.FindCell(o.Request.Cell)
	if err != nil {
		return err
	}
	names, err := e.branchNames(c.Name, o.Request)
	if err != nil {
		return err
	}
	m, err := e.savedMoment(c, o.Request.From)
	if err == nil {
		err = m.verify(ctx, e)
	}
	if err != nil {
		return err
	}
	b := newBranching(c.Name, o)
	b.branches = new(sync.WaitGroup)
	b.adopt = func(l *liveRun) { b.branches.Go(func() { l.serveBranch(ctx) }) }
	if b.e, err = e.engineFor(c.Name, m.policy, o); err != nil {
		return err
	}
	b.capture = func(context.Context) error { return b.take(m, o.Request) }
	b.confirm = func() error { return ready(b.result()) }
	if err := b.make(ctx, names); err != nil {
		return err
	}
	for _, l := range b.children {
		b.adopt(l)
	}
	b.branches.Wait()
	return nil
}

// take makes a saved moment that of the branches.
func (b *branching) take(m savedMoment, q api.BranchRequest) error {
	origin := &branchOrigin{}
	origin.Source, origin.SourceRunID, origin.CheckpointID, origin.At = m.Cell, m.RunID, m.at.ID, m.At
	data, err := m.image.Read(moments.Network)
	if err == nil {
		var g *network.Gateway
		g, err = network.Load(data)
		origin.setGateway(g)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil // the cell had no network
	}
	if err != nil {
		return home.MemoryError(m.at.ID, err)
	}
	b.request = branchRun(m.Options, q, origin)
	b.moment = &moment{
		at: &api.CheckpointResult{Cell: m.Cell, CheckpointID: m.at.ID}, end: func() error { return nil }, perProcessor: restoresPerProcessor,
		copy: func(ctx context.Context, l *liveRun, spec driver.Spec, _ int) (driver.Cell, error) {
			c, err := l.restore(ctx, m.image, spec)
			return c, explainUnusable("the memory of checkpoint "+m.at.ID, "`forkcell fork "+q.Cell+" --checkpoint "+m.at.ID+" --name NAME` makes a cell with its files alone", err)
		},
	}
	return nil
}
