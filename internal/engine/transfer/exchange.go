// Package transfer moves files between cells and their callers: it reads, lists,
// writes and watches files, copies them in and out, and exports states.
//
// Files of a live cell are those that its processes see, and go through its
// supervisor. Those of any other cell are read from its head.
package transfer

import (
	"context"

	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// Live finds the supervisors of live cells that the caller may enter.
type Live interface {
	// EnterIfLive finds a cell and its supervisor; the client is nil if it has none.
	EnterIfLive(ctx context.Context, cell string) (*supervise.Client, store.Cell, error)
	// EnterLive finds the supervisor of a cell. A cell without one is an error.
	EnterLive(ctx context.Context, cell string) (*supervise.Client, error)
	// SettleDead finishes the run of a supervisor that was killed, and returns its id.
	SettleDead(ctx context.Context, c store.Cell) (run string, err error)
}

// Exchange carries out the verbs that move files.
type Exchange struct {
	*home.Home
	live Live
}

// New makes an Exchange.
func New(h *home.Home, live Live) *Exchange { return &Exchange{h, live} }
