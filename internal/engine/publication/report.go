package publication

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/publish"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
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
	Report func(ctx context.Context, p api.PublicationRequest) error
}

// report has the daemon state what was published, if the work is its.
func (p *publication) report(ctx context.Context, d map[string]string) error {
	if p.received == nil {
		return nil
	}
	err := p.received.Report(ctx, api.PublicationRequest{
		PublishID: d["publish_id"], Checkpoint: d["published"], Repository: d["repository"], Branch: d["branch"], Base: d["base"], BaseCommit: d["base_commit"],
		Commit: d["commit"], Signed: d["signed"], PushedTo: d["pushed_to"], PullRequest: d["pull_request"], State: d[detailPublishState],
	})
	if err == nil {
		return nil
	}
	failed := api.Failf(api.CodePublish, err, "the daemon has not recorded it")
	failed.Hint = "your own log has it; name the branch to the daemon's operator, or publish again with another --branch when the daemon answers"
	return failed
}

// notAdded is the error about a branch that was pushed, and is not in the repository.
func (p *publication) notAdded(err error) error {
	failed := api.Failf(api.CodePublish, err, "it could not be made in %s", quote.Path(p.to))
	failed.Hint = "`git -C " + quote.Arg(p.to) + " fetch origin` brings it"
	return failed
}

// halfDone is the error about what failed after the branch was made or pushed, the most
// important first: it says what is there, what is missing, and what to do about each.
func (p *publication) halfDone(made, added, recorded error) error {
	parts := []error{made, added, recorded}
	all := errors.Join(parts...)
	if all == nil {
		return nil
	}
	failed := api.Failf(api.CodePublish, all, "%s, but not all was done", p.announce(added == nil))
	if code := api.CodeOf(all); code != "" {
		failed.Code = code
	}
	var hints []string
	for _, err := range parts {
		if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
			hints = append(hints, e.Hint)
		}
	}
	failed.Hint = strings.Join(hints, "; ")
	return failed
}

// announce prints where the branch is.
func (p *publication) announce(here bool) string {
	var at []string
	if here {
		at = append(at, "in "+quote.Path(p.to))
	}
	if p.req.Push {
		at = append(at, "at "+quote.Line(p.remote.Show))
	}
	said := "the branch " + quote.Arg(p.req.Branch) + " stays " + strings.Join(at, " and ")
	if p.result.PullRequest != "" {
		said += ", and the pull request is " + quote.Line(p.result.PullRequest)
	}
	return said
}

// Receipts lists the receipts of the runs whose work an accepted state has, and the
// decision by which the cell keeps each.
func Receipts(h *home.Home, c store.Cell, at store.Checkpoint) (out []api.PublishedReceipt, err error) {
	err = h.View(func(tx *store.Tx) (err error) {
		out, err = keptRuns(tx, c, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, r := range out {
		if out[i].DecisionID, err = keptBy(h, c, r.RunID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// keptBy returns the decision by which a cell keeps the work of a run: its own, or that of
// the nearest cell that it was forked from. Other forks may have decided otherwise.
func keptBy(h *home.Home, c store.Cell, run string) (decision string, err error) {
	for {
		list, err := h.Evidence.Decisions(c.ID, run)
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
		err = h.View(func(tx *store.Tx) (err error) {
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

// pushHint names the way to push a branch that this cell published without a push, in
// place of the error that the branch exists.
func (p *publication) pushHint(err error) error {
	if !p.req.Push || api.CodeOf(err) != api.CodeExists {
		return err
	}
	commit, readErr := publish.BranchCommit(p.to, p.req.Branch)
	if readErr != nil || commit == "" {
		return err
	}
	if ours, viewErr := p.publishedOnlyHere(commit); viewErr != nil || !ours {
		return err
	}
	return api.WithHint(err, api.CodeExists, "it was published without a push; `git -C "+quote.Arg(p.to)+" push origin "+quote.Arg(p.req.Branch)+"` pushes it")
}

// publishedOnlyHere reports whether this cell published a commit on the branch, and did
// not push it.
func (p *publication) publishedOnlyHere(commit string) (ours bool, err error) {
	err = p.Home.Store.View(func(tx *store.Tx) error {
		list, err := tx.Statements(p.Record.ID)
		for _, st := range list {
			env, readErr := p.Home.Evidence.Envelope(st.Seq)
			if err = errors.Join(err, readErr); err != nil {
				return err
			}
			if c, is := env.Statement.Predicate.(*receipt.Change); is && c.Op == receipt.OpPublish && c.Details["commit"] == commit {
				ours = c.Details["branch"] == p.req.Branch && c.Details["pushed_to"] == ""
			}
		}
		return err
	})
	return ours, err
}
