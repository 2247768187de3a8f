package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Cells makes and finds cells.
type Cells struct{ client *Client }

// CellFilter selects cells. Zero fields select all.
type CellFilter struct {
	State  string // idle, running, live or paused
	Labels map[string]string
}

func (f CellFilter) query() url.Values {
	q := url.Values{"state": {f.State}}
	for key, value := range f.Labels {
		q.Add("label", key+"="+value)
	}
	return q
}

// Create makes a cell. A path of the source is one of the daemon's machine.
func (s *Cells) Create(ctx context.Context, r CreateCell, opts ...CallOption) (*Cell, error) {
	if r.ForkOf != "" {
		return nil, &Error{Kind: api.Usage, Code: api.CodeUsage, Message: "Create makes one cell from a source", Hint: "use Fork of the cell " + r.ForkOf}
	}
	made, err := post[InitResult](ctx, s.client, op.CreateCell.Path, r, opts)
	if err != nil {
		return nil, err
	}
	return &Cell{Name: made.Cell, Created: made, client: s.client}, nil
}

// CreateFrom makes a cell from a directory of this machine. To a daemon elsewhere the
// program forkcell of this machine sends the files, without those that the secret rules
// leave out; then Accept, Apply, Undo and Refresh of the cell use the same directory.
func (s *Cells) CreateFrom(ctx context.Context, dir string, r CreateCell, opts ...CallOption) (*Cell, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if !s.client.Local() {
		return s.sendDir(ctx, path, r)
	}
	r.Source = &Source{Path: path}
	return s.Create(ctx, r, opts...)
}

// Get returns a cell that exists.
func (s *Cells) Get(ctx context.Context, name string) (*Cell, error) {
	c := s.Named(name)
	_, err := c.Status(ctx)
	return c, err
}

// Named returns a cell without asking the daemon whether it exists.
func (s *Cells) Named(name string) *Cell { return &Cell{Name: name, client: s.client} }

// List returns the cells, the oldest first.
func (s *Cells) List(ctx context.Context, f CellFilter) iter.Seq2[CellInfo, error] {
	return list[CellInfo](ctx, s.client, op.ListCells.Path, f.query())
}

// Cell is one cell of a daemon. Its methods are the verbs of the command line.
type Cell struct {
	Name string
	// Created says how the cell was made. It is nil unless this client made it from a
	// source.
	Created *InitResult

	client *Client
	seen   seen
}

// Status returns everything about the cell.
func (c *Cell) Status(ctx context.Context) (*StatusResult, error) {
	return get[StatusResult](ctx, c.client, op.GetCell.At(c.Name))
}

// Log returns the history of the cell, the oldest first.
func (c *Cell) Log(ctx context.Context) iter.Seq2[LogEntry, error] {
	return list[LogEntry](ctx, c.client, op.GetLog.At(c.Name), nil)
}

// Disk returns the disk space of the cell.
func (c *Cell) Disk(ctx context.Context) (*DiskResult, error) {
	return ask(ctx, c.client, op.GetDisk, api.OfCell{Cell: c.Name}, nil)
}

// Update is a change of a cell. What is nil stays as it is.
type Update struct {
	Name *string
	// Labels are all labels. An empty map removes them.
	Labels map[string]string
	// TTL and IdleTimeout are durations such as 1h; "" is no limit. OnTimeout is stop,
	// pause or remove.
	TTL, IdleTimeout, OnTimeout *string
}

// Update changes the name and the settings of the cell.
func (c *Cell) Update(ctx context.Context, u Update, opts ...CallOption) (*CellInfo, error) {
	body := map[string]any{}
	for key, value := range map[string]*string{"name": u.Name, "ttl": u.TTL, "idle_timeout": u.IdleTimeout, "on_timeout": u.OnTimeout} {
		switch {
		case value == nil:
		case *value == "":
			body[key] = nil
		default:
			body[key] = *value
		}
	}
	if u.Labels != nil {
		body["labels"] = u.Labels
	}
	in, err := newCall(http.MethodPatch, op.UpdateCell.At(c.Name), body, opts)
	if err != nil {
		return nil, err
	}
	info, err := receive[CellInfo](ctx, c.client, in)
	if err == nil {
		c.Name = info.Name
	}
	return info, err
}

// Applied names the state of a cell that a directory on the caller's side has: removing
// the cell loses no accepted work up to it. "" is none.
func Applied(checkpoint string) CallOption {
	return func(c *call) {
		if checkpoint != "" {
			c.addQuery("applied=" + url.QueryEscape(checkpoint))
		}
	}
}

// NotKept removes a cell so that nothing brings it back: the next collection of garbage
// frees its states.
func NotKept() CallOption { return func(c *call) { c.addQuery("now=true") } }

func (c *call) addQuery(text string) {
	sep := "?"
	if strings.Contains(c.path, sep) {
		sep = "&"
	}
	c.path += sep + text
}

// Undelete brings back the cell, which was removed, as it was.
func (c *Cell) Undelete(ctx context.Context, opts ...CallOption) (*CellInfo, error) {
	return ask(ctx, c.client, op.UndeleteCell, api.OfCell{Cell: c.Name}, opts)
}

// Remove removes the cell. One with work that is undecided or not applied is refused
// (code has_work) without force. With force it also stops a live cell, and gives up
// unfinished work.
func (c *Cell) Remove(ctx context.Context, force bool, opts ...CallOption) error {
	path := op.RemoveCell.At(c.Name)
	if force {
		path += "?force=true"
	}
	in, err := newCall(http.MethodDelete, path, nil, opts)
	if err != nil {
		return err
	}
	_, err = receive[struct{}](ctx, c.client, in)
	return err
}

// Fork makes cells with the state of this one, its undecided work too.
func (c *Cell) Fork(ctx context.Context, r Fork, opts ...CallOption) ([]*Cell, error) {
	made, err := post[api.ForkedCells](ctx, c.client, op.ForkCell.At(c.Name), r, opts)
	if err != nil {
		return nil, err
	}
	var forks []*Cell
	for _, f := range made.Cells {
		fork := c.client.Cells.Named(f.Cell)
		fork.seen.set(made.PendingRuns)
		forks = append(forks, fork)
	}
	return forks, nil
}

// Policy returns the policy of the cell.
func (c *Cell) Policy(ctx context.Context) (*PolicyResult, error) {
	return ask(ctx, c.client, op.GetPolicy, api.OfCell{Cell: c.Name}, nil)
}

// SetPolicy gives the cell another policy: YAML, or the name of a preset.
func (c *Cell) SetPolicy(ctx context.Context, policy string, opts ...CallOption) (*PolicyApplied, error) {
	in, err := newCall(http.MethodPut, op.SetPolicy.At(c.Name), api.ValidateBody{Policy: policy}, opts)
	if err != nil {
		return nil, err
	}
	return receive[PolicyApplied](ctx, c.client, in)
}
