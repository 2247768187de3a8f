package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// Recover makes the database anew from the signed log and the layers. What does
// not verify is left out and named; the old database is set aside, not deleted.
// Log and old database are each other's witness: what only one of them knows is
// kept, and the error names it, unless the caller accepts the loss.
func (e *Engine) Recover(_ context.Context, acceptLoss bool) (*RecoverResult, error) {
	lock, err := e.store.LockHome(true)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := e.nobodyAtWork(); err != nil {
		return nil, err
	}
	res := &RecoverResult{Problems: []string{}, Kept: []string{}}
	seqs, tail, err := e.store.SeqsOnDisk()
	if err != nil {
		return nil, err
	}
	b, err := e.newRebuild(res, seqs)
	if err != nil {
		return nil, err
	}
	b.tail = tail
	if res.OldDatabase, err = e.store.ResetDatabase(); err != nil {
		return nil, fmt.Errorf("set the old database aside: %w", err)
	}
	if err := e.store.Update(func(tx *store.Tx) error { return b.restore(tx, acceptLoss) }); err != nil {
		return nil, fmt.Errorf("rebuild the database: %w", err)
	}
	if err := e.store.NameHome(b.home); err != nil {
		return nil, fmt.Errorf("write home.json: %w", err)
	}
	kept, err := e.store.SetAsidePending(func(op string) bool { return b.begun[op] })
	for _, k := range kept {
		res.Problems = append(res.Problems, "unfinished work was kept in "+k)
	}
	if err != nil {
		return res, err
	}
	journals, err := e.ws.UnendedJournals()
	for _, j := range journals {
		if !b.begun[j] {
			res.Problems = append(res.Problems, "a directory may be half written: what it held before is in applies/"+j)
		}
	}
	return res, errors.Join(err, lossError(res))
}

// restore fills an empty database: from the log, and with what only the old
// database knows.
func (b *rebuild) restore(tx *store.Tx, acceptLoss bool) error {
	if err := b.replay(tx); err != nil || acceptLoss {
		return err
	}
	if b.res.OldDatabase == "" {
		return b.keepUnknownLayers(tx)
	}
	old, err := b.e.store.ReadAside(b.res.OldDatabase)
	if err != nil || len(old.Statements) == 0 {
		return b.keepUnknownLayers(tx) // it is damaged, or was cut off
	}
	return b.keepWitnessed(tx, old)
}

// rebuild replays the log into an empty database.
type rebuild struct {
	e      *Engine
	res    *RecoverResult
	keys   *receipt.KeySet
	chain  *receipt.Chain
	seqs   []int64
	tail   []int64 // statements that may not have been committed
	strict bool    // they count only if nothing is wrong with them
	home   string  // what the log calls the home
	layers map[string]workspace.Info
	broken map[string]error // layers that do not say what they are
	seen   map[string]bool  // checkpoints
	named  map[string]bool  // layers that statements name
	begun  map[string]bool  // operations whose records were taken over, unfinished
}

// newRebuild replays the statements of the given numbers.
func (e *Engine) newRebuild(res *RecoverResult, seqs []int64) (*rebuild, error) {
	keys, err := e.keys("")
	if err != nil {
		return nil, err
	}
	infos, broken, err := e.ws.LayerInfos()
	if err != nil {
		return nil, err
	}
	for _, layer := range slices.Sorted(maps.Keys(broken)) {
		res.Problems = append(res.Problems, fmt.Sprintf("layers/%s is kept as it is: %v", layer, broken[layer]))
	}
	b := &rebuild{e: e, res: res, keys: keys, seqs: seqs, broken: broken, chain: receipt.NewChain(keys), layers: map[string]workspace.Info{}, seen: map[string]bool{}, named: map[string]bool{}, begun: map[string]bool{}}
	for _, info := range infos {
		b.layers[info.Layer] = info
	}
	return b, nil
}

func (b *rebuild) problem(format string, args ...any) {
	b.res.Problems = append(b.res.Problems, fmt.Sprintf(format, args...))
}

func (b *rebuild) replay(tx *store.Tx) error {
	next := int64(1)
	for _, seq := range b.seqs {
		for ; next < seq; next++ {
			b.problem("statement %d is missing", next)
			b.chain.Missing(fmt.Errorf("no file"))
		}
		next = seq + 1
		if err := b.statement(tx, seq); err != nil {
			return err
		}
	}
	return b.replayTail(tx, next)
}

