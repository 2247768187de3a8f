package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/diff"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/receipt"
)

// turnTaker takes the turns of a live cell.
type turnTaker struct {
	when *api.TurnRequest
	asks *os.File // the FIFO by which programs ask; nil if they cannot
	next int      // the number of the next turn
	last store.Checkpoint

	taken   int      // turns of this run
	bytes   int64    // disk space of their states
	largest int64    // disk space of the largest one
	refused int      // turns that the limit of disk space had no room for
	skipped api.Code // why the last turn was skipped; "" if it was taken
}

// maxTurns is how many turns a run can have.
const maxTurns = 10_000

// turnRoom is the disk space that is left for turns of a run: what is free on the disk,
// and what the limit of the run leaves if it has one.
type turnRoom struct {
	free int64
	// limit is what the run may add with its turns, 0 is any amount; added is what it has
	// added without them.
	limit, added int64
}

// refuse refuses a turn of a run that has too many, or whose turns take more of the
// disk than is free: programs in the cell can ask for a turn each second. Turns count as
// the run's disk space, and take at most half of what it leaves: the rest is for the run.
func (t *turnTaker) refuse(room turnRoom) error {
	free := room.free
	if t.taken >= maxTurns {
		return api.Refusef(api.CodeTurns, "stop the cell and start it again", "this run has %d turns, and a run has no more", maxTurns)
	}
	if t.bytes > free {
		return api.Refusef(api.CodeTurns, "free some space there", "the turns of this run take %d bytes of the disk of the state directory, and %d are free", t.bytes, free)
	}
	next := max(room.added, t.largest) // a turn may have all of the changes
	if left := (room.limit - room.added) / 2; room.limit > 0 && t.bytes+next > left {
		t.refused++
		return api.Refusef(api.CodeTurns, "give the cell a larger limit of disk space",
			"the turns of this run count as its disk space: they take %d bytes, the next one may take %d, and %d are for them", t.bytes, next, max(0, left))
	}
	return nil
}

// turnSkipped is the state in the event of a turn that was not taken.
const turnSkipped = "turn skipped"

// prepareTurns makes the FIFO by which programs of the cell ask for turns.
func (l *liveRun) prepareTurns(when *api.TurnRequest) error {
	if when == nil {
		return nil
	}
	r := l.r
	known, err := r.e.turnsOf(r.Record)
	if err != nil {
		return err
	}
	l.turns = &turnTaker{when: when, next: known.newest() + 1, last: r.before}
	if !when.Asked {
		return nil
	}
	if r.rec.Runtime != "" && r.rec.Runtime != api.RuntimeNative {
		r.degraded = append(r.degraded, "programs of the cell cannot ask for turns: its runtime shows no FIFO of the host")
		return nil
	}
	var file string
	if l.turns.asks, file, err = r.work.CreateFIFO("turn"); err != nil {
		return err
	}
	r.spec.Mounts.Binds = append(r.spec.Mounts.Binds, mount.Bind{Target: api.TurnFile, Source: file, Owned: true})
	return nil
}

// closeTurns closes the FIFO.
func (l *liveRun) closeTurns() {
	if l.turns != nil && l.turns.asks != nil {
		_ = l.turns.asks.Close()
	}
}

// asksFrom returns what is read for the wishes of programs; nil if there is nothing.
func (t *turnTaker) asksFrom() io.Reader {
	if t == nil || t.asks == nil {
		return nil
	}
	return t.asks
}

// request says when turns are taken; nil if none is.
func (t *turnTaker) request() *api.TurnRequest {
	if t == nil {
		return nil
	}
	return t.when
}

// turn takes one turn. A turn that cannot be taken is skipped, and then the result is
// nil. Of several that are skipped in a row for the same reason the first is noted.
func (l *liveRun) turn(ctx context.Context, by string, asked int64) (*api.TurnInfo, error) {
	if l.turns == nil {
		return nil, api.Refusef(api.CodeTurns, "start it with turns", "cell %s takes no turns", l.r.Record.Name)
	}
	info, err := l.takeTurn(ctx, by, asked)
	if err == nil {
		l.turns.skipped = ""
	}
	if err != nil && ctx.Err() == nil {
		if code := api.CodeOf(err); code == "" || code != l.turns.skipped {
			l.turns.skipped = code
			l.r.recordEvent(event.Config(event.Subject{Message: "a turn was not taken: " + err.Error()}, turnSkipped))
		}
		if by == api.TurnByRequest {
			return nil, err
		}
		return nil, nil //nolint:nilnil // as documented
	}
	return info, err
}

