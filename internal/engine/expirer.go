package engine

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
)

const (
	// lookEvery is how often an Expirer looks for cells that other processes made or
	// changed.
	lookEvery = 400 * time.Millisecond
	// retryAfter is the wait before a cell is tried again that was busy or failed. It
	// doubles with each failure, up to maxRetry.
	retryAfter = 500 * time.Millisecond
	maxRetry   = time.Minute
	// touchEvery is how often the last uses of cells are recorded. After a crash, those
	// of the last such time are lost; so no cell is found idle in that time after a
	// start.
	touchEvery = 5 * time.Second
	// maxExpiring bounds the cells that are being stopped at a time.
	maxExpiring = 16
	never       = time.Duration(math.MaxInt64)
)

// Expirer stops, pauses and removes cells when their time is up, for as long as Run
// runs. It is for the daemon; there is one for a home.
//
// Due times come from what is stored, so they survive a restart. From the moment at
// which an Expirer sees a cell, it counts with a clock that never jumps: setting the
// wall clock ends no cell early.
type Expirer struct {
	e      *Engine
	steady func() time.Duration
	// slots bounds the work under way, and workers waits for it.
	slots   chan struct{}
	workers sync.WaitGroup
	wake    chan struct{}

	mu      sync.Mutex
	started time.Duration
	seq     int64 // of the newest statement when the cells were read
	flushed time.Duration
	cells   map[string]*watchedCell // by id
	names   map[string]*watchedCell
}

// watchedCell is a cell with a time limit. Times are those of the steady clock.
type watchedCell struct {
	timedCell
	age  time.Duration // of the cell, when it was first seen
	seen time.Duration
	used time.Duration // the last known use
	next time.Duration // when to look at it again
	// touched reports that the last use is not recorded.
	touched bool
	busy    bool // being looked at
	failed  int
}

// NewExpirer returns an Expirer of a home.
func (e *Engine) NewExpirer() *Expirer { return newExpirer(e, e.shared.steady) }

func newExpirer(e *Engine, steady func() time.Duration) *Expirer {
	now := steady()
	return &Expirer{
		e: e, steady: steady, slots: make(chan struct{}, maxExpiring), wake: make(chan struct{}, 1),
		started: now, flushed: now, seq: -1, cells: map[string]*watchedCell{}, names: map[string]*watchedCell{},
	}
}

// bootTime returns the time since the system was started, suspended time included.
func bootTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("cell: clock_gettime: " + err.Error()) // the kernel has had this clock since 2.6.39
	}
	return time.Duration(t.Nano())
}

// Touch records a use of a cell, by its name. It is cheap: it writes to memory.
func (x *Expirer) Touch(cell string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w := x.names[cell]; w != nil {
		w.used, w.touched = x.steady(), true
	}
}

// Run works until ctx ends. It returns when no work is under way, and the last uses
// are recorded.
func (x *Expirer) Run(ctx context.Context) {
	if err := x.e.Store.Note(func(tx *store.Tx) error { return tx.ForgetTouches() }); err != nil {
		x.e.Logger.Warn("forget the uses of removed cells", "error", err)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(x.step(ctx))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-x.wake:
		}
	}
	x.workers.Wait()
	x.flush(0)
}

// step reads what has changed, begins what is due, and returns how long to wait.
func (x *Expirer) step(ctx context.Context) time.Duration {
	if err := x.refresh(); err != nil {
		x.e.Logger.Error("look for cells with time limits", "error", err)
	}
	x.flush(touchEvery)
	x.mu.Lock()
	defer x.mu.Unlock()
	now, wait := x.steady(), lookEvery
	for _, w := range x.cells {
		switch {
		case w.busy:
		case w.next > now:
			wait = min(wait, w.next-now)
		default:
			w.busy = true
			x.workers.Go(func() { x.work(ctx, w) })
		}
	}
	return wait
}

// refresh reads the cells, if there is a new statement.
func (x *Expirer) refresh() error {
	return x.e.Store.View(func(tx *store.Tx) error {
		last, err := tx.LastStatement()
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		x.mu.Lock()
		same := last.Seq == x.seq
		x.mu.Unlock()
		if same {
			return nil
		}
		list, err := timedCells(tx)
		if err == nil {
			x.take(list, last.Seq)
		}
		return err
	})
}

// take replaces the known cells by those of a list.
func (x *Expirer) take(list []timedCell, seq int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seq = seq
	now, wall := x.steady(), x.e.Now()
	old := x.cells
	x.cells, x.names = make(map[string]*watchedCell, len(list)), make(map[string]*watchedCell, len(list))
	for _, t := range list {
		w := old[t.cell.ID]
		if w == nil {
			age := since0(wall, t.cell.CreatedAt)
			w = &watchedCell{timedCell: t, age: age, seen: now, used: now - age}
			for _, at := range t.uses() {
				w.use(now, wall, at)
			}
			w.next = x.deadline(w)
		} else if w.change(t, now, wall) {
			w.next = x.deadline(w)
		}
		x.cells[t.cell.ID], x.names[t.cell.Name] = w, w
	}
}

