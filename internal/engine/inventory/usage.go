package inventory

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// usageWait bounds the time that supervisors have to say what their cells use, and
// usageCalls how many are asked at a time.
const (
	usageWait  = 2 * time.Second
	usageCalls = 16
)

// Usage returns what the cells use whose names have a prefix and that the caller may
// know of, and the sum. Like every reading verb it takes no lock. The processor time of
// a live cell whose supervisor does not answer is left out.
func (inv *Inventory) Usage(ctx context.Context, prefix string) (*api.UsageResult, error) {
	res := &api.UsageResult{Cells: []api.CellUsage{}}
	if inv.Store == nil {
		return res, nil
	}
	err := inv.Store.View(func(tx *store.Tx) error {
		cells, err := home.OrdinaryCells(tx)
		if err != nil {
			return err
		}
		for _, c := range cells {
			if !strings.HasPrefix(c.Name, prefix) || !inv.Caller.MaySee(c.Name) {
				continue
			}
			u, err := inv.cellUsage(tx, c)
			if err != nil {
				return err
			}
			res.Cells = append(res.Cells, u)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	inv.askSupervisors(ctx, res.Cells)
	for _, u := range res.Cells {
		res.Total = res.Total.Plus(u.Consumption)
	}
	return res, nil
}

func (inv *Inventory) cellUsage(tx *store.Tx, c store.Cell) (api.CellUsage, error) {
	u := api.CellUsage{Cell: c.Name, Name: c.Name, CellID: c.ID}
	states, err := tx.Checkpoints(c.ID)
	if err != nil {
		return u, err
	}
	runs, err := tx.Runs(c.ID)
	if err != nil {
		return u, err
	}
	u.Checkpoints, u.OwnBytes = len(states), ownBytes(states)+inv.PausedBytes(c)
	u.State = inv.state(c, slices.DeleteFunc(slices.Clone(runs), func(r store.Run) bool { return r.State == "done" }))
	for _, r := range runs {
		switch {
		case r.State == "done":
			u.Finished++
			u.CPUUS += r.CPUMicros
		case u.State == api.StateIdle: // its process has died
		default:
			addRun(&u, r)
		}
	}
	return u, nil
}

// addRun adds a run that is under way, or a live cell.
func addRun(u *api.CellUsage, r store.Run) {
	switch u.State {
	case api.StateLive:
		u.Live = 1
	case api.StatePaused:
		u.Live, u.Paused = 1, 1
	default:
		u.Runs++
	}
	u.Memory += r.Memory
	u.CPUs += r.CPUsMilli
	if r.Memory == 0 {
		u.Unlimited++
	}
}

// askSupervisors adds the processor time of live cells.
func (inv *Inventory) askSupervisors(ctx context.Context, cells []api.CellUsage) {
	ctx, cancel := context.WithTimeout(ctx, usageWait)
	defer cancel()
	slots := make(chan struct{}, usageCalls)
	var all sync.WaitGroup
	for i := range cells {
		u := &cells[i]
		if u.Live == 0 {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			state, err := inv.Client(store.Cell{ID: u.CellID, Name: u.Cell}).State(ctx)
			if err == nil && state.Usage.CPUMicros > 0 {
				u.CPUUS += state.Usage.CPUMicros
			}
		})
	}
	all.Wait()
}
