package cell

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/home"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// List describes every cell.
func (e *Engine) List(ctx context.Context) ([]api.CellInfo, error) {
	return e.ListMatching(ctx, api.CellFilter{})
}

// ListMatching describes the cells that a filter selects, by name. Shared caches are
// left out.
func (e *Engine) ListMatching(_ context.Context, filter api.CellFilter) ([]api.CellInfo, error) {
	infos := []api.CellInfo{}
	if e.Store == nil {
		return infos, nil
	}
	left, err := e.abandoned()
	if err != nil {
		return nil, err
	}
	records, err := e.records()
	for _, r := range records {
		if !strings.HasPrefix(r.cell.Name, filter.Prefix) || !hasLabels(r.info.Labels, filter.Labels) {
			continue
		}
		info := e.present(r, left)
		if filter.State == "" || filter.State == info.State {
			infos = append(infos, info)
		}
	}
	return infos, err
}

// records reads what the database has about the ordinary cells, by name. The result is
// shared.
func (e *Engine) records() ([]*cellRecord, error) {
	e.shared.listing.Lock() // of several readers the first reads for all
	defer e.shared.listing.Unlock()
	return keep(e, &e.shared.memos.list, "", func() (list []*cellRecord, err error) {
		err = e.Store.View(func(tx *store.Tx) error {
			cells, err := home.OrdinaryCells(tx)
			if err != nil {
				return err
			}
			for _, c := range cells {
				r, err := e.record(tx, c)
				if err != nil {
					return err
				}
				list = append(list, r)
			}
			return nil
		})
		return list, err
	})
}

// KeepRecords makes the engine, and those made from it, keep what they read about cells
// until any process changes the database. It is for a process that answers many
// requests. What the first request needs is read meanwhile; the returned function waits
// for that.
func (e *Engine) KeepRecords() (wait func()) {
	e.shared.keeps.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = e.records() // a request that needs them gets the error
	}()
	return func() { <-done }
}

func hasLabels(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// Status describes one cell. Like every reading verb it takes no lock and finishes
// no work.
func (e *Engine) Status(ctx context.Context, cell string) (*api.StatusResult, error) {
	if e.Store == nil {
		_, err := e.FindCell(cell)
		return nil, err
	}
	r, err := e.statusRecord(cell)
	if err != nil {
		return nil, err
	}
	res := &api.StatusResult{}
	if holder, busy := e.Store.CellHolder(r.cell.ID); busy {
		res.Holder = (&store.BusyError{Holder: holder}).Error()
		res.Live = e.liveInfo(ctx, r.cell, true)
		if r, err = e.statusRecord(cell); err != nil { // what the supervisor does first is in it
			return nil, err
		}
	}
	left, err := e.abandonedIn(r.cell.ID)
	if err != nil {
		return nil, err
	}
	res.CellInfo = e.present(r.cellRecord, left)
	res.BackendReason, res.Applied, res.LeftOut = r.cell.BackendReason, r.cell.Applied, leftOut(r.cell)
	res.ReadOnly = append([]string{}, r.cell.ReadOnly...)
	res.Checkpoints, res.Runs, res.LastReceipt = int(r.history.Checkpoints), int(r.history.Runs), r.history.LastReceipt
	res.PendingRuns = append([]string{}, r.undecided.runs...)
	res.PendingStates = append([]string{}, r.undecided.states...)
	return res, nil
}

// statusRecord is what the database has about a cell, for its status.
type statusRecord struct {
	*cellRecord
	undecided undecidedWork
}

// statusRecord reads what the database has about a cell. The result is shared.
func (e *Engine) statusRecord(name string) (*statusRecord, error) {
	return keep(e, &e.shared.memos.status, name, func() (*statusRecord, error) { return e.readStatus(name) })
}

func (e *Engine) readStatus(name string) (*statusRecord, error) {
	c, err := e.FindCell(name)
	if err != nil {
		return nil, err
	}
	r := &statusRecord{}
	err = e.Store.View(func(tx *store.Tx) error {
		if c, err = tx.CellByID(c.ID); err != nil {
			return err
		}
		if r.cellRecord, err = e.record(tx, c); err != nil {
			return err
		}
		r.undecided, err = e.undecided(tx, c, r.history)
		return err
	})
	return r, err
}

// pendingRuns lists the undecided runs that a cell contains, inherited ones
// included, the oldest first.
func pendingRuns(tx *store.Tx, c store.Cell) ([]string, error) {
	runs, err := home.Contained(tx, c, c.Head)
	ids := []string{}
	for _, r := range slices.Backward(runs) {
		if home.UndecidedIn(c, r) {
			ids = append(ids, r.ID)
		}
	}
	return ids, err
}

// Log returns a cell's history from the signed statements, oldest first. The
// decision of a run is its present one.
func (e *Engine) Log(ctx context.Context, cell string) ([]api.LogEntry, error) {
	c, err := e.FindAny(cell)
	if err != nil {
		return nil, err
	}
	left, err := e.abandoned()
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
			if r.State == "running" && left[c.ID] == r.ID {
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
		entries = append(entries, api.LogEntry{Kind: "run", RunID: r.ID, CreatedAt: r.StartedAt, Command: r.Command, Outcome: unfinishedState, Actor: r.Actor})
	}
	if now := e.liveInfo(ctx, c, false); now != nil {
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

// undecided returns the work in a cell that waits for a decision.
func (e *Engine) undecided(tx *store.Tx, c store.Cell, h store.History) (undecidedWork, error) {
	at := memoStamp{history: h, head: c.Head, applied: c.Applied}
	foreign, err := e.shared.memos.foreign.get(c.ID, at, func() (bool, error) {
		line, err := tx.Lineage(c.Head)
		return slices.ContainsFunc(line, func(s store.Checkpoint) bool { return s.CellID != c.ID }), err
	})
	if err == nil && foreign {
		var last store.Statement
		last, err = tx.LastStatement()
		at.log = last.Seq
	}
	if err != nil {
		return undecidedWork{}, err
	}
	return e.shared.memos.undecided.get(c.ID, at, func() (work undecidedWork, err error) {
		if work.runs, err = pendingRuns(tx, c); err != nil {
			return work, err
		}
		states, err := home.UnacceptedStates(tx, c, c.Head)
		for _, state := range slices.Backward(states) {
			work.states = append(work.states, state.ID)
		}
		return work, err
	})
}
