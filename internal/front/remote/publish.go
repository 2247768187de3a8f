package remote

import (
	"context"
	"errors"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Publish puts what a cell of a daemon on another machine has accepted on a branch of the
// repository of this machine, with the caller's name and key. The caller's own log and
// that of the daemon say so. A daemon of this machine has the repository itself.
func (e *Engine) Publish(ctx context.Context, r api.PublishRequest) (res *api.PublishResult, err error) {
	if e.client.Local() {
		return nil, homeOnly("publish")
	}
	at, err := get[api.AcceptedState](ctx, e, op.GetAccepted.At(r.Cell)+"?receipts=true")
	if err == nil {
		err = checkIDs(at)
	}
	if err != nil {
		return nil, err
	}
	work := engine.ReceivedWork{
		ReceiveRequest: api.ReceiveRequest{Root: at.Root, Sources: at.Sources}, Cell: r.Cell, Checkpoint: at.CheckpointID, Receipts: at.Receipts, Receipt: e.Receipt,
		Report: func(ctx context.Context, b api.PublicationRequest) error {
			b.Cell = r.Cell
			_, err := carryOut(ctx, e, op.ReportPublication, b)
			return err
		},
	}
	err = e.withMirror(ctx, "publish", r.Cell, at.CellID, func(h Home) error {
		roots, err := h.SourceRoots(ctx, at.CellID)
		if err != nil {
			return err
		}
		if at.Undecided != "" && roots[len(roots)-1] == at.Root {
			return api.Refusef(api.CodePending, "`forkcell accept "+r.Cell+"` accepts it", "%s: only accepted changes are published", quote.Line(at.Undecided))
		}
		here := r
		here.Cell = at.CellID
		res, err = h.PublishReceived(ctx, work, here, func() (io.ReadCloser, error) {
			return e.openState(ctx, r.Cell, at.CheckpointID, "")
		})
		return err
	})
	return res, err
}

// checkIDs refuses ids of a daemon that are none: they become trailers of a commit.
func checkIDs(at *api.AcceptedState) error {
	ids := []string{at.CheckpointID}
	for _, r := range at.Receipts {
		ids = append(ids, r.RunID, r.ReceiptID)
		if r.DecisionID != "" {
			ids = append(ids, r.DecisionID)
		}
	}
	for _, id := range ids {
		if !api.IsID(id) {
			return malformed(errors.New("an id is " + quote.Arg(id)))
		}
	}
	return nil
}
