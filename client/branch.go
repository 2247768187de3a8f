package client

import (
	"context"
	"net/http"

	"github.com/forkcell/forkcell/internal/api/op"
)

// BranchAnswer lists the cells of a branch.
type BranchAnswer struct {
	BranchResult
	client *Client
}

// Cells returns the new cells.
func (r *BranchAnswer) Cells() []*Cell {
	var cells []*Cell
	for _, name := range r.Names() {
		child := r.client.Cells.Named(name)
		child.seen.set([]string{r.CheckpointID})
		cells = append(cells, child)
	}
	return cells
}

// WarmPython makes the cell a template: a Python interpreter imports modules, runs a
// script and is warm. Then Branch makes cells that begin with its memory.
func (c *Cell) WarmPython(ctx context.Context, p WarmPython, r Start, opts ...CallOption) (*StartResult, error) {
	var w Warm
	if r.Warm != nil {
		w = *r.Warm
	}
	w.Python, r.Warm = &p, &w
	return c.Start(ctx, r, opts...)
}

// Branch makes live cells that begin with the memory and the files that a warm template
// or a live cell of the runtime gvisor has now, or that a checkpoint with memory has, all
// or none.
func (c *Cell) Branch(ctx context.Context, r Branch, opts ...CallOption) (*BranchAnswer, error) {
	made, err := post[BranchResult](ctx, c.client, op.Branch.At(c.Name), r, opts)
	if err != nil {
		return nil, err
	}
	return &BranchAnswer{*made, c.client}, nil
}

// Eval runs code in the warm interpreter of a live cell. What the code raised is in the
// result. If the context ends first, the code goes on. The call is sent once, unless it
// has an idempotency key.
func (c *Cell) Eval(ctx context.Context, r Eval, opts ...CallOption) (*EvalResult, error) {
	r.Cell = c.Name
	path, err := op.Eval.Target(&r)
	if err != nil {
		return nil, err
	}
	in, err := newCall(http.MethodPost, path, r, opts)
	if err != nil {
		return nil, err
	}
	return receive[EvalResult](ctx, c.client, in)
}
