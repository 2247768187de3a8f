package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
)

const tagCells = "cells"

// addCells adds the routes that make, show and remove cells.
func (s *Server) addCells() {
	handle(s, route{method: http.MethodGet, path: "/v1/cells", id: "listCells", tag: tagCells, summary: "List cells", needs: []Scope{Read}}, s.listCells)
	handleRaw(s, route{
		method: http.MethodPost, path: "/v1/cells", id: "createCell", tag: tagCells, summary: "Make a cell", needs: []Scope{Run}, status: http.StatusCreated,
	}, s.createCell)
	handleRaw(s, route{method: http.MethodGet, path: "/v1/cells/{cell}", id: "getCell", tag: tagCells, summary: "Show a cell", needs: []Scope{Read}}, s.getCell)
	handleRaw(s, route{
		method: http.MethodDelete, path: "/v1/cells/{cell}", id: "removeCell", tag: tagCells, summary: "Remove a cell", needs: []Scope{Run}, status: http.StatusNoContent,
	}, s.removeCell)
	handle(s, route{
		method: http.MethodPost, path: "/v1/cells/{cell}/fork", id: "forkCell", tag: tagCells, summary: "Fork a cell", needs: []Scope{Run}, status: http.StatusCreated,
	}, s.forkCell)
}

type listCellsInput struct {
	Page
	State string   `query:"state" enum:"idle,running,live,paused" doc:"Only cells in this state."`
	Label []string `query:"label,explode" doc:"Only cells with this label, as KEY=VALUE (repeatable)."`
}

func (s *Server) listCells(ctx context.Context, c *call, in *listCellsInput) (*api.List[api.CellInfo], error) {
	wanted, err := labels(in.Label)
	if err != nil {
		return nil, err
	}
	cells, err := c.engine.ListMatching(ctx, api.CellFilter{Labels: wanted, State: in.State, Prefix: c.caller.grant.Cells})
	if err != nil {
		return nil, err
	}
	return cut(in.Page, cells, func(i api.CellInfo) string { return aged(i.CreatedAt, i.CellID) })
}

type createCellInput struct {
	Body api.CreateCell
}

type createdCell struct {
	Location string `header:"Location"`
	Body     *api.InitResult
}

func (s *Server) createCell(ctx context.Context, c *call, in *createCellInput) (*createdCell, error) {
	if err := c.mayName(in.Body.Name); err != nil {
		return nil, err
	}
	req, err := initRequest(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	res, err := c.engine.Init(ctx, req)
	if err != nil {
		return nil, err
	}
	return &createdCell{Location: "/v1/cells/" + res.Cell, Body: res}, nil
}

func initRequest(ctx context.Context, b api.CreateCell) (api.InitRequest, error) {
	req := api.InitRequest{
		Name: b.Name, Backend: b.Backend, Runtime: b.Runtime, Exclude: b.Exclude, MountAt: b.MountAt,
	}
	if b.Source == nil {
		return req, api.Usagef(`send {"source":{"path":"/dir"}}`, "the source is missing")
	}
	if b.Source.Path != "" {
		if err := absolute(b.Source.Path); err != nil {
			return req, err
		}
		req.From = b.Source.Path
	}
	var err error
	if req.Policy, err = policyFile(ctx, b.Policy); err != nil {
		return req, err
	}
	req.Settings, err = cellSettings(b.CellSettings)
	return req, err
}

// cellSettings checks the settings of a body.
func cellSettings(b api.CellSettings) (api.Settings, error) {
	ttl, err := duration("ttl", b.TTL)
	if err != nil {
		return api.Settings{}, err
	}
	idle, err := duration("idle_timeout", b.IdleTimeout)
	return api.Settings{Labels: b.Labels, TTL: api.Duration(ttl), IdleTimeout: api.Duration(idle), OnTimeout: b.OnTimeout}, err
}

// absolute refuses a relative path of the host: the daemon's directory is not the
// caller's.
func absolute(path string) error {
	if strings.HasPrefix(path, "/") {
		return nil
	}
	return api.Usagef("give an absolute path", "the path %q is not absolute", path)
}

type cellDocument struct {
	ETag string `header:"ETag"`
	Body *api.StatusResult
}

func (s *Server) getCell(ctx context.Context, c *call, in *InCell) (*cellDocument, error) {
	res, err := c.engine.Status(ctx, in.Cell)
	if err != nil {
		return nil, err
	}
	return &cellDocument{ETag: etag(res.Revision), Body: res}, nil
}

type removeCellInput struct {
	InCell
	IfMatch
	Force bool `query:"force" doc:"Stop a live cell, and give up unfinished work."`
}

func (s *Server) removeCell(ctx context.Context, c *call, in *removeCellInput) (*empty, error) {
	return &empty{}, c.engine.Remove(ctx, in.Cell, in.Force)
}

type forkCellInput struct {
	InCell
	IfMatch
	Body api.ForkBody
}

func (s *Server) forkCell(ctx context.Context, c *call, in *forkCellInput) (*api.ForkedCells, error) {
	if in.Body.Name != "" {
		if err := c.mayName(in.Body.Name); err != nil {
			return nil, err
		}
	}
	res, err := c.engine.Fork(ctx, api.ForkRequest{Cell: in.Cell, Name: in.Body.Name, Checkpoint: in.Body.Checkpoint, N: in.Body.N})
	if err != nil {
		return nil, err
	}
	doc := &api.ForkedCells{From: res.From, CheckpointID: res.CheckpointID, Root: res.Root}
	for _, name := range res.Cells {
		doc.Cells = append(doc.Cells, api.ForkedCell{Cell: name})
	}
	return doc, nil
}
