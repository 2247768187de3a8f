package home

import (
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/supervise"
)

// HeldByStart is the purpose in the lock of a live cell.
const HeldByStart = "start"

// SocketDir is the directory of the supervisors' sockets, in the home.
const SocketDir = "sockets"

// Supervisor returns the process that keeps a cell live, if it is live.
func (h *Home) Supervisor(c store.Cell) (store.Holder, bool) {
	if h.Store == nil {
		return store.Holder{}, false
	}
	holder, busy := h.Store.CellHolder(c.ID)
	return holder, busy && holder.What == HeldByStart
}

// Socket returns the path of the socket of a cell's supervisor.
func (h *Home) Socket(c store.Cell) string { return h.Store.Path() + "/" + SocketDir + "/" + c.ID }

// Client returns a client of a cell's supervisor.
func (h *Home) Client(c store.Cell) *supervise.Client {
	return supervise.NewClient(c.Name, h.Socket(c), h.Version)
}

// StartCommand returns the command in the receipt of a live cell. The commands
// executed in it are in its events.
func StartCommand() []string { return []string{"start"} }
