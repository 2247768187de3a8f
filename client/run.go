package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Stdout has Run and Exec write the standard output of the command to w as it comes.
func Stdout(w io.Writer) CallOption { return func(c *call) { c.stdout = w } }

// Stderr is Stdout for the standard error.
func Stderr(w io.Writer) CallOption { return func(c *call) { c.stderr = w } }

// OnStarted has Run and Exec call a function with the id of the run or exec once it
// has begun.
func OnStarted(f func(id string)) CallOption { return func(c *call) { c.started = f } }

func (c *call) streams() bool { return c.stdout != nil || c.stderr != nil || c.started != nil }

// Run runs a command as a transaction and returns its result when it has ended. A
// command that fails is no error. Stdout and Stderr stream its output; the result has
// the first MiB of each stream. The end of the context ends the run, and it is decided
// as its flags say.
func (c *Cell) Run(ctx context.Context, r Run, opts ...CallOption) (*RunAnswer, error) {
	in, err := newCall(http.MethodPost, op.Run.At(c.Name), r, opts)
	if err != nil {
		return nil, err
	}
	if !in.streams() {
		res, err := receive[RunAnswer](ctx, c.client, in)
		if err == nil {
			c.seen.ran(res.RunResult)
		}
		return res, err
	}
	out := newRecorder(in)
	res, err := follow[api.RunResult](ctx, c.client, in, out.take)
	if err != nil {
		return nil, err
	}
	c.seen.ran(*res)
	return &RunAnswer{RunResult: *res, Output: out.document()}, nil
}

// Begin begins a run that goes on without the caller. Runs.Get has its result when it
// has ended.
func (c *Cell) Begin(ctx context.Context, r Run, opts ...CallOption) (*RunStarted, error) {
	async := func(in *call) { in.header.Set("Prefer", "respond-async") }
	return post[RunStarted](ctx, c.client, op.Run.At(c.Name), r, append(opts, async))
}

// Runs returns the runs of the cell, the oldest first.
func (c *Cell) Runs(ctx context.Context) iter.Seq2[RunInfo, error] {
	return list[RunInfo](ctx, c.client, op.ListCellRuns.At(c.Name), nil)
}

// Runs finds runs of all cells.
type Runs struct{ client *Client }

// List returns the runs, the oldest first.
func (s *Runs) List(ctx context.Context) iter.Seq2[RunInfo, error] {
	return list[RunInfo](ctx, s.client, op.ListRuns.Path, nil)
}

// Get returns a run, which may be running. One that has ended has its Result.
func (s *Runs) Get(ctx context.Context, id string) (*RunInfo, error) {
	return get[RunInfo](ctx, s.client, op.GetRun.At(id))
}

// Cancel ends a run. It is decided as its flags say.
func (s *Runs) Cancel(ctx context.Context, id string) (*RunInfo, error) {
	return post[RunInfo](ctx, s.client, op.CancelRun.At(id), nil, nil)
}

// Output writes what a run wrote to its standard output, or to its standard error. With
// follow it goes on until the run has ended.
func (s *Runs) Output(ctx context.Context, id string, stderr, follow bool, w io.Writer) error {
	query := url.Values{"stream": {"stdout"}, "follow": {strconv.FormatBool(follow)}}
	if stderr {
		query.Set("stream", "stderr")
	}
	in, err := newCall(http.MethodGet, op.GetRun.At(id)+"/logs?"+query.Encode(), nil, nil)
	if err != nil {
		return err
	}
	in.header.Set("Accept", typeBytes)
	resp, err := s.client.send(ctx, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}
