package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/inventory"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/receipt"
)

// This file carries out the end of a cell's time. Expire and Expirer decide when.

// expiryActor is the actor of statements that no caller asked for.
const expiryActor = "expiry"

// expiry is a decision that the time of a cell is up, with what it depends on.
type expiry struct {
	CellID   string         `json:"cell_id"`
	Cause    string         `json:"cause"`
	Action   string         `json:"action"`
	DueAt    time.Time      `json:"due_at"`
	Note     string         `json:"note,omitempty"` // added to the reason
	Settings store.Settings `json:"settings"`

	name    string
	lastRun string // the newest finished run
	// used, if set, reports whether the cell was used since the decision.
	used func() bool
}

func newExpiry(t timedCell, cause string, due time.Time) expiry {
	return expiry{
		CellID: t.cell.ID, Cause: cause, Action: inventory.OnTimeout(t.settings), DueAt: due.UTC(), Settings: t.settings,
		name: t.cell.Name, lastRun: t.lastRun.ID,
	}
}

func (x expiry) reason() string {
	text := fmt.Sprintf("its ttl of %s has passed", x.Settings.TTL)
	if x.Cause == api.CauseIdle {
		text = fmt.Sprintf("it was not used for %s", x.Settings.IdleTimeout)
	}
	if x.Note != "" {
		text += "; " + x.Note
	}
	return text
}

func (x expiry) describe() api.Expiry {
	return api.Expiry{Cell: x.name, CellID: x.CellID, Cause: x.Cause, Action: x.Action, DueAt: x.DueAt, Reason: x.reason()}
}

// holds reports whether a decision still fits the settings.
func (x expiry) holds(now store.Settings) bool {
	old := x.Settings
	return now.TTL == old.TTL && now.IdleTimeout == old.IdleTimeout && inventory.OnTimeout(now) == inventory.OnTimeout(old) &&
		now.SetAt.Equal(old.SetAt) && now.Expired == old.Expired
}

// expire stops, pauses or removes a cell. It reports false if the time of the cell is
// not up any more.
func (e *Engine) expire(ctx context.Context, x expiry) (bool, error) {
	c := store.Cell{ID: x.CellID, Name: x.name}
	if _, live := e.Supervisor(c); !live {
		return e.expireHeld(ctx, x)
	}
	if x.Action != api.OnTimeoutRemove {
		return e.expireLive(ctx, x)
	}
	res, err := e.Client(c).Expire(ctx, supervise.ExpireOrder{Action: api.OnTimeoutStop, Idle: x.idle()})
	if err != nil || !res.Done {
		return false, err
	}
	failpoint.Hit("expire.stopped")
	if res.Run != nil {
		x.lastRun = res.Run.RunID
	}
	return e.expireHeld(ctx, x)
}

// idle returns how long the cell must have been unused.
func (x expiry) idle() time.Duration {
	if x.Cause == api.CauseIdle {
		return x.Settings.IdleTimeout
	}
	return 0
}

// expireLive lets the supervisor of a live cell stop or pause it. A cell that cannot
// be paused here is stopped.
func (e *Engine) expireLive(ctx context.Context, x expiry) (bool, error) {
	order := func(x expiry) (supervise.Expired, error) {
		record, err := json.Marshal(x)
		if err != nil {
			return supervise.Expired{}, err
		}
		return e.Client(store.Cell{ID: x.CellID, Name: x.name}).Expire(ctx, supervise.ExpireOrder{Action: x.Action, Idle: x.idle(), Record: record})
	}
	res, err := order(x)
	if no, ok := errors.AsType[*api.Error](err); ok && no.Code == api.CodeFreezer {
		x.Action, x.Note = api.OnTimeoutStop, "it is stopped because "+no.Message
		res, err = order(x)
	}
	return res.Done, err
}

