package publication

import (
	"context"
	"maps"
	"strings"

	"github.com/forkcell/forkcell/receipt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/publish"
	"github.com/forkcell/forkcell/internal/publish/forge"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// pull is a pull request that is made after the push. All that it needs is found
// before anything is published.
type pull struct {
	forge forge.Forge
	token *credential.Value
	doc   forge.PullRequest
}

// preparePull finds the service, the token and the text of a pull request.
func (p *publication) preparePull(ctx context.Context, base string) error {
	f, ok := forge.Find(p.settings.Forges, p.remote.Host)
	if !ok {
		return api.Refusef(api.CodePullRequest, "list its host under forges in publish.yaml of your configuration directory",
			"%s is no service that is known for pull requests", quote.Line(p.remote.Show))
	}
	if err := f.CheckRepo(p.remote.Path); err != nil {
		return api.Refusef(api.CodePullRequest, "", "the push URL of origin: %v", err)
	}
	body, err := p.pullBody(ctx)
	if err == nil {
		err = publish.CheckText(map[string]string{"the text of the pull request": body})
	}
	if err != nil {
		return err
	}
	token, err := p.pullToken(ctx, f)
	if err != nil {
		return err
	}
	p.pull = &pull{f, token, forge.PullRequest{Repo: p.remote.Path, Branch: p.req.Branch, Base: base, Title: p.title(), Body: body}}
	return nil
}

// pullToken reads the operator's token for a service.
func (p *publication) pullToken(ctx context.Context, f forge.Forge) (*credential.Value, error) {
	var last error
	for _, text := range f.Sources() {
		source, err := credential.ParseSource(text)
		if err != nil {
			return nil, api.Usagef("", "forges: the token of %s: %v", quote.Arg(f.Host), err)
		}
		value, err := p.Home.Caller.Reader().Read(ctx, source)
		if err == nil {
			return value, nil
		}
		last = err
	}
	return nil, api.Refusef(api.CodePullRequest, "it is looked for in "+strings.Join(f.Sources(), " and "),
		"there is no token for pull requests at %s: %v", quote.Arg(f.Host), last)
}

// pullBody returns the text of a pull request: the message, and the newest receipt.
func (p *publication) pullBody(ctx context.Context) (string, error) {
	parts := []string{}
	if text := strings.TrimSpace(p.req.Message); text != "" {
		parts = append(parts, text)
	}
	if len(p.runs) > 0 {
		read := p.by.receipts.Receipt
		if p.received != nil {
			read = p.received.Receipt
		}
		doc, err := read(ctx, p.runs[0].ReceiptID, "", false)
		if err != nil {
			return "", err
		}
		parts = append(parts, string(doc.Markdown))
	}
	return strings.Join(parts, "\n\n"), nil
}

// openPull makes the pull request.
func (p *publication) openPull(ctx context.Context) (err error) {
	token := p.pull.token.HandOver()
	defer clear(token)
	if p.result.PullRequest, err = p.pull.forge.Open(ctx, string(token), p.pull.doc); err == nil {
		return nil
	}
	failed := api.Failf(api.CodePullRequest, err, "the pull request could not be made")
	failed.Hint = "make it from that branch on the pages of the service, or publish again with another --branch"
	return failed
}

// recordPull states the publication once more, with its pull request.
func (p *publication) recordPull(ctx context.Context, details map[string]string) error {
	more := maps.Clone(details)
	more["pull_request"] = quote.UTF8(p.result.PullRequest)
	err := p.Home.Store.Update(func(tx *store.Tx) error { return p.Home.Evidence.Change(tx, p.Record, p.Head, receipt.OpPublish, more) })
	if err != nil {
		return err
	}
	return p.report(ctx, more)
}
