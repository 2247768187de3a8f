package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// daemonLock is the id of the lock that a daemon holds.
const daemonLock = "daemon"

// LockDaemon takes the lock of the daemon: a home has one at most. The kernel
// releases it when the process ends.
func (e *Engine) LockDaemon(ctx context.Context) (release func(), err error) {
	lock, err := e.Store.LockCell(ctx, daemonLock, "the daemon", "serve", 0)
	if busy, ok := errors.AsType[*store.BusyError](err); ok {
		return nil, &api.Error{
			Kind: api.Busy, Code: api.CodeBusy, Err: err,
			Message: fmt.Sprintf("a daemon serves this home already: process %d", busy.Holder.PID),
			Hint:    "use that one, or end it first",
		}
	}
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

// Pool returns the number of first processes of cells that are ready, and the number
// that is kept ready.
func (e *Engine) Pool() (ready, size int) {
	if d, ok := e.driver.(interface{ Ready() (ready, size int) }); ok {
		return d.Ready()
	}
	return 0, 0
}
