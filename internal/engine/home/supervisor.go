package home

import (
	"slices"

	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
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

// StartCommand returns the command in the receipt of a live cell that is neither a
// session nor a template. The commands executed in it are in its events.
func StartCommand() []string { return []string{"start"} }

// IsLive reports whether a run is that of a live cell that was started.
func IsLive(r store.Run) bool {
	return r.Session != nil || slices.Equal(r.Command, StartCommand()) ||
		len(r.Command) > 1 && r.Command[0] == StartCommand()[0] && r.Command[1] == warmFlag
}

const warmFlag = "--warm"

// WarmCommand returns the command in the receipt of a template.
func WarmCommand(args []string) []string {
	return slices.Concat(StartCommand(), []string{warmFlag, "--"}, args)
}

// RanCommand returns what ran: the command of a receipt. Older receipts of sessions have the
// agent's command only in the terms of the session.
func RanCommand(command []string, session *receipt.Session) []string {
	if session != nil && len(session.Command) > 0 {
		return session.Command
	}
	return command
}
