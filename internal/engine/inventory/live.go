package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// LiveInfo describes a live cell for status. It leaves out what the supervisor does
// not answer in time.
func (inv *Inventory) LiveInfo(ctx context.Context, c store.Cell, sessions bool) *api.LiveInfo {
	h, ok := inv.Supervisor(c)
	if !ok {
		return nil
	}
	info := &api.LiveInfo{PID: h.PID, Since: h.Since.UTC(), Socket: inv.Socket(c), Sessions: []api.SessionInfo{}, Ending: h.Ending}
	_ = inv.Store.View(func(tx *store.Tx) error {
		if runs, err := tx.UnfinishedRuns(c.ID); err == nil && len(runs) > 0 {
			info.RunID, info.Runtime = runs[len(runs)-1].ID, cmp.Or(runs[len(runs)-1].Runtime, api.RuntimeNative)
			showWarm(info, runs[len(runs)-1])
		}
		return nil
	})
	if !sessions {
		return info
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	list, err := inv.Client(c).Sessions(ctx)
	if err != nil { // it may have begun to end, or ended, after it was looked at
		if h, ok = inv.Supervisor(c); !ok {
			return nil
		}
		info.Ending = h.Ending
	}
	info.Sessions = append(info.Sessions, list...)
	return info
}

// showWarm describes a template or a branch.
func showWarm(info *api.LiveInfo, r store.Run) {
	info.Template, info.Degraded = r.Template, r.Degraded
	if r.Branch != nil {
		info.Branch = &api.BranchOrigin{}
		if err := json.Unmarshal(r.Branch, info.Branch); err != nil {
			info.Branch = nil
		}
	}
}
