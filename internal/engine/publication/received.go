package publication

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// maxReported bounds a text of a publication that a caller reports.
const maxReported = 4096

// isCommit reports whether a text has the form of a commit's id.
func isCommit(s string) bool { return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == "" }

// publishedThere is the state of a publication that this host did not see.
const publishedThere = "reported by the caller"

// RecordPublication states what a caller says that it published on its own machine, of
// work that the cell has accepted. It does not hold the cell: the branch is there already,
// so the statement must not fail because the cell is live or busy.
func (p *Publisher) RecordPublication(_ context.Context, b api.PublicationRequest) error {
	name := b.Cell
	if err := checkPublication(b); err != nil {
		return err
	}
	found, err := p.FindCell(name)
	if err != nil {
		return err
	}
	lock, err := p.Store.LockHome(false)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	p.Evidence.ForgetKey()
	return p.Store.Update(func(tx *store.Tx) error {
		c, err := tx.CellByID(found.ID)
		if err == nil && c.Name != name {
			err = api.Missing("cell", name, "it was renamed or removed meanwhile")
		}
		if err == nil {
			err = home.CheckRevision(tx, c, p.Caller.Expect)
		}
		if err != nil {
			return err
		}
		return p.recordReported(tx, c, b)
	})
}

func checkPublication(b api.PublicationRequest) error {
	for _, text := range []string{b.Repository, b.Branch, b.Base, b.Signed, b.PushedTo, b.PullRequest, b.State} {
		if len(text) > maxReported {
			return api.Usagef("", "a text of a publication has at most %d bytes", maxReported)
		}
	}
	if !api.IsID(b.PublishID) || !isCommit(b.Commit) || !isCommit(b.BaseCommit) || b.Branch == "" {
		return api.Usagef("", "a publication has an id, a branch, and commits as 40 hexadecimal digits")
	}
	return nil
}

// recordReported states a publication of a state that a cell has accepted.
func (p *Publisher) recordReported(tx *store.Tx, c store.Cell, b api.PublicationRequest) error {
	head, err := tx.Checkpoint(c.Head)
	if err != nil {
		return err
	}
	newest, _, err := home.NewestAccepted(tx, c, head)
	if err != nil {
		return err
	}
	line, err := tx.Lineage(newest.ID)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(line, func(s store.Checkpoint) bool { return s.ID == b.Checkpoint })
	if i < 0 {
		return api.Refusef(api.CodePending, "", "cell %s has not accepted the state %s: only accepted changes are published", c.Name, quote.Arg(b.Checkpoint))
	}
	runs, err := keptRuns(tx, c, line[i])
	if err != nil {
		return err
	}
	return p.Evidence.Change(tx, c, head, receipt.OpPublish, publicationDetails(b, line[i], runs))
}

// publicationDetails returns the details of a statement about a publication that a caller reports.
// State and receipts are those of this home.
func publicationDetails(b api.PublicationRequest, at store.Checkpoint, runs []api.PublishedReceipt) map[string]string {
	receipts := make([]string, 0, len(runs))
	for _, r := range runs {
		receipts = append(receipts, r.ReceiptID)
	}
	text, _ := json.Marshal(receipts) // strings can always be encoded
	d := map[string]string{
		"publish_id": b.PublishID, "repository": b.Repository, "branch": b.Branch, "base": b.Base, "base_commit": b.BaseCommit, "commit": b.Commit,
		"signed": b.Signed, "published": at.ID, "published_root": at.Root(), "receipts": string(text), detailPublishState: publishedThere,
	}
	if b.State != "" {
		d[detailPublishState] += ": " + b.State
	}
	for key, value := range map[string]string{"pushed_to": b.PushedTo, "pull_request": b.PullRequest} {
		if value != "" {
			d[key] = value
		}
	}
	return d
}
