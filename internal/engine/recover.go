package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Recover makes the database again from the signed log and the layers, as
// evidence.Evidence.Recover does.
func (e *Engine) Recover(ctx context.Context, acceptLoss bool) (*api.RecoverResult, error) {
	lock, err := e.Store.LockHome(true)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := e.refuseBusy(); err != nil {
		return nil, err
	}
	return e.Evidence.Recover(ctx, acceptLoss)
}

// lockPrefix is the prefix of the names of the cells' locks in the home.
const lockPrefix = "cell-"

// refuseBusy refuses to rebuild the database while a process works on a cell: a
// live one, or the command of a run, for which the home is not locked. That process
// would continue in the old database, and the files of its cell would be moved
// away. The caller holds the home exclusively, so no other process can get further
// than taking a cell's lock.
//
// The database may be lost, so the locks themselves are examined.
func (e *Engine) refuseBusy() error {
	dir, err := e.Store.Dir().OpenDir("locks")
	if err != nil {
		return fmt.Errorf("look at the locks: %w", err)
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return fmt.Errorf("look at the locks: %w", err)
	}
	slices.Sort(names)
	var busy []string
	var first *api.Error
	for _, name := range names {
		id, ok := strings.CutPrefix(name, lockPrefix)
		if !ok {
			continue
		}
		h, held := e.Store.CellHolder(id)
		if !held {
			continue
		}
		err := atWork(e.Evidence.LastName(id), h)
		if first == nil {
			first = err
		} else {
			busy = append(busy, err.Message)
		}
	}
	if first == nil {
		return nil
	}
	first.Details = busy
	return first
}

func atWork(name string, h store.Holder) *api.Error {
	what := fmt.Sprintf("cell %s is busy: %v", quote.Arg(name), &store.BusyError{Holder: h})
	out := &api.Error{Kind: api.Busy, Code: api.CodeBusy, Hint: "wait until it ends"}
	if h.PID > 0 {
		out.Hint = fmt.Sprintf("wait for process %d, or end it", h.PID)
	}
	if h.What == home.HeldByStart {
		what = fmt.Sprintf("cell %s is live: its supervisor is process %d, since %s", quote.Arg(name), h.PID, h.Since.UTC().Format(time.RFC3339))
		out.Code = api.CodeLive
		// Without a database no other command knows the cell's name; the supervisor
		// ends cleanly on a signal.
		out.Hint = fmt.Sprintf("end it first: `forkcell stop %s`, or where the database is lost `kill %d`", quote.Arg(name), h.PID)
	}
	out.Message = "the database cannot be rebuilt now: " + what
	return out
}
