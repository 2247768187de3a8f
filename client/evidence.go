package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Receipts shows and verifies what was signed.
type Receipts struct{ client *Client }

// List returns the receipts of a cell, the oldest first; "" is all cells.
func (s *Receipts) List(ctx context.Context, cell string) iter.Seq2[ReceiptInfo, error] {
	return list[ReceiptInfo](ctx, s.client, op.ListReceipts.Path, url.Values{"cell": {cell}})
}

// Get returns the statement of a receipt with its present decision, as JSON.
func (s *Receipts) Get(ctx context.Context, id string) (json.RawMessage, error) {
	return s.document(ctx, op.GetReceipt.At(id))
}

// Bundle returns a bundle that can be verified elsewhere, for example by package
// receipt.
func (s *Receipts) Bundle(ctx context.Context, id string) (json.RawMessage, error) {
	return s.document(ctx, op.GetBundle.At(id))
}

func (s *Receipts) document(ctx context.Context, path string) (json.RawMessage, error) {
	doc, err := get[json.RawMessage](ctx, s.client, path)
	if err != nil {
		return nil, err
	}
	return *doc, nil
}

// Verify checks signatures, chains and bound hashes. What does not hold is in the
// result.
func (s *Receipts) Verify(ctx context.Context, r VerifyReceipts) (*ReceiptVerifyResult, error) {
	return ask(ctx, s.client, op.VerifyReceipts, r, nil)
}

// Decisions shows what was decided.
type Decisions struct{ client *Client }

// List returns the decisions about a cell and a run, the oldest first; "" is all.
func (s *Decisions) List(ctx context.Context, cell, run string) iter.Seq2[DecisionInfo, error] {
	return list[DecisionInfo](ctx, s.client, op.ListDecisions.Path, url.Values{"cell": {cell}, "run": {run}})
}

// Graph returns the lineage of all states, the oldest first.
func (c *Client) Graph(ctx context.Context) iter.Seq2[GraphNode, error] {
	return list[GraphNode](ctx, c, op.Graph.Path, nil)
}