// replayTail takes statements that may not have been committed as far as they
// are whole and follow on: nothing contradicts them.
func (b *rebuild) replayTail(tx *store.Tx, next int64) error {
	b.strict = true
	for i, seq := range b.tail {
		before := len(b.res.Problems)
		if seq != next {
			return nil
		}
		if err := b.statement(tx, seq); err != nil {
			return err
		}
		if len(b.res.Problems) > before {
			b.res.Problems = b.res.Problems[:before]
			return nil
		}
		b.e.store.Publish(b.tail[i : i+1])
		next++
	}
	return nil
}

func (b *rebuild) statement(tx *store.Tx, seq int64) error {
	raw, err := b.e.store.ReadStatement(seq)
	if err != nil {
		b.problem("statement %d cannot be read: %v", seq, err)
		b.chain.Missing(err)
		return nil
	}
	s, problems := b.chain.Next(raw)
	for _, p := range problems {
		b.problem("%s", p)
	}
	st := store.Statement{Seq: seq, Digest: receipt.Hash(raw)}
	if len(problems) > 0 && b.strict {
		return nil
	}
	if len(problems) > 0 && !b.signed(raw) {
		// Its number stays taken, so that what follows goes after it.
		st.ID, st.Kind = fmt.Sprintf("lost_%d", seq), kindLost
		return tx.IndexStatement(st)
	}
	st.CellID, b.home = s.Place().CellID, s.Place().HomeID
	if err := b.replayOne(tx, &st, s); err != nil {
		b.problem("statement %d could not be replayed: %v", seq, err)
	}
	b.res.Statements++
	return tx.IndexStatement(st)
}

// signed tells a statement that only lost its neighbours from one that cannot be
// believed.
func (b *rebuild) signed(raw []byte) bool {
	_, err := receipt.Verify(raw, b.keys)
	return err == nil
}

func (b *rebuild) replayOne(tx *store.Tx, st *store.Statement, s receipt.Statement) (err error) {
	switch p := s.Predicate.(type) {
	case *receipt.Change:
		st.ID, st.Kind = "op_"+st.Digest[:26], kindCell
		err = b.change(tx, p)
	case *receipt.Run:
		st.ID, st.Kind, st.RunID = p.ReceiptID, kindRun, p.RunID
		err = b.run(tx, p)
	case *receipt.Decision:
		st.ID, st.Kind, st.RunID = p.DecisionID, kindDecision, p.RunID
		err = b.decision(tx, p)
	case *receipt.Rotation:
		st.ID, st.Kind = keyStatementPrefix+p.NewKeyID, kindKey
	}
	return err
}

func (b *rebuild) change(tx *store.Tx, p *receipt.Change) error {
	c, err := cellFromStatement(p)
	if err != nil {
		return err
	}
	if old, err := tx.CellByID(c.ID); err == nil {
		c.CreatedAt, c.Inherited = old.CreatedAt, old.Inherited
		if p.Details[detailLive] != "" {
			c.Head = old.Head
		}
	}
	if p.Op == opFork {
		if parent, err := tx.CellByID(c.ForkedCell); err == nil {
			c.Inherited = maps.Clone(parent.Inherited)
		}
	}
	if ids := acceptedStates(p); len(ids) > 0 {
		c.Inherited = withAccepted(c.Inherited, ids)
	}
	if err := tx.PutCell(c); err != nil {
		return err
	}
	if p.Op == opInit || p.Op == opFork {
		b.res.Cells++
	}
	if err := b.otherState(tx, c.ID, p); err != nil {
		return err
	}
	own, _ := strconv.ParseInt(p.Details["own_bytes"], 10, 64)
	if err := b.checkpoint(tx, c.ID, p.Checkpoint, p.Details["checkpoint_kind"], "", p, own); err != nil {
		return err
	}
	if p.Op == opCheckpoint && p.Checkpoint.Name != "" {
		return tx.Name(c.ID, p.Checkpoint.Name, p.Checkpoint.ID)
	}
	if p.Op == opApply || p.Op == opUndo {
		return b.applied(tx, c, p)
	}
	return nil
}

func cellFromStatement(p *receipt.Change) (store.Cell, error) {
	var extra cellExtra
	if err := json.Unmarshal([]byte(p.Details["record"]), &extra); err != nil {
		return store.Cell{}, fmt.Errorf("record of cell %s: %w", p.CellID, err)
	}
	of := p.Of
	c := store.Cell{
		ID: of.ID, Name: of.Name, LastName: of.Name, Head: p.Checkpoint.ID, Applied: extra.Applied, Source: of.Source,
		SourceKind: extra.SourceKind, Backend: of.Backend, BackendReason: of.BackendReason, Runtime: of.Runtime,
		MountAt: of.MountAt, Live: extra.Live, ReadOnly: of.ReadOnly, Rules: extra.Rules, LeftOut: extra.LeftOut,
		Kept: extra.Kept, Policy: extra.Policy, CreatedAt: p.CreatedAt,
	}
	if p.Op == opRemove {
		c.Name = ""
	}
	if of.ForkedFrom != nil {
		c.ForkedCell, c.ForkedCheckpoint = of.ForkedFrom.CellID, of.ForkedFrom.Checkpoint
	}
	return c, nil
}

