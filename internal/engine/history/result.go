package history

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/policy/suggest"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// ResultOf returns the result of a run that has ended, as its signed receipt and its
// journal have it. Notes to the caller of the run are not kept.
func (h *History) ResultOf(ctx context.Context, r store.Run) (*api.RunResult, error) {
	signed, err := h.Evidence.RunOf(r.ID)
	if err != nil {
		return nil, err
	}
	res := &api.RunResult{
		RunID: r.ID, ReceiptID: r.ReceiptID, Outcome: r.Outcome, ExitCode: r.ExitCode, Signal: r.Signal, Decision: r.Decision,
		SplitLinks: append([]string{}, signed.SplitLinks...), CheckpointBefore: r.Before, CheckpointAfter: r.After,
		ChangedFiles: r.Changed, PolicyHash: r.Policy, Degraded: append([]string{}, signed.Degraded...),
		Events: statements.CountByAction(signed.Events), Notes: []string{}, Error: signed.Error, Timings: timingsOf(signed),
	}
	if err := h.addCell(res, r); err != nil {
		return nil, err
	}
	if err := addControls(res, signed.Controls); err != nil {
		return nil, fmt.Errorf("the controls in receipt %s: %w", r.ReceiptID, err)
	}
	if res.Elsewhere, err = h.ElsewhereIn(ctx, r.Before, r.After); err != nil {
		return nil, err
	}
	h.addNetwork(res)
	return res, nil
}

// addCell adds the name of the cell and the roots of the states.
func (h *History) addCell(res *api.RunResult, r store.Run) error {
	return h.View(func(tx *store.Tx) error {
		c, err := tx.CellByID(r.CellID)
		if err != nil {
			return err
		}
		before, err := tx.Checkpoint(r.Before)
		if err != nil {
			return err
		}
		after, err := tx.Checkpoint(r.After)
		res.Cell, res.RootBefore, res.RootAfter = c.LastName, before.Root(), after.Root()
		return err
	})
}

// addControls adds what the runtime achieved, and the caches that were asked for.
func addControls(res *api.RunResult, c receipt.Controls) error {
	if len(c.Achieved) > 0 {
		if err := json.Unmarshal(c.Achieved, &res.Controls); err != nil {
			return err
		}
	}
	if len(c.Asked) == 0 {
		return nil
	}
	requested := struct {
		Cache *api.CacheUse `json:"cache"`
	}{}
	err := json.Unmarshal(c.Asked, &requested)
	res.Cache = requested.Cache
	return err
}

// addNetwork adds what the journal has of the network.
func (h *History) addNetwork(res *api.RunResult) {
	res.Denied = api.DeniedNetwork{To: []string{}}
	if res.Events[string(event.ActionDenied)] > 0 {
		res.Denied = suggest.Destinations(h.JournalOf(res.RunID, event.Filter{Action: event.ActionDenied}))
	}
	if !res.OK() && res.Events[string(event.ActionAllowed)] > 0 {
		res.Unanswered = suggest.CountUnanswered(h.JournalOf(res.RunID, event.Filter{Action: event.ActionAllowed}))
	}
}

// timingsOf returns the times of a receipt. It was signed before the decision was
// recorded, so the total is from start to end.
func timingsOf(r *receipt.Run) api.RunTimings {
	return api.RunTimings{
		PrepareUS: r.Timings["prepare_us"], StartUS: r.Timings["start_us"], CommandUS: r.Timings[receipt.TimingCommand],
		SealUS: r.Timings["seal_us"], TotalUS: r.FinishedAt.Sub(r.StartedAt).Microseconds(),
	}
}
