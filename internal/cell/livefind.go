package cell

import (
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/supervise"
)

// socketDir is the directory of the supervisors' sockets, in the home.
const socketDir = "sockets"

// supervisor returns the process that keeps a cell live, if it is live.
func (e *Engine) supervisor(c store.Cell) (store.Holder, bool) {
	if e.store == nil {
		return store.Holder{}, false
	}
	h, busy := e.store.CellHolder(c.ID)
	return h, busy && h.What == heldByStart
}

func (e *Engine) socket(c store.Cell) string { return e.store.Path() + "/" + socketDir + "/" + c.ID }

// client returns a client of a cell's supervisor.
func (e *Engine) client(c store.Cell) *supervise.Client {
	return supervise.NewClient(c.Name, e.socket(c), e.version)
}
