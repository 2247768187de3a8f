package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Start makes the cell live: it runs until it is stopped, and Exec executes commands
// in it.
func (c *Cell) Start(ctx context.Context, r Start, opts ...CallOption) (*StartResult, error) {
	return post[StartResult](ctx, c.client, op.Start.At(c.Name), r, opts)
}

// Stop ends a live cell. The whole time that it was live is one run.
func (c *Cell) Stop(ctx context.Context, r Stop, opts ...CallOption) (*RunResult, error) {
	res, err := post[RunResult](ctx, c.client, op.Stop.At(c.Name), r, opts)
	if err == nil {
		c.seen.ran(*res)
	}
	return res, err
}

// Close stops the cell if it is live, and does not remove it. The context may have
// ended.
func (c *Cell) Close(ctx context.Context) error {
	_, err := c.Stop(context.WithoutCancel(ctx), Stop{})
	if HasCode(err, api.CodeNotStarted) {
		return nil
	}
	return err
}

// Pause stops the processes of a live cell until Resume. With the runtime gvisor they are
// kept on disk, and use no memory.
func (c *Cell) Pause(ctx context.Context, r Pause, opts ...CallOption) (*PauseResult, error) {
	r.Cell = c.Name
	return ask(ctx, c.client, op.Pause, r, opts)
}

// Resume continues the processes of a paused cell.
func (c *Cell) Resume(ctx context.Context, r Resume, opts ...CallOption) (*PauseResult, error) {
	return post[PauseResult](ctx, c.client, op.Resume.At(c.Name), r, opts)
}

// Processes returns the processes of a live cell.
func (c *Cell) Processes(ctx context.Context) iter.Seq2[ProcessInfo, error] {
	return list[ProcessInfo](ctx, c.client, op.ListProcesses.At(c.Name), nil)
}

// Exec executes a command in a live cell. Stdout and Stderr stream its output. The end
// of the context ends the command.
func (c *Cell) Exec(ctx context.Context, r Exec, opts ...CallOption) (*ExecAnswer, error) {
	in, err := newCall(http.MethodPost, op.Exec.At(c.Name), r, opts)
	if err != nil {
		return nil, err
	}
	if !in.streams() {
		return receive[ExecAnswer](ctx, c.client, in)
	}
	out := newRecorder(in)
	end, err := follow[api.ExecEnd](ctx, c.client, in, out.take)
	if err != nil {
		return nil, err
	}
	return &ExecAnswer{ExecEnd: *end, Output: out.document()}, nil
}
