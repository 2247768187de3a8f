package history

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Log returns a cell's history from the signed statements, oldest first. The
// decision of a run is its present one.
func (h *History) Log(ctx context.Context, cell string) ([]api.LogEntry, error) {
	c, err := h.findRecorded(cell)
	if err != nil {
		return nil, err
	}
	left, err := h.cells.AbandonedWork(c.ID)
	if err != nil {
		return nil, err
	}
	var statements []store.Statement
	decided := map[string]string{}
	var dead []store.Run
	err = h.Store.View(func(tx *store.Tx) (err error) {
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
		entry, err := h.logEntry(st)
		if err != nil {
			return nil, err
		}
		if entry.Kind == "run" && decided[entry.RunID] != "" {
			entry.Decision = decided[entry.RunID]
		}
		entries = append(entries, entry)
	}
	for _, r := range dead {
		entry := api.LogEntry{Kind: "run", RunID: r.ID, CreatedAt: r.StartedAt, Outcome: api.StateUnfinished, Actor: r.Actor}
		if err := h.addRan(&entry, r); err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	if now := h.cells.LiveInfo(ctx, c, false); now != nil {
		entry := api.LogEntry{Kind: "live", RunID: now.RunID, CreatedAt: now.Since}
		var r store.Run
		err := h.View(func(tx *store.Tx) (err error) {
			r, err = tx.Run(now.RunID)
			return err
		})
		if err == nil {
			err = h.addRan(&entry, r)
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// addRan adds what runs to the entry of an unfinished run.
func (h *History) addRan(entry *api.LogEntry, r store.Run) (err error) {
	var session *receipt.Session
	if r.Session != nil {
		if err := json.Unmarshal(r.Session, &session); err != nil {
			return err
		}
		entry.Agent, entry.AgentVersion = session.Agent, session.AgentVersion
	}
	entry.Command = home.RanCommand(r.Command, session)
	entry.Executed, err = h.executedCommands(r)
	return err
}

func (h *History) logEntry(st store.Statement) (api.LogEntry, error) {
	env, err := h.Evidence.Envelope(st.Seq)
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
		entry.Command, entry.ChangedFiles, entry.Reason = home.RanCommand(p.Command, p.Session), int(p.ChangedFiles), p.Decision.Reason
		entry.Executed = (*api.Executed)(p.Executed)
		if p.Session != nil {
			entry.Agent, entry.AgentVersion = p.Session.Agent, p.Session.AgentVersion
		}
	case *receipt.Decision:
		entry.Kind, entry.CheckpointID, entry.RunID, entry.ReceiptID = "decision", p.HeadAfter.ID, p.RunID, p.ReceiptID
		entry.Decision, entry.Reason = string(p.Result), p.Reason
	case *receipt.Change:
		entry.Kind, entry.CheckpointID, entry.Name = string(p.Op), p.Checkpoint.ID, p.Details["name"]
		entry.Reason, entry.Details = p.Details["reason"], p.Details
	}
	return entry, nil
}

// findRecorded finds a cell, a shared cache, or a cell that was removed: its records stay.
func (h *History) findRecorded(name string) (store.Cell, error) {
	c, err := h.FindAny(name)
	if api.KindOf(err) == api.NotFound && !strings.HasPrefix(name, home.CachePrefix) {
		return h.FindRecorded(name)
	}
	return c, err
}

// Logs opens the stored output of a run. A stream without output is empty.
func (h *History) Logs(_ context.Context, cell, run string) (stdout, stderr io.ReadCloser, err error) {
	c, err := h.findRecorded(cell)
	if err != nil {
		return nil, nil, err
	}
	var r store.Run
	err = h.Store.View(func(tx *store.Tx) (err error) {
		r, err = h.FindRun(tx, c, run)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if stdout, err = h.OpenOutput(r, false); err != nil {
		return nil, nil, err
	}
	if stderr, err = h.OpenOutput(r, true); err != nil {
		return nil, nil, errors.Join(err, stdout.Close())
	}
	return stdout, stderr, nil
}

// OpenOutput opens the stored stderr, or else stdout, of a run. A stream without output
// is empty; output that gc has freed is refused.
func (h *History) OpenOutput(r store.Run, stderr bool) (io.ReadCloser, error) {
	digest := OutputDigest(r, stderr)
	if digest == "" {
		return h.OpenLog("")
	}
	if has, err := h.Store.HasBlob(digest); err == nil && !has {
		_ = h.Store.View(func(tx *store.Tx) error { // gc may have freed it just now
			now, err := tx.Run(r.ID)
			r.OutputFreed = r.OutputFreed || err == nil && now.OutputFreed
			return err
		})
	}
	if r.OutputFreed {
		return nil, api.Refusef(api.CodeFreed, "its length and hash remain: `forkcell receipt show "+r.ReceiptID+"`", "gc has freed the output of %s", r.ID)
	}
	return h.OpenLog(digest)
}

// OutputDigest returns the digest of the stored stderr, or else stdout, of a run.
func OutputDigest(r store.Run, stderr bool) string {
	if stderr {
		return r.Stderr
	}
	return r.Stdout
}

// OpenLog opens stored output by its digest; "" is empty.
func (h *History) OpenLog(digest string) (io.ReadCloser, error) {
	if digest == "" {
		return io.NopCloser(strings.NewReader("")), nil
	}
	f, err := h.Store.OpenBlob(digest)
	if err != nil {
		return nil, api.Refusef(api.CodeDamaged, "`forkcell receipt verify --all` names what is damaged", "stored output %s cannot be read: %v", digest, err)
	}
	return f, nil
}

// RequestEffects returns what a request did, from the signed statements.
func (h *History) RequestEffects(_ context.Context, id string) (entries []api.LogEntry, err error) {
	var effects []store.Statement
	err = h.View(func(tx *store.Tx) (err error) {
		effects, err = tx.Effects(id)
		return err
	})
	for _, st := range effects {
		entry, err := h.logEntry(st)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, err
}
