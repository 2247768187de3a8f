package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// checkpoint is the first step of a run. It resolves the request, seals changes made
// outside of runs, records the run, and opens a writable generation.
func (s *heldCell) checkpoint(ctx context.Context, req runRequest) (*run, error) {
	wanted, err := s.e.spec(s.Record, req)
	if err != nil {
		return nil, err
	}
	hash, added, err := s.e.keepPolicy(wanted.policy)
	if err != nil {
		return nil, api.Failf(api.CodePolicy, err, "keep the policy")
	}
	r := &run{heldCell: s, runPlan: runPlan{
		driver: wanted.driver, spec: wanted.spec, policy: wanted.policy, areas: wanted.areas, masks: wanted.masks, grants: wanted.grants.usedGrants(),
		limitOutput: outputLimit(wanted.policy.Limits.Output, req.OutputLimit),
	}}
	r.degraded = slices.Concat(wanted.notes, req.degraded)
	if s.e.Caller.Budget != nil {
		if s.Budget, err = s.e.Caller.Begin(ctx); err != nil {
			return nil, err
		}
	}
	network := req.network()
	if network.known, err = s.knownTo(req); err != nil {
		return nil, err
	}
	opened := r.openGate(ctx, hash, network)
	defer func() { _, _ = opened() }() // on every path, wait until credentials are no longer read
	if req.CheckpointName != "" {
		if err := home.CheckName("checkpoint", req.CheckpointName); err != nil {
			return nil, err
		}
	}
	if err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	if err := s.Squash(ctx); err != nil {
		return nil, home.StateError(s.Head, err)
	}
	if err := r.addCache(ctx, req); err != nil {
		return nil, err
	}
	if err := r.maskControl(ctx, req.Control); err != nil {
		return nil, err
	}
	r.before, r.after = s.Head, s.Head
	r.rec = store.Run{
		ID: cmp.Or(req.RunID, store.NewID("run")), CellID: s.Record.ID, State: "running", Decision: pending, Before: s.Head.ID, After: s.Head.ID,
		Command: home.Recordable(req.command()), EnvNames: envNames(r.spec.Env), Workdir: quote.Line(r.spec.Workdir),
		ReadOnly: quote.AllUTF8(r.spec.ReadOnly), TimeoutUS: r.spec.Timeout.Microseconds(), Policy: hash, PolicyBytes: added, Ceiling: wanted.ceiling,
		Given: s.e.givenGrants(req, wanted.grants.usedGrants()), Starter: s.e.Caller.ID,
		RestoreOnFail: req.RestoreOnFail, AcceptOnSuccess: req.AcceptOnSuccess,
		Actor: s.e.Caller.Actor(), StartedAt: s.e.Now().UTC(), Runtime: wanted.runtime,
		Memory: r.spec.Limits.Memory, CPUsMilli: r.spec.Limits.CPUsMilli, Resumed: req.resumed,
	}
	if s.e.Caller.Loan != "" {
		r.rec.Loan = &store.Loan{ID: s.e.Caller.Loan, Bytes: s.e.Caller.LoanBytes}
	}
	if req.origin != nil {
		if r.rec.Branch, err = json.Marshal(req.origin.Branch); err != nil {
			return nil, err
		}
	}
	if req.turns != nil {
		if r.rec.Turns, err = json.Marshal(req.turns); err != nil {
			return nil, err
		}
	}
	if r.rec.Control, err = r.control.record(); err != nil {
		return nil, err
	}
	if req.session != nil {
		if r.rec.Session, err = json.Marshal(receipt.Session(*req.session)); err != nil {
			return nil, err
		}
	}
	// If this process dies, the one that finishes the run has only this record.
	captured, _ := needsGate(r.policy, network)
	if r.rec.Asked, err = r.receiptRequest(captured, req.Network.Resolve); err != nil {
		return nil, err
	}
	if req.CheckpointName != "" {
		if err := s.e.Store.Update(func(tx *store.Tx) error { return s.Name(tx, req.CheckpointName) }); err != nil {
			return nil, err
		}
	}
	if err := s.e.Store.Note(func(tx *store.Tx) error { return tx.PutRun(r.rec) }); err != nil {
		return nil, fmt.Errorf("record the run: %w", err)
	}
	failpoint.Hit("run.recorded")
	if err := r.prepare(ctx, opened, req.Network.Resolve); err != nil {
		return nil, errors.Join(err, r.discard())
	}
	return r, nil
}

// prepare opens the generation and completes the specification for the driver.
func (r *run) prepare(ctx context.Context, opened func() (*gate, error), granted []string) (err error) {
	at := r.At
	at.Areas = r.areas
	if r.control != nil {
		at.StandIns = r.control.standIns
	}
	if r.work, err = r.e.Workspace.Begin(ctx, at, r.before.Layer, r.rec.ID); err != nil {
		return areaError(home.StateError(r.before, fmt.Errorf("prepare the workspace: %w", err)))
	}
	r.spec.ID, r.spec.Mounts = r.rec.ID, r.mounts(r.work)
	r.noteMasked()
	r.control.add(&r.spec.Mounts)
	r.spec.Mounts.Masks = append(r.spec.Mounts.Masks, r.masks...)
	r.spec.Started = r.recordStart
	if err := r.openJournal(); err != nil {
		return err
	}
	env := r.spec.Env
	gate, err := opened()
	if err != nil {
		return err
	}
	if err := r.keysOutside(gate); err != nil {
		return err
	}
	if err := r.recordKnown(gate); err != nil {
		return err
	}
	r.connect(gate, granted)
	r.out = newOutput(r.e.Store, env, r.limitOutput, r.credentials())
	failpoint.Hit("run.prepared")
	return nil
}

// knownTo returns what the earlier runs of a session told its programs of credentials.
// A rewind keeps the agent's conversation, which may have it.
func (s *heldCell) knownTo(req runRequest) (known string, err error) {
	if req.session == nil {
		return "", nil
	}
	err = s.e.Store.View(func(tx *store.Tx) error {
		runs, err := tx.Runs(s.Record.ID)
		for _, r := range runs {
			known = cmp.Or(r.Known, known)
		}
		return err
	})
	return known, err
}

// recordKnown records what the programs of a session know of its credentials.
func (r *run) recordKnown(g *gate) (err error) {
	if g == nil || r.rec.Session == nil {
		return nil
	}
	if r.rec.Known, err = g.Known(); err != nil || r.rec.Known == "" {
		return err
	}
	return r.e.Store.Note(func(tx *store.Tx) error { return tx.PutRun(r.rec) })
}

// mounts returns the mounts of a generation, as far as the policy shows them.
func (r *run) mounts(w *workspace.Work) mount.Set {
	if r.policy.Filesystem.IncludeWorkdir {
		return w.Mounts()
	}
	return withoutMount(w.Mounts(), r.Record.MountAt)
}

// discard undoes a run whose first process was never started.
func (r *run) discard() error {
	var err error
	if r.work != nil {
		err = r.work.Discard()
	}
	if r.out != nil {
		r.out.discard()
	}
	return errors.Join(err, r.dropJournal(), r.e.Store.Update(func(tx *store.Tx) error { return tx.DropRun(r.rec.ID) }))
}