// otherState records the state that the source corresponds to.
func (b *rebuild) otherState(tx *store.Tx, cellID string, p *receipt.Change) error {
	text := p.Details["state"]
	if text == "" {
		return nil
	}
	var state detailedState
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return fmt.Errorf("state in a statement: %w", err)
	}
	return b.checkpoint(tx, cellID, state.Checkpoint, state.Kind, "", p, 0)
}

// applied replays an apply, or takes one back.
func (b *rebuild) applied(tx *store.Tx, c store.Cell, p *receipt.Change) error {
	if p.Details["apply_id"] == "" {
		return nil // nothing had to be written
	}
	var a store.Apply
	if err := json.Unmarshal([]byte(p.Details["apply"]), &a); err != nil {
		return fmt.Errorf("record of an apply: %w", err)
	}
	a.ID, a.CellID, a.Undone = p.Details["apply_id"], c.ID, p.Op == opUndo
	return tx.PutApply(a)
}

// checkpoint records a state, as freed where its layers are gone.
func (b *rebuild) checkpoint(tx *store.Tx, cellID string, p receipt.Checkpoint, kind, runID string, at receipt.Predicate, own int64) error {
	layer, present := b.layers[p.Layer]
	if b.broken[p.Layer] != nil {
		present = true // its files may be all there
	}
	b.named[p.Layer] = true
	if b.seen[p.ID] {
		old, err := tx.Checkpoint(p.ID)
		if err != nil || old.Layer == p.Layer || p.Layer == "" {
			return err
		}
		// A squash: same state, other layer.
		old.Layer, old.Freed, old.Areas = p.Layer, !present, b.areas(p, layer)
		return tx.PutCheckpoint(old)
	}
	b.seen[p.ID] = true
	b.res.Checkpoints++
	if !present {
		b.problem("checkpoint %s: its layer %s is gone", p.ID, p.Layer)
	}
	if own == 0 {
		own = layer.Bytes
	}
	return tx.PutCheckpoint(store.Checkpoint{
		Source: sourceOf(at, p.ID), ID: p.ID, CellID: cellID, Parent: p.Parent, Layer: p.Layer, RunID: runID, Freed: !present, Kind: kind, Areas: b.areas(p, layer),
		OwnBytes: own, CreatedAt: at.Place().CreatedAt,
	})
}

// areas are the signed roots of a state, with the figures of its layer.
func (b *rebuild) areas(p receipt.Checkpoint, layer workspace.Info) map[string]store.Area {
	areas := map[string]store.Area{}
	for name, roots := range p.Areas {
		a := store.Area{Root: roots.Root, MetaRoot: roots.MetaRoot}
		if info, ok := layer.Areas[name]; ok {
			a.Files, a.Dirs, a.Bytes = info.Files, info.Dirs, info.Bytes
			if info.Root != roots.Root {
				b.problem("layer %s does not have the signed root of %s", p.Layer, p.ID)
			}
		}
		areas[name] = a
	}
	return areas
}

// sourceOf is the state of the source that a refresh merged into this one.
func sourceOf(p receipt.Predicate, id string) string {
	change, ok := p.(*receipt.Change)
	if !ok || change.Op != opRefresh || change.Checkpoint.ID != id {
		return ""
	}
	var state detailedState
	if json.Unmarshal([]byte(change.Details["state"]), &state) != nil || state.Checkpoint.ID == id {
		return ""
	}
	return state.Checkpoint.ID
}

