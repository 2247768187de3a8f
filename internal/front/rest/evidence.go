package rest

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// addEvidence adds the routes that show and verify what was signed.
func (s *Server) addEvidence() {
	handle(s, op.ListReceipts, s.listReceipts)
	handle(s, op.GetReceipt, s.getReceipt)
	handle(s, op.GetBundle, s.getBundle)
	routeBy(s, op.VerifyReceipts, s.verifyReceipts)
	handle(s, op.ListDecisions, s.listDecisions)
	handle(s, op.Graph, s.graph)
}

// OfCell is the input of a list that may be of one cell.
type OfCell struct {
	Page
	Cell string `query:"cell" doc:"Only those of this cell."`
}

func (s *Server) listReceipts(ctx context.Context, c *call, in *OfCell) (*api.List[api.ReceiptInfo], error) {
	if err := c.visible(in.Cell); err != nil {
		return nil, err
	}
	list, err := c.engine.ReceiptList(ctx, in.Cell)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(r api.ReceiptInfo) bool { return !c.caller.sees(r.Cell) })
	return cut(in.Page, list, func(r api.ReceiptInfo) string { return timeKey(r.CreatedAt, r.ReceiptID) })
}

// visible refuses the name of a cell that the caller may not know of. "" for none.
func (c *call) visible(cell string) error {
	if cell != "" && !c.caller.sees(cell) {
		return api.Missing("cell", cell, "")
	}
	return nil
}

type receiptInput struct {
	Receipt string `path:"receipt" doc:"Id of the receipt."`
}

func (s *Server) getReceipt(ctx context.Context, c *call, in *receiptInput) (*json.RawMessage, error) {
	doc, err := s.receipt(ctx, c, in.Receipt)
	if err != nil {
		return nil, err
	}
	return (*json.RawMessage)(&doc.JSON), nil
}

func (s *Server) receipt(ctx context.Context, c *call, id string) (*api.ReceiptDoc, error) {
	doc, err := c.engine.Receipt(ctx, id, "", false)
	if err == nil && !c.caller.sees(doc.Info.Cell) {
		err = api.Missing("receipt", id, "")
	}
	return doc, err
}

func (s *Server) getBundle(ctx context.Context, c *call, in *receiptInput) (*json.RawMessage, error) {
	if _, err := s.receipt(ctx, c, in.Receipt); err != nil {
		return nil, err
	}
	bundle, err := c.engine.Bundle(ctx, in.Receipt)
	return (*json.RawMessage)(&bundle), err
}

func (s *Server) verifyReceipts(ctx context.Context, c *call, b *api.ReceiptVerifyRequest) (*api.ReceiptVerifyResult, error) {
	chosen := 0
	for _, given := range []bool{b.Receipt != "", b.Cell != "", b.All, b.Bundle != nil} {
		if given {
			chosen++
		}
	}
	if chosen != 1 {
		return nil, api.Usagef("send one of receipt, cell, all and bundle", "name one thing to verify")
	}
	if b.All && !c.caller.seesAll() {
		return nil, api.Refusef(api.CodeForbidden, "verify a cell", "the token sees a part of the cells only")
	}
	if err := c.visible(b.Cell); err != nil {
		return nil, err
	}
	if b.Receipt != "" {
		if _, err := s.receipt(ctx, c, b.Receipt); err != nil {
			return nil, err
		}
	}
	res, err := c.engine.VerifyReceipts(ctx, *b)
	if res != nil {
		// What does not hold is in the result: the verification itself worked.
		return res, nil
	}
	return nil, err
}

type listDecisionsInput struct {
	OfCell
	Run string `query:"run" doc:"Only those about this run."`
}

func (s *Server) listDecisions(ctx context.Context, c *call, in *listDecisionsInput) (*api.List[api.DecisionInfo], error) {
	if err := c.visible(in.Cell); err != nil {
		return nil, err
	}
	list, err := c.engine.Decisions(ctx, in.Cell, in.Run)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(d api.DecisionInfo) bool { return !c.caller.sees(d.Cell) })
	return cut(in.Page, list, func(d api.DecisionInfo) string { return timeKey(d.CreatedAt, d.DecisionID) })
}

func (s *Server) graph(ctx context.Context, c *call, in *Page) (*api.List[api.GraphNode], error) {
	nodes, err := c.engine.Graph(ctx)
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, func(n api.GraphNode) bool { return !c.caller.sees(n.Cell) })
	for i := range nodes {
		nodes[i].Heads = slices.DeleteFunc(nodes[i].Heads, func(cell string) bool { return !c.caller.sees(cell) })
	}
	return cut(*in, nodes, func(n api.GraphNode) string { return timeKey(n.CreatedAt, n.CheckpointID) })
}