func (l *liveRun) takeTurn(ctx context.Context, by string, asked int64) (*api.TurnInfo, error) {
	e := l.r.e
	if err := l.refuseTurn(); err != nil {
		return nil, err
	}
	home, err := e.Store.LockHome(false)
	if err != nil {
		return nil, err
	}
	defer home.Unlock()
	info := &api.TurnInfo{Turn: l.turns.next, By: by, Asked: asked, RunID: l.r.rec.ID}
	captured, err := l.captureTurn(ctx, info)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("turn.captured")
	info.At = e.Now().UTC()
	chk, made, err := l.sealTurn(ctx, captured, by)
	if err != nil || chk == nil {
		return nil, err
	}
	failpoint.Hit("turn.sealed")
	if err := l.countTurn(ctx, info, *chk); err != nil {
		return nil, err
	}
	info.CheckpointID = chk.ID
	e.Evidence.ForgetKey()
	if err := e.Store.Update(func(tx *store.Tx) error { return l.recordTurn(tx, *chk, made, info) }); err != nil {
		return nil, err
	}
	failpoint.Hit("turn.recorded")
	l.turns.next, l.turns.last = info.Turn+1, *chk
	l.turns.taken++
	return info, nil
}

// refuseTurn refuses a turn that there is no room for.
func (l *liveRun) refuseTurn() error {
	if err := home.Explain(l.r.e.Store.RefuseFull()); err != nil {
		return err
	}
	free, err := l.r.e.Store.FreeSpace()
	if err != nil {
		return err
	}
	added, taken := l.r.diskAdded.Load(), l.r.turnBytes.Load()
	limit := l.r.policy.Limits.Disk
	if l.r.Budget != nil {
		limit = narrower(limit, max(1, l.r.Budget.Left()+added+taken))
	}
	return l.turns.refuse(turnRoom{free: free, limit: limit, added: added})
}

// noteTurns adds to the receipt which turns there was no room for.
func (l *liveRun) noteTurns() {
	if l.turns != nil && l.turns.refused > 0 {
		l.r.degraded = append(l.r.degraded, fmt.Sprintf("%s not taken: turns count as the disk space of the run", api.Counted(l.turns.refused, "turn")))
	}
}

// sealTurn returns the state of a turn, and whether it is a new one: a turn without
// changes has the state of the turn before. The state is nil if the turn is due to the
// time, and the workspace has not changed.
func (l *liveRun) sealTurn(ctx context.Context, captured *workspace.Capture, by string) (*store.Checkpoint, bool, error) {
	var chk store.Checkpoint
	last := l.turns.last
	idle := func() bool { return by == api.TurnByTime && chk.Root() == last.Root() }
	sealed, made, err := captured.SealIf(ctx, func(s workspace.Sealed) bool {
		chk = l.r.e.NewCheckpoint(l.r.Record, l.r.before.ID, home.KindLive, "", s)
		return !maps.Equal(chk.Areas, last.Areas) && !idle()
	})
	switch {
	case err != nil:
		return nil, false, captureError(err)
	case made:
		l.turns.bytes += sealed.Bytes
		l.turns.largest = max(l.turns.largest, sealed.Bytes)
		l.r.turnBytes.Store(l.turns.bytes)
	case sealed.Unchanged:
		chk = l.r.before
	default:
		chk = last
	}
	if idle() {
		return nil, false, nil
	}
	return &chk, made, nil
}

// captureTurn copies the files of the cell at one moment, or, where the cell cannot
// be frozen, until two copies agree.
func (l *liveRun) captureTurn(ctx context.Context, info *api.TurnInfo) (*workspace.Capture, error) {
	captured, pause, err := l.capture(ctx)
	info.PauseUS = pause.Microseconds()
	if _, unfrozen := errors.AsType[*driver.UnenforceableError](err); !unfrozen {
		return captured, err
	}
	info.PauseUS, info.Unfrozen = 0, true
	captured, err = l.r.work.CaptureStable(ctx, func() string { return store.NewID("op") })
	if err != nil {
		return nil, captureError(err)
	}
	return captured, nil
}

// countTurn counts what has changed in the workspace since the turn before.
func (l *liveRun) countTurn(ctx context.Context, info *api.TurnInfo, now store.Checkpoint) (err error) {
	was := l.turns.last
	if was.ID == now.ID {
		return nil
	}
	e, sides := l.r.e, []store.Checkpoint{was, now}
	owners := []store.Cell{l.r.Record, l.r.Record}
	info.ChangedFiles, info.Added, info.Removed, err = e.lines(func(fn func(tree.Change) error) error {
		return diff.Each(ctx, e.Home, sides, owners, workspace.AreaWorkspace, true, func(ch tree.Change) error {
			if home.IsDirChange(ch) {
				return nil
			}
			return fn(ch)
		})
	}, func(side int, p string, entry tree.Entry) (io.ReadCloser, error) {
		return e.Opener(owners[side], sides[side], workspace.AreaWorkspace, p, entry)()
	})
	return err
}

// The details of the statement of a turn.
const (
	detailTurn = "turn"
	detailInfo = "turn_info"
)

// recordTurn records the turn, and its state if that is new. The head does not move.
func (l *liveRun) recordTurn(tx *store.Tx, chk store.Checkpoint, made bool, info *api.TurnInfo) error {
	if made {
		if err := tx.PutCheckpoint(chk); err != nil {
			return err
		}
	}
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return l.r.e.Evidence.Change(tx, l.r.Record, chk, receipt.OpCheckpoint, map[string]string{
		statements.DetailLive: l.r.rec.ID, detailTurn: strconv.Itoa(info.Turn), detailInfo: string(text),
	})
}