// change takes over what is new about a cell, and reports whether that matters.
func (w *watchedCell) change(t timedCell, now time.Duration, wall time.Time) bool {
	ran, set := t.lastRun.ID != w.lastRun.ID, !t.settings.SetAt.Equal(w.settings.SetAt) || t.settings.Expired != w.settings.Expired
	w.timedCell = t
	if ran {
		w.use(now, wall, t.lastRun.FinishedAt)
	}
	if set {
		w.use(now, wall, t.settings.SetAt)
	}
	return set
}

// use records a use at a moment of the wall clock. One in the future is now: the
// clock was set back.
func (w *watchedCell) use(now time.Duration, wall, at time.Time) {
	if !at.IsZero() {
		w.used = max(w.used, now-since0(wall, at))
	}
}

// since0 returns the time between two moments, and 0 if they are in the wrong order.
func since0(now, then time.Time) time.Duration { return max(0, now.Sub(then)) }

// deadline returns when the time of a cell is up, if nothing uses it until then.
func (x *Expirer) deadline(w *watchedCell) time.Duration { return min(w.ttlEnds(), x.idleEnds(w)) }

func (w *watchedCell) ttlEnds() time.Duration {
	if _, limited := w.ttlDue(); !limited {
		return never
	}
	return w.seen + w.settings.TTL - w.age
}

func (x *Expirer) idleEnds(w *watchedCell) time.Duration {
	idle := w.settings.IdleTimeout
	if idle == 0 {
		return never
	}
	return max(w.used+idle, x.started+min(idle, touchEvery))
}

// work looks at a cell whose time may be up.
func (x *Expirer) work(ctx context.Context, w *watchedCell) {
	x.slots <- struct{}{}
	defer func() { <-x.slots }()
	x.mu.Lock()
	t, now := w.timedCell, x.steady()
	ttl := w.ttlEnds() <= now
	x.mu.Unlock()
	wait, err := x.expire(ctx, w, t, ttl)
	if err != nil && ctx.Err() == nil && api.KindOf(err) != api.Busy && api.CodeOf(err) != api.CodeHasWork {
		x.e.Logger.Error("a cell whose time is up", "cell", t.cell.Name, "error", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	w.busy = false
	now = x.steady()
	switch {
	case !t.settings.SetAt.Equal(w.settings.SetAt):
		w.next = x.deadline(w) // it was changed meanwhile
	case err == nil:
		w.failed = 0
		w.next = now + wait
	case api.KindOf(err) == api.Busy:
		w.next = now + retryAfter
	default:
		w.failed = min(w.failed+1, 16)
		w.next = now + min(retryAfter<<w.failed, maxRetry)
	}
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// expire ends a cell if its time is up, and returns when to look at it again.
func (x *Expirer) expire(ctx context.Context, w *watchedCell, t timedCell, ttl bool) (time.Duration, error) {
	wall := x.e.Now()
	if ttl {
		due, _ := t.ttlDue()
		_, err := x.e.expire(ctx, newExpiry(t, api.CauseTTL, due))
		return retryAfter, err // until then the statement is read
	}
	idle := t.settings.IdleTimeout
	use := x.e.usedNow(ctx, t)
	x.mu.Lock()
	now := x.steady()
	if use.known {
		w.used = max(w.used, now-use.idle)
	}
	used, left, ttlLeft := w.used, x.deadline(w)-now, w.ttlEnds()-now
	x.mu.Unlock()
	switch {
	case left > 0:
		return left, nil
	case !use.matters:
		// The earliest that a cell can be idle again that begins to be used now.
		return max(0, min(idle, ttlLeft)), nil
	}
	q := newExpiry(t, api.CauseIdle, wall.Add(idle-(now-used)))
	q.used = func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return w.used > used
	}
	_, err := x.e.expire(ctx, q)
	return retryAfter, err
}

// flush records the last uses, if the last time was long enough ago.
func (x *Expirer) flush(after time.Duration) {
	x.mu.Lock()
	now, wall := x.steady(), x.e.Now()
	if now-x.flushed < after {
		x.mu.Unlock()
		return
	}
	x.flushed = now
	used := map[string]time.Time{}
	for id, w := range x.cells {
		if w.touched {
			used[id], w.touched = wall.Add(w.used-now), false
		}
	}
	x.mu.Unlock()
	if len(used) == 0 {
		return
	}
	if err := x.e.Store.Note(func(tx *store.Tx) error { return tx.Touch(used) }); err != nil {
		x.e.Logger.Error("record the last uses of cells", "error", err)
	}
}
