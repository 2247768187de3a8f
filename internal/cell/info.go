package cell

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/home"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// Log returns a cell's history from the signed statements, oldest first. The
// decision of a run is its present one.
func (e *Engine) Log(ctx context.Context, cell string) ([]api.LogEntry, error) {
	c, err := e.FindAny(cell)
	if err != nil {
		return nil, err
	}
	left, err := e.Abandoned(c.ID)
	if err != nil {
		return nil, err
	}
	var statements []store.Statement
	decided := map[string]string{}
	var dead []store.Run
	err = e.Store.View(func(tx *store.Tx) (err error) {
		if statements, err = tx.Statements(c.ID); err != nil {
			return err
		}
		runs, err := tx.Runs(c.ID)
		for _, r := range runs {
			decided[r.ID] = r.Decision
			if r.State == "running" && left == r.ID {
				dead = append(dead, r)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	entries := []api.LogEntry{}
	for _, st := range statements {
		entry, err := e.logEntry(st)
		if err != nil {
			return nil, err
		}
		if entry.Kind == "run" && decided[entry.RunID] != "" {
			entry.Decision = decided[entry.RunID]
		}
		entries = append(entries, entry)
	}
	for _, r := range dead {
		entries = append(entries, api.LogEntry{Kind: "run", RunID: r.ID, CreatedAt: r.StartedAt, Command: r.Command, Outcome: api.StateUnfinished, Actor: r.Actor})
	}
	if now := e.LiveInfo(ctx, c, false); now != nil {
		entries = append(entries, api.LogEntry{Kind: "live", RunID: now.RunID, CreatedAt: now.Since, Command: home.StartCommand()})
	}
	return entries, nil
}

func (e *Engine) logEntry(st store.Statement) (api.LogEntry, error) {
	env, err := e.Evidence.Envelope(st.Seq)
	if err != nil {
		return api.LogEntry{}, err
	}
	place := env.Statement.Place()
	entry := api.LogEntry{Seq: place.Seq, ID: st.ID, CreatedAt: place.CreatedAt, Actor: place.Actor}
	switch p := env.Statement.Predicate.(type) {
	case *receipt.Run:
		code := p.ExitCode
		entry.Kind, entry.CheckpointID, entry.RunID, entry.ReceiptID = "run", p.CheckpointAfter.ID, p.RunID, p.ReceiptID
		entry.Outcome, entry.ExitCode, entry.Decision = string(p.Outcome), &code, string(p.Decision.Result)
		entry.Command, entry.ChangedFiles, entry.Reason = p.Command, int(p.ChangedFiles), p.Decision.Reason
	case *receipt.Decision:
		entry.Kind, entry.CheckpointID, entry.RunID, entry.ReceiptID = "decision", p.HeadAfter.ID, p.RunID, p.ReceiptID
		entry.Decision, entry.Reason = string(p.Result), p.Reason
	case *receipt.Change:
		entry.Kind, entry.CheckpointID, entry.Name = string(p.Op), p.Checkpoint.ID, p.Details["name"]
		entry.Reason, entry.Details = p.Details["reason"], p.Details
	}
	return entry, nil
}

// Logs opens the stored output of a run. A stream without output is empty.
func (e *Engine) Logs(_ context.Context, cell, run string) (stdout, stderr io.ReadCloser, err error) {
	c, err := e.FindCell(cell)
	if err != nil {
		return nil, nil, err
	}
	var r store.Run
	err = e.Store.View(func(tx *store.Tx) (err error) {
		r, err = e.FindRun(tx, c, run)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if stdout, err = e.openLog(r.Stdout); err != nil {
		return nil, nil, err
	}
	if stderr, err = e.openLog(r.Stderr); err != nil {
		return nil, nil, errors.Join(err, stdout.Close())
	}
	return stdout, stderr, nil
}

func (e *Engine) openLog(digest string) (io.ReadCloser, error) {
	if digest == "" {
		return io.NopCloser(strings.NewReader("")), nil
	}
	f, err := e.Store.OpenBlob(digest)
	if err != nil {
		return nil, api.Refusef(api.CodeDamaged, "`forkcell receipt verify --all` names what is damaged", "stored output %s cannot be read: %v", digest, err)
	}
	return f, nil
}

// Graph returns the lineage of all cells, parents first.
func (e *Engine) Graph(context.Context) ([]api.GraphNode, error) {
	nodes := []api.GraphNode{}
	if e.Store == nil {
		return nodes, nil
	}
	err := e.Store.View(func(tx *store.Tx) error {
		cells, err := tx.Cells(true)
		if err != nil {
			return err
		}
		heads, called := map[string][]string{}, map[string]string{}
		for _, c := range cells {
			called[c.ID] = c.LastName
			if c.Name != "" {
				heads[c.Head] = append(heads[c.Head], c.Name)
			}
		}
		names, err := tx.Names("")
		if err != nil {
			return err
		}
		chks, err := tx.Checkpoints("")
		if err != nil {
			return err
		}
		for _, chk := range chks {
			node := api.GraphNode{
				CheckpointID: chk.ID, Parent: chk.Parent, Cell: called[chk.CellID], Kind: chk.Kind, Root: chk.Root(),
				Names: append([]string{}, names[chk.ID]...), Heads: append([]string{}, heads[chk.ID]...),
				RunID: chk.RunID, Freed: chk.Freed, CreatedAt: chk.CreatedAt,
			}
			if chk.RunID != "" {
				r, err := tx.Run(chk.RunID)
				if err != nil {
					return err
				}
				node.Outcome, node.Decision = r.Outcome, r.Decision
			}
			nodes = append(nodes, node)
		}
		return nil
	})
	return nodes, err
}
