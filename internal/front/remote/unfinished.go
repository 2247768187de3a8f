package remote

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// The name of a mirror says how far its init came. It begins as one that was only read.
// Before the daemon makes the cell, it is named by the upload, which the cell of the
// daemon names, too. In the end it has the id of the cell. So an init that was killed can
// be finished.
const (
	prefixRead = "read."
	prefixSent = "sent."
)

// uploadLife is how long a daemon may still make a cell from an upload after an init was
// killed. Daemons keep uploads for an hour.
const uploadLife = 24 * time.Hour

// finishedMirrors opens the home of the mirrors, finishes what killed inits left there,
// and lists the mirrors.
func (e *Engine) finishedMirrors(ctx context.Context, create bool) (h Home, list []api.CellInfo, release func() error, err error) {
	h, release, err = e.homes.Mirrors(create)
	if err != nil {
		return nil, nil, nil, err
	}
	list, err = h.ListMatching(ctx, api.CellFilter{})
	if err == nil && slices.ContainsFunc(list, isMirror) {
		if err = e.finishMirrors(ctx, h); err == nil {
			list, err = h.ListMatching(ctx, api.CellFilter{})
		}
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, release())
	}
	return h, list, release, nil
}

func isMirror(m api.CellInfo) bool {
	return strings.HasPrefix(m.Name, prefixRead) || strings.HasPrefix(m.Name, prefixSent)
}

// finishMirrors gives the mirrors of killed inits the ids of the cells that the daemon
// made, and removes those that have none. While another process is at it, or makes a
// mirror, nothing happens.
func (e *Engine) finishMirrors(ctx context.Context, h Home) error {
	unlock, alone, err := e.homes.Lock(true)
	if err != nil || !alone {
		return err
	}
	defer unlock()
	list, err := h.ListMatching(ctx, api.CellFilter{})
	if err != nil {
		return err
	}
	cells, err := e.ListMatching(ctx, api.CellFilter{})
	if err != nil {
		return err
	}
	for _, m := range list {
		if !isMirror(m) {
			continue
		}
		id, err := e.madeFrom(ctx, cells, m)
		switch {
		case err != nil:
		case id != "" && !has(list, id):
			err = h.Rename(ctx, m.Name, id)
		case id != "" || isAbandoned(m, time.Now()):
			err = h.RemoveAll(ctx, []string{m.Name}, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isAbandoned reports whether no cell can come of a mirror that has none.
func isAbandoned(m api.CellInfo, now time.Time) bool {
	return strings.HasPrefix(m.Name, prefixRead) || now.Sub(m.CreatedAt) > uploadLife
}

// madeFrom returns the id of the cell that the daemon made from a mirror, or "".
func (e *Engine) madeFrom(ctx context.Context, cells []api.CellInfo, m api.CellInfo) (string, error) {
	upload, sent := strings.CutPrefix(m.Name, prefixSent)
	at := slices.IndexFunc(cells, func(c api.CellInfo) bool { return c.Source == api.UploadSource+upload && c.ForkedFrom == "" })
	if !sent || at < 0 {
		return "", nil
	}
	q := url.Values{"root": {m.Root}}
	state, err := get[api.AcceptedState](ctx, e, op.GetAccepted.At(cells[at].Name)+"?"+q.Encode())
	if err != nil || !slices.Contains(state.Contains, m.Root) {
		return "", err
	}
	return cells[at].CellID, nil
}
