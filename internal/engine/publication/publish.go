// Package publication publishes what a cell has accepted: it finds the changes and their
// evidence, has package publish make the branch, and states what was done.
//
// It knows no runs of commands, no driver, and nothing of how work is accepted.
package publication

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/history"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/publish"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// maxTrailers bounds the receipts that a commit names.
const maxTrailers = 20

// publication is the state of one publish while it is carried out.
type publication struct {
	*held.Cell
	by       *Publisher
	req      api.PublishRequest
	id       string
	to       string // the directory of the repository
	settings publish.Settings
	accepted store.Checkpoint
	began    []startingState // the states that the work began with
	runs     []api.PublishedReceipt
	result   *api.PublishResult
	remote   publish.Remote
	pull     *pull // nil if none is made
	// received is the work of a daemon's cell, for which this one is the mirror; else nil.
	received *ReceivedWork
}

// Publisher publishes accepted work.
type Publisher struct {
	*home.Home
	holder   *held.Holder
	masks    *aside.Memo
	receipts *history.History
}

// New makes the Publisher of a home.
func New(h *held.Holder, masks *aside.Memo, receipts *history.History) *Publisher {
	return &Publisher{h.Home, h, masks, receipts}
}

// Publish puts the accepted changes of a cell on a new branch of the repository in
// the source directory, or in the one that the request names.
func (p *Publisher) Publish(ctx context.Context, req api.PublishRequest) (*api.PublishResult, error) {
	s, err := p.holder.Hold(ctx, held.Request{Name: req.Cell, For: "publish"})
	if err != nil {
		return nil, err
	}
	defer s.Release()
	return p.PublishHeld(ctx, s, req, nil)
}

// PublishHeld is Publish of a cell that is held. received, if set, is the work of a
// daemon's cell, for which this one is the mirror.
func (p *Publisher) PublishHeld(ctx context.Context, s *held.Cell, req api.PublishRequest, received *ReceivedWork) (*api.PublishResult, error) {
	return (&publication{Cell: s, by: p, req: req, id: store.NewID("publish"), received: received}).run(ctx)
}

