package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/inventory"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// timedCell is a cell with a time limit, and what is stored about its use.
type timedCell struct {
	cell     store.Cell
	settings store.Settings
	lastRun  store.Run // the newest finished one
	touched  time.Time
}

// timedCells returns the cells with a time limit, by name.
func timedCells(tx *store.Tx) ([]timedCell, error) {
	all, err := tx.AllSettings()
	if err != nil {
		return nil, err
	}
	var list []timedCell
	for id, s := range all {
		if s.TTL == 0 && s.IdleTimeout == 0 {
			continue
		}
		t := timedCell{settings: s}
		if t.cell, err = tx.CellByID(id); err != nil {
			return nil, err
		}
		if t.touched, err = tx.LastUsed(id); err != nil {
			return nil, err
		}
		if t.lastRun, err = tx.LastRun(id); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b timedCell) int { return strings.Compare(a.cell.Name, b.cell.Name) })
	return list, nil
}

// uses returns the moments at which a cell was used, as far as they are stored.
func (t timedCell) uses() []time.Time {
	return []time.Time{t.cell.CreatedAt, t.lastRun.FinishedAt, t.settings.SetAt, t.touched}
}

// ttlDue returns when the ttl ends, if it has not been carried out.
func (t timedCell) ttlDue() (time.Time, bool) {
	return t.cell.CreatedAt.Add(t.settings.TTL), t.settings.TTL > 0 && !t.settings.Expired
}

// Expire stops, pauses or removes each cell whose time is up, once. It goes by the
// wall clock and by what is stored, so requests to a daemon within the last seconds
// do not count; the daemon has an Expirer. A cell whose action fails does not keep the
// others from expiring.
func (e *Engine) Expire(ctx context.Context, dryRun bool) (*api.ExpireResult, error) {
	res := &api.ExpireResult{DryRun: dryRun, Expired: []api.Expiry{}, Waiting: []api.Expiry{}}
	if e.Store == nil {
		return res, nil
	}
	var list []timedCell
	err := e.Store.View(func(tx *store.Tx) (err error) {
		list, err = timedCells(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	var failed []string
	for _, t := range list {
		x, due := e.dueNow(ctx, t)
		if !due {
			continue
		}
		switch done, err := e.expireUnless(ctx, dryRun, t.cell, x); {
		case api.KindOf(err) == api.Busy || api.CodeOf(err) == api.CodeHasWork:
			x.Note = err.Error()
			res.Waiting = append(res.Waiting, x.describe())
		case err != nil:
			failed = append(failed, x.name+": "+err.Error())
		case done:
			res.Expired = append(res.Expired, x.describe())
		}
	}
	if len(failed) > 0 {
		return res, &api.Error{
			Kind: api.Failed, Code: api.CodeExpire, Message: "expire " + failed[0], Details: failed[1:], Hint: "`forkcell expire` tries again",
		}
	}
	return res, nil
}

// expireUnless expires a cell, or says what keeps it from being removed.
func (e *Engine) expireUnless(ctx context.Context, dryRun bool, c store.Cell, x expiry) (bool, error) {
	switch {
	case !dryRun:
		return e.expire(ctx, x)
	case x.Action == api.OnTimeoutRemove:
		return true, e.keptWork(ctx, c)
	}
	return true, nil
}

// dueNow decides by the wall clock whether the time of a cell is up.
func (e *Engine) dueNow(ctx context.Context, t timedCell) (expiry, bool) {
	now := e.Now()
	if due, limited := t.ttlDue(); limited && !due.After(now) {
		return newExpiry(t, api.CauseTTL, due), true
	}
	if t.settings.IdleTimeout == 0 {
		return expiry{}, false
	}
	last := slices.MaxFunc(t.uses(), time.Time.Compare)
	use := e.usedNow(ctx, t)
	if use.known {
		last = now.Add(-use.idle)
	}
	due := last.Add(t.settings.IdleTimeout)
	return newExpiry(t, api.CauseIdle, due), use.matters && !due.After(now)
}

// currentUse is the use of a cell at this moment.
type currentUse struct {
	// matters is false if an idle timeout has nothing to do.
	matters bool
	known   bool          // a process works on the cell
	idle    time.Duration // since its last use
}

// usedNow returns what the process that holds a cell knows of its use.
func (e *Engine) usedNow(ctx context.Context, t timedCell) currentUse {
	action := inventory.OnTimeout(t.settings)
	h, busy := e.Store.CellHolder(t.cell.ID)
	switch {
	case !busy:
		return currentUse{matters: action == api.OnTimeoutRemove}
	case h.What != home.HeldByStart:
		return currentUse{matters: true, known: true}
	}
	ctx, cancel := context.WithTimeout(ctx, supervisorWait)
	defer cancel()
	state, err := e.Client(t.cell).State(ctx)
	if err != nil {
		return currentUse{matters: true, known: true} // it is starting or ending
	}
	return currentUse{matters: !state.Paused || action != api.OnTimeoutPause, known: true, idle: state.Idle}
}

// supervisorWait is how long a supervisor has to say whether its cell is used.
const supervisorWait = 2 * time.Second