// expireHeld removes a cell that is not live, or records that its ttl has passed.
func (e *Engine) expireHeld(ctx context.Context, x expiry) (bool, error) {
	if x.Cause == api.CauseIdle && x.Action != api.OnTimeoutRemove {
		return false, nil // there is nothing to stop
	}
	s, err := e.holdBy(ctx, held.Request{Name: x.name, For: home.HeldByExpiry, Abandon: x.Action == api.OnTimeoutRemove})
	if api.KindOf(err) == api.NotFound {
		return false, nil // it was renamed or removed meanwhile
	}
	if err != nil {
		return false, err
	}
	defer s.Release()
	if s.Record.ID != x.CellID {
		return false, nil
	}
	if x.Action != api.OnTimeoutRemove {
		x.Note = "the cell was not live"
	} else if err := e.keptWork(ctx, s.Record); err != nil {
		return false, err
	}
	done := false
	err = e.Store.Update(func(tx *store.Tx) error {
		last, err := tx.LastRun(x.CellID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if x.Cause == api.CauseIdle && (last.ID != x.lastRun || x.used != nil && x.used()) {
			return nil
		}
		done, err = e.recordExpiry(tx, x)
		return err
	})
	if done && err == nil && x.Action != api.OnTimeoutPause {
		e.dropPause(s.Record.Paused)
	}
	return done && err == nil, err
}

// recordExpiry records an expiry, and with it that the cell is removed. It reports
// false if the time of the cell is not up any more.
func (e *Engine) recordExpiry(tx *store.Tx, x expiry) (bool, error) {
	settings, err := tx.Settings(x.CellID)
	if err != nil {
		return false, err
	}
	c, err := tx.CellByID(x.CellID)
	if err != nil || c.Name == "" || !x.holds(settings) {
		return false, err
	}
	head, err := tx.Checkpoint(c.Head)
	if err != nil {
		return false, err
	}
	if x.Action != api.OnTimeoutPause {
		c.Paused = nil // nothing is to be continued
		if x.Action == api.OnTimeoutRemove {
			e.markRemoved(&c)
		}
		err = tx.PutCell(c)
	}
	if err == nil && x.Action != api.OnTimeoutRemove && x.Cause == api.CauseTTL {
		settings.Expired = true
		err = tx.PutSettings(c.ID, settings)
	}
	if err != nil {
		return false, err
	}
	return true, e.Evidence.For(func() string { return expiryActor }, "").Change(tx, c, head, receipt.OpExpire, map[string]string{
		statements.DetailAction: x.Action, "cause": x.Cause, "due_at": x.DueAt.Format(time.RFC3339Nano), "reason": x.reason(),
	})
}

// expire records that the cell is stopped or paused because its time is up, and
// pauses it. The supervisor stops it.
func (l *liveRun) expire(ctx context.Context, o supervise.ExpireOrder) (done, ends bool, err error) {
	var x expiry
	if err := json.Unmarshal(o.Record, &x); err != nil || x.CellID != l.r.Record.ID || x.Action != o.Action {
		return false, false, api.Usagef("", "an order that cannot be understood")
	}
	c, saves := l.cell.(driver.Saver)
	if saves && x.Action == api.OnTimeoutPause && !l.r.rec.Paused && !l.isSession() {
		done, err = l.expireToDisk(ctx, c, x)
		return done, done, err
	}
	done, err = l.expireHere(ctx, x)
	return done, false, err
}

// errNotDue means that the time of a cell is not up any more.
var errNotDue = errors.New("its time is not up")

// expireToDisk pauses the cell on disk, and records with it that its time is up.
func (l *liveRun) expireToDisk(ctx context.Context, c driver.Saver, x expiry) (bool, error) {
	l.r.e.Evidence.ForgetKey()
	err := l.suspend(ctx, c, func(tx *store.Tx) error {
		done, err := l.r.e.recordExpiry(tx, x)
		if err == nil && !done {
			err = errNotDue
		}
		return err
	})
	if errors.Is(err, errNotDue) {
		return false, nil
	}
	return err == nil, err
}

// expireHere records that the time of the cell is up, and freezes it if it is paused.
func (l *liveRun) expireHere(ctx context.Context, x expiry) (done bool, err error) {
	freeze := x.Action == api.OnTimeoutPause && !l.r.rec.Paused
	if freeze {
		if err := l.cell.Freeze(ctx); err != nil {
			return false, freezeError("paused", "`forkcell pause "+l.r.Record.Name+" --fs-only` ends its processes and keeps its files", err)
		}
		failpoint.Hit("expire.frozen")
	}
	done, err = l.recordExpiry(x)
	switch {
	case freeze && (err != nil || !done):
		return false, errors.Join(err, l.cell.Thaw())
	case err != nil || !done:
		return false, err
	}
	failpoint.Hit("expire.recorded")
	if freeze {
		l.r.recordEvent(event.Config(event.Subject{Message: "its processes were stopped: " + x.reason()}, cellPaused))
	} else if x.Action == api.OnTimeoutStop {
		l.r.notes = append(l.r.notes, "the cell was stopped: "+x.reason())
	}
	return true, nil
}

// recordExpiry records an expiry together with the state of the run.
func (l *liveRun) recordExpiry(x expiry) (done bool, err error) {
	e := l.r.e
	home, err := e.Store.LockHome(false)
	if err != nil {
		return false, err
	}
	defer home.Unlock()
	e.Evidence.ForgetKey()
	l.r.recording.Lock()
	defer l.r.recording.Unlock()
	rec := l.r.rec
	rec.Paused = rec.Paused || x.Action == api.OnTimeoutPause
	err = e.Store.Update(func(tx *store.Tx) error {
		if done, err = e.recordExpiry(tx, x); err != nil || !done {
			return err
		}
		return tx.PutRun(rec)
	})
	if err != nil || !done {
		return false, err
	}
	l.r.rec.Paused = rec.Paused
	return true, nil
}
