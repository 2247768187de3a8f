package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/forkcell/forkcell/internal/api/op"
)

// States selects two states of cells. Without any it means those around all undecided work,
// which Accept takes then; else those of the last run, or the start and the present state of
// a live cell.
type States struct {
	Run string // what this run changed
	// From and To are states of the cell, or other cells. Without To it is the present
	// state.
	From, To   string
	Paths      []string // only these, and what is below them
	SinceApply bool     // what the source directory does not have yet
	All        bool     // also the cell's home
}

func (s States) query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"run": s.Run, "from": s.From, "to": s.To} {
		if value != "" {
			q.Set(key, value)
		}
	}
	for _, p := range s.Paths {
		q.Add("path", p)
	}
	if s.SinceApply {
		q.Set("since_apply", "true")
	}
	if s.All {
		q.Set("all", "true")
	}
	return q
}

// Diff is a comparison of two states. Each method compares them.
type Diff struct {
	client *Client
	path   string
	states States
	seen   *seen
}

// Diff returns the comparison of two states. It sends nothing.
func (c *Cell) Diff(s States) *Diff { return &Diff{c.client, op.Diff.At(c.Name), s, &c.seen} }

// Changes returns the paths that differ.
func (d *Diff) Changes(ctx context.Context) (*DiffResult, error) {
	res, err := get[DiffResult](ctx, d.client, d.path+"?"+d.states.query().Encode())
	switch {
	case err != nil:
		return nil, err
	case d.states.Run == "" && d.states.From == "" && d.states.To == "" && !d.states.SinceApply:
		d.seen.set(res.Runs)
	default:
		d.seen.add(res.Runs...)
	}
	return res, nil
}

// Stat returns the changed lines of each file, as text.
func (d *Diff) Stat(ctx context.Context) (string, error) { return d.text(ctx, "stat") }

// Patch returns a unified diff.
func (d *Diff) Patch(ctx context.Context) (string, error) { return d.text(ctx, "patch") }

// text returns a comparison as text. Of undecided work it is about the states that Changes
// has just seen.
func (d *Diff) text(ctx context.Context, format string) (string, error) {
	states := d.states
	if states.From == "" && states.To == "" && !states.SinceApply {
		res, err := d.Changes(ctx)
		if err != nil {
			return "", err
		}
		if len(res.Runs) > 0 {
			states.Run, states.From, states.To = "", res.From, res.To
		}
	}
	in, err := newCall(http.MethodGet, d.path+"?format="+format+"&"+states.query().Encode(), nil, nil)
	if err != nil {
		return "", err
	}
	in.header.Set("Accept", "text/plain")
	resp, err := d.client.send(ctx, in)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := readAll(resp.Body)
	return string(text), err
}
