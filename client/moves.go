package client

import (
	"context"
	"iter"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Checkpoint names the present state. With Memory it also keeps the processes of a live
// cell of the runtime gvisor, for Branch.
func (c *Cell) Checkpoint(ctx context.Context, r Checkpoint, opts ...CallOption) (*CheckpointResult, error) {
	r.Cell = c.Name
	return ask(ctx, c.client, op.CreateCheckpoint, r, opts)
}

// Checkpoints returns the states of the cell, the oldest first.
func (c *Cell) Checkpoints(ctx context.Context) iter.Seq2[CheckpointInfo, error] {
	return list[CheckpointInfo](ctx, c.client, op.ListCheckpoints.At(c.Name), nil)
}

// Restore goes back to a state; without one, to the state before the last run.
func (c *Cell) Restore(ctx context.Context, r Restore, opts ...CallOption) (*MoveResult, error) {
	r.Cell = c.Name
	return c.goBack(ask(ctx, c.client, op.Restore, r, opts))
}

// goBack notes that the cell was moved to an earlier state.
func (c *Cell) goBack(res *MoveResult, err error) (*MoveResult, error) {
	if err == nil {
		c.seen.left(res.RunID)
	}
	return res, err
}

// Accept accepts undecided work: a run, or Runs. Without them it accepts what this Cell has
// shown, by Diff and as the results of runs, and nothing that came meanwhile: if other work
// is part of that, it fails with the code not_shown. A Cell that has shown nothing accepts
// all undecided work; the result names it. With Apply a refused apply does not change the
// decision: then there can be a result and an error.
func (c *Cell) Accept(ctx context.Context, r Accept, opts ...CallOption) (*AcceptResult, error) {
	sent := false
	if r.Apply {
		var err error
		if sent, err = c.isSent(ctx); err != nil {
			return nil, err
		}
	}
	r.Apply = r.Apply && !sent
	c.seen.bind(&r, opts)
	r.Cell = c.Name
	res, err := ask(ctx, c.client, op.Accept, r, opts)
	if err != nil {
		return res, err
	}
	c.seen.set(nil)
	if sent {
		res.Applied, err = c.applyHere(ctx, Apply{})
	}
	return res, err
}

// Reject rejects a run and goes back to the state before it.
func (c *Cell) Reject(ctx context.Context, r Reject, opts ...CallOption) (*MoveResult, error) {
	r.Cell = c.Name
	return c.goBack(ask(ctx, c.client, op.Reject, r, opts))
}

// Apply writes accepted work to the source directory, or to another one.
func (c *Cell) Apply(ctx context.Context, r Apply, opts ...CallOption) (*ApplyResult, error) {
	if sent, err := c.writesHere(ctx, opts); sent || err != nil {
		return here(err, func() (*ApplyResult, error) { return c.applyHere(ctx, r) })
	}
	r.Cell = c.Name
	return ask(ctx, c.client, op.Apply, r, opts)
}

// Undo takes the last apply back.
func (c *Cell) Undo(ctx context.Context, r Undo, opts ...CallOption) (*ApplyResult, error) {
	if sent, err := c.writesHere(ctx, opts); sent || err != nil {
		return here(err, func() (*ApplyResult, error) { return c.undoHere(ctx, r) })
	}
	r.Cell = c.Name
	return ask(ctx, c.client, op.Undo, r, opts)
}

// Refresh takes over what changed in the source directory.
func (c *Cell) Refresh(ctx context.Context, r Refresh, opts ...CallOption) (*RefreshResult, error) {
	if r.Upload == "" {
		if sent, err := c.writesHere(ctx, opts); sent || err != nil {
			return here(err, func() (*RefreshResult, error) { return c.refreshHere(ctx, r) })
		}
	}
	r.Cell = c.Name
	return ask(ctx, c.client, op.Refresh, r, opts)
}

// Verify recomputes the hashes of states.
func (c *Cell) Verify(ctx context.Context, r Verify, opts ...CallOption) (*VerifyResult, error) {
	r.Cell = c.Name
	return ask(ctx, c.client, op.VerifyCell, r, opts)
}

// here calls do unless an error is known.
func here[T any](err error, do func() (*T, error)) (*T, error) {
	if err != nil {
		return nil, err
	}
	return do()
}
