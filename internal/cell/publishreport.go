package cell

import (
	"context"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/home"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
)

// ReceivedWork is what a daemon's cell has accepted, for its mirror to publish.
type ReceivedWork struct {
	api.ReceiveRequest

	// Cell is the name of the daemon's cell, Checkpoint its accepted state.
	Cell, Checkpoint string
	// Receipts are those of the runs whose work it is, the newest first.
	Receipts []api.PublishedReceipt
	// Receipt returns a receipt of the daemon's.
	Receipt func(ctx context.Context, id, cell string, verify bool) (*api.ReceiptDoc, error)
	// Report has the daemon state what was published.
	Report func(ctx context.Context, p api.PublicationBody) error
}

// report has the daemon state what was published, if the work is its.
func (p *publication) report(ctx context.Context, d map[string]string) error {
	if p.received == nil {
		return nil
	}
	err := p.received.Report(ctx, api.PublicationBody{
		PublishID: d["publish_id"], Checkpoint: d["published"], Repository: d["repository"], Branch: d["branch"], Base: d["base"], BaseCommit: d["base_commit"],
		Commit: d["commit"], Signed: d["signed"], PushedTo: d["pushed_to"], PullRequest: d["pull_request"], State: d[detailPublishState],
	})
	if err != nil {
		return api.Failf(api.CodePublish, err, "the branch %s was published, but the daemon has not recorded it", quote.Arg(p.req.Branch))
	}
	return nil
}

// receiptsIn lists the receipts of the runs whose work an accepted state has, and the
// decision by which the cell keeps each.
func (e *Engine) receiptsIn(c store.Cell, at store.Checkpoint) (out []api.PublishedReceipt, err error) {
	err = e.View(func(tx *store.Tx) (err error) {
		out, err = keptRuns(tx, c, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, r := range out {
		if out[i].DecisionID, err = e.keptBy(c, r.RunID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// keptBy returns the decision by which a cell keeps the work of a run: its own, or that of
// the nearest cell that it was forked from. Other forks may have decided otherwise.
func (e *Engine) keptBy(c store.Cell, run string) (decision string, err error) {
	for {
		list, err := e.Evidence.Decisions(c.ID, run)
		if err != nil {
			return "", err
		}
		for _, d := range slices.Backward(list) {
			if home.KeepsWork(d.Result) {
				return d.DecisionID, nil
			}
		}
		if c.ForkedCell == "" {
			return "", nil
		}
		err = e.View(func(tx *store.Tx) (err error) {
			c, err = tx.CellByID(c.ForkedCell)
			return err
		})
		if err != nil {
			return "", err
		}
	}
}

// keptRuns lists the runs whose work a state has and the cell keeps, the newest first.
func keptRuns(tx *store.Tx, c store.Cell, at store.Checkpoint) ([]api.PublishedReceipt, error) {
	out := []api.PublishedReceipt{}
	runs, err := home.Contained(tx, c, at.ID)
	for _, r := range runs {
		if r.Before != r.After && home.KeepsWork(home.DecisionIn(c, r)) {
			out = append(out, api.PublishedReceipt{RunID: r.ID, ReceiptID: r.ReceiptID})
		}
	}
	return out, err
}
