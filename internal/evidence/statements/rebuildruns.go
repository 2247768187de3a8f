package statements

import (
	"encoding/json"
	"errors"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

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
	r.Control, r.Turns = sessionAsked(p)
	for _, l := range p.Logs {
		if l.Stream == "stdout" {
			r.Stdout = l.SHA256
		} else {
			r.Stderr = l.SHA256
		}
		has, err := b.log.store.HasBlob(l.SHA256)
		if err != nil {
			return err
		}
		r.OutputFreed = r.OutputFreed || !has
		r.OutputBytes += l.Bytes
	}
	if r.OutputFreed {
		r.OutputBytes = 0
		b.noOutput++
	}
	if p.Session != nil {
		session, err := json.Marshal(p.Session)
		if err != nil {
			return err
		}
		r.Session = session
	}
	if p.Executed != nil {
		executed, err := json.Marshal(p.Executed)
		if err != nil {
			return err
		}
		r.Executed = executed
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

// timeoutAsked returns the time limit that a run was given, in microseconds.
func timeoutAsked(p *receipt.Run) int64 {
	var asked struct {
		TimeoutUS int64 `json:"timeout_us"`
	}
	if json.Unmarshal(p.Controls.Asked, &asked) != nil {
		return 0
	}
	return asked.TimeoutUS
}

// sessionAsked returns the control files that a run masked, and when it took turns,
// as its receipt has them.
func sessionAsked(p *receipt.Run) (control, turns json.RawMessage) {
	var asked struct {
		Control json.RawMessage `json:"control_files"`
		Turns   json.RawMessage `json:"turns"`
	}
	if json.Unmarshal(p.Controls.Asked, &asked) != nil {
		return nil, nil
	}
	return asked.Control, asked.Turns
}

func (b *rebuild) decision(tx *store.Tx, p *receipt.Decision) error {
	r, err := tx.Run(p.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return b.lostRun(tx, p)
	}
	if err != nil {
		return err
	}
	if err := b.checkpoint(tx, p.CellID, p.HeadAfter, PartialState, p.RunID, p, 0); err != nil {
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
	if err := RecordDecision(tx, &c, r, string(p.Result)); err != nil {
		return err
	}
	return tx.PutCell(c)
}

// lostRun makes up for a run whose receipt is lost, as far as the decision about it
// knows: the cell goes on from the state that was decided.
func (b *rebuild) lostRun(tx *store.Tx, p *receipt.Decision) error {
	b.problemAt(b.gap(p.Seq), "the receipt of run %s is lost; its decision (%s) is in %s", p.RunID, p.Result, p.DecisionID)
	if err := b.checkpoint(tx, p.CellID, p.HeadAfter, UnclaimedState, "", p, 0); err != nil || p.Result == receipt.Forked {
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