// run makes the commit, and publishes it unless the request is a dry run.
func (p *publication) run(ctx context.Context) (_ *api.PublishResult, err error) {
	req := p.req
	if err := p.prepare(); err != nil {
		return nil, err
	}
	repo, err := p.openRepository()
	if err != nil {
		return nil, err
	}
	defer repo.Close()
	scratch, remove, err := p.scratch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	work, err := p.work(ctx, repo, scratch)
	if err != nil {
		return nil, p.pushHint(err)
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	p.describe(work)
	if req.Push {
		if p.remote, err = work.Remote(ctx); err != nil {
			return nil, err
		}
		p.result.PushedTo = quote.UTF8(p.remote.Show)
	}
	if req.PR {
		if err := p.preparePull(ctx, work.Base); err != nil {
			return nil, err
		}
		defer p.pull.token.Drop()
	}
	if req.DryRun {
		return p.result, nil
	}
	return p.result, p.carryOut(ctx, work)
}

// openRepository opens the directory of the repository.
func (p *publication) openRepository() (*fsx.Dir, error) {
	if p.req.To != "" {
		if err := p.Home.RefuseOverlap("--to", p.to); err != nil {
			return nil, err
		}
	}
	repo, err := p.Home.OpenHost(p.to)
	_, known := errors.AsType[*api.Error](err)
	switch {
	case err == nil || known:
		return repo, err
	case p.req.To != "":
		return nil, api.Usagef("give the directory of a repository with --to", "%s: %v", quote.Path(p.to), quote.Cause(err))
	}
	return nil, home.SourceGone(p.Record, err, "`forkcell publish "+quote.Arg(p.Record.Name)+" --to DIR` names where it is now")
}

// scratch makes a directory for one publication, which a later gc removes if this
// process dies.
func (p *publication) scratch() (path string, remove func() error, err error) {
	dir, err := fsx.OpenRoot(p.Home.Path)
	if err != nil {
		return "", nil, err
	}
	name := "pending/" + p.id
	if err := dir.MkdirAll(name, 0o700); err != nil {
		return "", nil, errors.Join(err, dir.Close())
	}
	return p.Home.Path + "/" + name, func() error { return errors.Join(dir.RemoveAll(name), dir.Close()) }, nil
}

// prepare reads the operator's settings, and finds the accepted state.
func (p *publication) prepare() error {
	if err := p.findRepository(); err != nil {
		return err
	}
	if err := p.readSettings(); err != nil {
		return err
	}
	var waiting *home.OldestUndecided
	var hint string
	err := p.Home.Store.View(func(tx *store.Tx) (err error) {
		if p.accepted, waiting, err = home.NewestAccepted(tx, p.Record, p.Head); err != nil {
			return err
		}
		if waiting != nil {
			if hint, err = home.AcceptHint(tx, p.Record, "", "accepts it"); err != nil {
				return err
			}
		}
		if p.received != nil {
			return p.findReceivedBegan(tx)
		}
		return p.findBegan(tx)
	})
	if err != nil {
		return err
	}
	if p.received != nil {
		p.runs = p.received.Receipts
		return nil
	}
	if waiting != nil && p.accepted.ID == p.began[0].state.ID {
		return api.Refusef(api.CodePending, hint, "%s: only accepted changes are published", waiting.Describe(p.Record))
	}
	p.runs, err = Receipts(p.Home, p.Record, p.accepted)
	return err
}

// findRepository finds the directory of the repository.
func (p *publication) findRepository() error {
	const hint = "`--to DIR` names a directory with a repository"
	switch {
	case p.req.To != "":
		to, err := p.Home.Caller.AbsPath(string(p.req.To))
		p.to = filepath.Clean(to)
		return err
	case p.Record.SourceKind == statements.SourceLost:
		return api.Refusef(api.CodeNoSource, hint, "the record of the source of cell %s is lost", p.Record.Name)
	case p.Record.SourceKind != "dir":
		return api.Refusef(api.CodeNoSource, hint, "cell %s has no source directory", p.Record.Name)
	}
	p.to = p.Record.Source
	return nil
}

// readSettings reads the operator's file of settings, if there is one. It must be the
// operator's own.
func (p *publication) readSettings() error {
	if p.req.Settings == "" {
		return nil
	}
	text, err := fsx.ReadOwn(p.req.Settings, 0o022, publish.MaxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return api.Refusef(api.CodeGate, "it must be yours alone", "%s: %v", quote.Path(p.req.Settings), err)
	}
	if p.settings, err = publish.ParseSettings(text); err != nil {
		return api.Usagef("`forkcell help publish-settings` lists them", "%s: %s", quote.Path(p.req.Settings), quote.Line(err.Error()))
	}
	return nil
}

// work makes the commit in the scratch directory.
func (p *publication) work(ctx context.Context, repo *fsx.Dir, scratch string) (*publish.Work, error) {
	changes, err := p.changes(ctx)
	if err != nil {
		return nil, err
	}
	defaults, err := secretfiles.New(secretfiles.Options{})
	if err != nil {
		return nil, err
	}
	history, err := p.history()
	if err != nil {
		return nil, err
	}
	return publish.Prepare(ctx, publish.Options{
		History: history,
		ID:      p.id, Repo: repo, Path: p.to, Scratch: scratch, Env: p.Home.Caller.Env, Closed: p.Home.Caller.Closed, Home: p.Home.Caller.Home, Settings: p.settings,
		Branch: p.req.Branch, Base: p.req.Base, Title: p.title(), Message: p.req.Message, Trailers: p.trailers(), Sign: p.req.Sign, Changes: changes,
		HasToken: p.req.HasToken,
		Secret: func(path string) (string, bool) {
			if rule, is := defaults.Match(path, false); is {
				return rule, true
			}
			return p.At.Rules.Match(path, false)
		},
	})
}

// trailers name the evidence of the work in the commit.
func (p *publication) trailers() []publish.Trailer {
	out := []publish.Trailer{{Key: "Forkcell-State", Value: p.shownState() + " " + p.accepted.Root()}}
	for _, r := range p.runs[:min(len(p.runs), maxTrailers)] {
		out = append(out, publish.Trailer{Key: "Forkcell-Receipt", Value: r.ReceiptID})
		if r.DecisionID != "" {
			out = append(out, publish.Trailer{Key: "Forkcell-Decision", Value: r.DecisionID})
		}
	}
	return out
}

func (p *publication) describe(w *publish.Work) {
	p.result = &api.PublishResult{
		Cell: p.shownCell(), PublishID: p.id, DryRun: p.req.DryRun, Repository: quote.UTF8(p.to), Branch: p.req.Branch, Base: w.Base,
		BaseCommit: w.BaseCommit, Commit: w.Commit, Commits: w.Commits, Signed: w.Signed, Checkpoint: p.shownState(), Root: p.accepted.Root(),
		Receipts: append([]api.PublishedReceipt{}, p.runs...), Changes: []api.PublishedChange{}, Ignored: []string{},
		Files: w.Size.Files, Lines: w.Size.Lines, Bytes: w.Size.Bytes, Areas: w.Size.Areas, Binaries: w.Size.Binaries,
		Limits: api.PublishLimits{
			Files: w.Rules.Files, Lines: w.Rules.Lines, Bytes: int64(w.Rules.Bytes), Areas: w.Rules.Areas, Binaries: w.Rules.Binaries,
		},
		WithoutEffect: append([]string{}, w.Rules.WithoutEffect...),
	}
	for _, c := range w.Paths {
		out := api.PublishedChange{Path: quote.UTF8(c.Path), Change: c.Change}
		if !utf8.ValidString(c.Path) {
			out.PathBase64 = base64.StdEncoding.EncodeToString([]byte(c.Path))
		}
		p.result.Changes = append(p.result.Changes, out)
	}
	for _, path := range w.Ignored {
		p.result.Ignored = append(p.result.Ignored, quote.UTF8(path))
	}
}

// publishIntent is the record of a publication while it is carried out. A push comes
// before the branch: a branch that exists was pushed.
type publishIntent struct {
	Repository string            `json:"repository"`
	Branch     string            `json:"branch"`
	Commit     string            `json:"commit"`
	Details    map[string]string `json:"details"`
}

// carryOut pushes, makes the branch and records it. A failed push leaves the repository
// as it was. After a push all the rest is tried, whatever of it fails.
func (p *publication) carryOut(ctx context.Context, w *publish.Work) error {
	in := publishIntent{Repository: p.to, Branch: p.req.Branch, Commit: w.Commit, Details: p.details(w)}
	if err := p.Home.Store.Update(func(tx *store.Tx) error { return tx.PutIntent(p.id, p.Record.ID, kindPublish, in) }); err != nil {
		return err
	}
	failpoint.Hit("publish.intent")
	if p.req.Push {
		if err := w.Push(ctx, p.remote); err != nil {
			return errors.Join(err, p.DropIntent(p.id))
		}
	}
	added := w.AddBranch(ctx)
	switch {
	case added == nil:
		failpoint.Hit("publish.branch")
	case !p.req.Push:
		return errors.Join(added, p.DropIntent(p.id))
	default:
		in.Details[detailPublishState] = publishedPushOnly
		added = p.notAdded(added)
	}
	recorded := p.record(ctx, in)
	if p.pull == nil {
		return p.halfDone(nil, added, recorded)
	}
	made := p.openPull(ctx)
	if made == nil {
		recorded = p.recordPull(ctx, in.Details) // it has all that the first one has
	}
	return p.halfDone(made, added, recorded)
}

// The details of a statement about a publication, and the values of its state.
const (
	detailPublishState = "state_of_publication"
	publishedPushOnly  = "pushed, without the branch in the repository"
	publishedUnknown   = "interrupted: the branch may have been pushed"
)

func (p *publication) details(w *publish.Work) map[string]string {
	receipts := make([]string, 0, len(p.runs))
	for _, r := range p.runs {
		receipts = append(receipts, r.ReceiptID)
	}
	text, _ := json.Marshal(receipts) // strings can always be encoded
	d := map[string]string{
		"publish_id": p.id, "repository": quote.UTF8(p.to), "branch": quote.UTF8(p.req.Branch), "base": quote.UTF8(w.Base),
		"base_commit": w.BaseCommit, "commit": w.Commit, "tree": w.Tree, "signed": w.Signed,
		"published": p.shownState(), "published_root": p.accepted.Root(), "receipts": string(text),
	}
	if p.req.Push {
		d["pushed_to"] = quote.UTF8(p.remote.Show)
	}
	return d
}

// record states what was published, here and in the log of the daemon whose work it is.
func (p *publication) record(ctx context.Context, in publishIntent) error {
	if err := recordPublish(p.Cell, p.id, in); err != nil {
		return err
	}
	return p.report(ctx, in.Details)
}

// recordPublish states what was published, and ends the intent.
func recordPublish(s *held.Cell, id string, in publishIntent) error {
	return s.Home.Store.Update(func(tx *store.Tx) error {
		if err := tx.DropIntent(id); err != nil {
			return err
		}
		return s.Home.Evidence.Change(tx, s.Record, s.Head, receipt.OpPublish, in.Details)
	})
}

// kindPublish is the kind of the intent of a publication.
const kindPublish = "publish"

// Finisher returns the finisher of publications.
func Finisher() held.Finisher {
	return held.Finisher{Kind: kindPublish, Finish: func(_ context.Context, s *held.Cell, in store.Intent) error { return finishPublication(s, in) }}
}

// finishPublication records the publication of a process that died, as far as it got.
func finishPublication(s *held.Cell, in store.Intent) error {
	var doc publishIntent
	if err := json.Unmarshal(in.Doc, &doc); err != nil {
		return err
	}
	found, err := publish.BranchCommit(doc.Repository, doc.Branch)
	if err != nil {
		s.Home.Logger.Warn("look for a published branch", "repository", doc.Repository, "error", err)
	}
	switch {
	case found == doc.Commit:
	case doc.Details["pushed_to"] != "":
		doc.Details[detailPublishState] = publishedUnknown
	default:
		return s.DropIntent(in.ID) // the repository is as it was
	}
	return recordPublish(s, in.ID, doc)
}
