package client

import (
	"context"
	"net/http"

	"github.com/forkcell/forkcell/internal/api/sse"

	"github.com/forkcell/forkcell/internal/api/op"
)

// RaceAnswer is the result of a race.
type RaceAnswer struct {
	RaceResult
	Attempts []Attempt `json:"attempts"`
}

// Attempt is how one attempt of a race ended, and how it was judged.
type Attempt struct {
	RaceAttempt
	client *Client
}

// Diff compares the states before and after the attempt. Its cell must have been kept.
func (a Attempt) Diff() *Diff {
	return a.client.Cells.Named(a.Cell).Diff(States{Run: a.RunID})
}

// Best returns the attempt that won, or nil if all failed.
func (r *RaceAnswer) Best() *Attempt {
	for i, a := range r.Attempts {
		if r.Winner != nil && a.Attempt == *r.Winner {
			return &r.Attempts[i]
		}
	}
	return nil
}

// OnAttempt has Race call a function with each attempt when its command has ended.
func OnAttempt(f func(RaceAttempt)) CallOption { return func(c *call) { c.attempt = f } }

// OnJudged has Race call a function with each attempt when it has been judged.
func OnJudged(f func(RaceAttempt)) CallOption { return func(c *call) { c.judged = f } }

// Choose accepts an attempt of a race that has ended into the cell that was raced. Its
// cell must have been kept. With Apply a refused apply does not change the decision: then
// there can be a result and an error.
func (c *Cell) Choose(ctx context.Context, r Choose, opts ...CallOption) (*RaceAnswer, error) {
	if r.Apply {
		sent, err := c.isSent(ctx)
		if err != nil {
			return nil, err
		}
		if sent {
			return c.chooseHere(ctx, r, opts)
		}
	}
	r.Cell = c.Name
	path, err := op.Choose.Target(&r)
	if err != nil {
		return nil, err
	}
	res, err := post[RaceAnswer](ctx, c.client, path, r, opts)
	if err != nil {
		return nil, err
	}
	res.of(c.client)
	return res, nil
}

// chooseHere chooses, and has the local program write to a directory of this machine.
func (c *Cell) chooseHere(ctx context.Context, r Choose, opts []CallOption) (*RaceAnswer, error) {
	r.Apply = false
	res, err := c.Choose(ctx, r, opts...)
	if err != nil {
		return nil, err
	}
	res.Applied, err = c.applyHere(ctx, Apply{})
	return res, err
}

func (r *RaceAnswer) of(c *Client) {
	for i := range r.Attempts {
		r.Attempts[i].client = c
	}
}

// Race tries commands in forks of the cell, judges the results, and names the best. The
// request need not name the cell. The end of the context ends the race. With Apply to a
// daemon elsewhere a refused apply does not change the decision: then there can be a
// result and an error.
func (c *Cell) Race(ctx context.Context, r Race, opts ...CallOption) (*RaceAnswer, error) {
	r.Cell = c.Name
	sent := false
	if r.Accept && r.Apply {
		var err error
		if sent, err = c.isSent(ctx); err != nil {
			return nil, err
		}
	}
	r.Apply = r.Apply && !sent
	in, err := newCall(http.MethodPost, op.Race.Path, r, opts)
	if err != nil {
		return nil, err
	}
	res, err := c.race(ctx, in)
	if err != nil {
		return nil, err
	}
	res.of(c.client)
	if sent && res.Winner != nil {
		res.Applied, err = c.applyHere(ctx, Apply{})
	}
	return res, err
}

func (c *Cell) race(ctx context.Context, in *call) (*RaceAnswer, error) {
	if in.attempt == nil && in.judged == nil {
		return receive[RaceAnswer](ctx, c.client, in)
	}
	return follow[RaceAnswer](ctx, c.client, in, func(m sse.Event) error {
		f := map[string]func(RaceAttempt){"attempt": in.attempt, "judged": in.judged}[m.Name]
		if f == nil {
			return nil
		}
		var a RaceAttempt
		if err := decode(m, &a); err != nil {
			return err
		}
		f(a)
		return nil
	})
}

// Attempts returns attempts of a race that each have a line for the shell.
func Attempts(lines ...string) []RaceCommand {
	var list []RaceCommand
	for _, line := range lines {
		list = append(list, RaceCommand{Command: Shell(line)})
	}
	return list
}