// lostBeginning makes up for a cell's first statement if that is lost: the cell,
// as far as a receipt knows it, and the state before the run, by its identity.
func (b *rebuild) lostBeginning(tx *store.Tx, p *receipt.Run) error {
	_, err := tx.CellByID(p.CellID)
	if errors.Is(err, store.ErrNotFound) {
		b.res.Cells++
		err = tx.PutCell(store.Cell{
			ID: p.CellID, Name: p.Cell, LastName: p.Cell, Head: p.CheckpointBefore.ID, Applied: p.CheckpointBefore.ID,
			SourceKind: sourceLost, Backend: p.Backend, BackendReason: p.BackendReason, Runtime: p.Runtime,
			MountAt: p.Workdir, CreatedAt: p.StartedAt,
		})
	}
	if err != nil || b.seen[p.CheckpointBefore.ID] {
		return err
	}
	for _, layer := range b.layers {
		a := layer.Areas[workspace.AreaWorkspace]
		if a.Root != p.CheckpointBefore.Root || a.Meta != p.CheckpointBefore.MetaRoot {
			continue
		}
		roots := map[string]receipt.Roots{}
		for name, a := range layer.Areas {
			roots[name] = receipt.Roots{Root: a.Root, MetaRoot: a.Meta}
		}
		b.problem("the statement of checkpoint %s is lost; layer %s has its contents", p.CheckpointBefore.ID, layer.Layer)
		return b.checkpoint(tx, p.CellID, receipt.Checkpoint{
			ID: p.CheckpointBefore.ID, Layer: layer.Layer, Areas: roots,
		}, "init", "", p, 0)
	}
	return nil
}

// sourceLost is the kind of source of a cell whose record is lost.
const sourceLost = "lost"

func (b *rebuild) run(tx *store.Tx, p *receipt.Run) error {
	b.res.Runs++
	if err := b.lostBeginning(tx, p); err != nil {
		return err
	}
	if p.CheckpointAfter.ID != p.CheckpointBefore.ID {
		if err := b.checkpoint(tx, p.CellID, p.CheckpointAfter, "run", p.RunID, p, 0); err != nil {
			return err
		}
	}
	r := store.Run{
		ID: p.RunID, CellID: p.CellID, State: "done", After: p.CheckpointAfter.ID, Decision: string(p.Decision.Result),
		ReceiptID: p.ReceiptID, Before: p.CheckpointBefore.ID, Command: p.Command, EnvNames: p.EnvNames, Workdir: p.Workdir,
		ReadOnly: p.ReadOnly, Actor: p.Actor, Outcome: string(p.Outcome), ExitCode: p.ExitCode, Signal: p.Signal,
		Changed: int(p.ChangedFiles), Policy: p.PolicyHash, TimeoutUS: timeoutAsked(p), StartedAt: p.StartedAt, FinishedAt: p.FinishedAt,
		RestoreOnFail:   p.Decision.Automatic && p.Decision.Result == receipt.Restored,
		AcceptOnSuccess: p.Decision.Automatic && p.Decision.Result == receipt.Accepted,
	}
	for _, l := range p.Logs {
		if l.Stream == "stdout" {
			r.Stdout = l.SHA256
		} else {
			r.Stderr = l.SHA256
		}
	}
	if err := tx.PutRun(r); err != nil {
		return err
	}
	head := p.CheckpointAfter.ID
	if p.Decision.Result == receipt.Restored {
		head = p.CheckpointBefore.ID
	}
	return b.moveHead(tx, p.CellID, head)
}

// timeoutAsked is the time limit that a run was given, in microseconds.
func timeoutAsked(p *receipt.Run) int64 {
	var asked struct {
		TimeoutUS int64 `json:"timeout_us"`
	}
	if json.Unmarshal(p.Controls.Asked, &asked) != nil {
		return 0
	}
	return asked.TimeoutUS
}

func (b *rebuild) decision(tx *store.Tx, p *receipt.Decision) error {
	r, err := tx.Run(p.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return b.lostRun(tx, p)
	}
	if err != nil {
		return err
	}
	if err := b.checkpoint(tx, p.CellID, p.HeadAfter, kindPartial, p.RunID, p, 0); err != nil {
		return err
	}
	if p.Result == receipt.Forked {
		return nil
	}
	c, err := tx.CellByID(p.CellID)
	if err != nil {
		return err
	}
	c.Head = p.HeadAfter.ID
	if err := recordDecision(tx, &c, r, string(p.Result)); err != nil {
		return err
	}
	return tx.PutCell(c)
}

// lostRun makes up for a run whose receipt is lost, as far as the decision about it
// knows: the cell goes on from the state that was decided.
func (b *rebuild) lostRun(tx *store.Tx, p *receipt.Decision) error {
	b.problem("the receipt of run %s is lost; its decision (%s) stands in %s", p.RunID, p.Result, p.DecisionID)
	if err := b.checkpoint(tx, p.CellID, p.HeadAfter, kindPartial, "", p, 0); err != nil || p.Result == receipt.Forked {
		return err
	}
	return b.moveHead(tx, p.CellID, p.HeadAfter.ID)
}

func (b *rebuild) moveHead(tx *store.Tx, cellID, head string) error {
	c, err := tx.CellByID(cellID)
	if err != nil {
		return err
	}
	c.Head = head
	return tx.PutCell(c)
}
