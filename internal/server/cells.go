package server

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
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
	State string `query:"state" enum:"idle,running,live,paused" doc:"Only cells in this state."`
}

func (s *Server) listCells(ctx context.Context, c *call, in *listCellsInput) (*api.List[api.CellInfo], error) {
	all, err := c.engine.List(ctx)
	if err != nil {
		return nil, err
	}
	var cells []api.CellInfo
	for _, info := range all {
		if c.caller.sees(info.Name) && (in.State == "" || in.State == info.State) {
			cells = append(cells, info)
		}
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
	req, err := s.initRequest(ctx, c, in.Body)
	if err != nil {
		return nil, err
	}
	res, err := c.engine.Init(ctx, req)
	if err != nil {
		return nil, err
	}
	return &createdCell{Location: "/v1/cells/" + res.Cell, Body: res}, nil
}

func (s *Server) initRequest(ctx context.Context, c *call, b api.CreateCell) (api.InitRequest, error) {
	req := api.InitRequest{
		Name: b.Name, Backend: b.Backend, Runtime: b.Runtime, Exclude: b.Exclude, MountAt: b.MountAt,
	}
	if b.Source == nil {
		return req, api.Usagef(`send {"source":{"path":"/dir"}}`, "the source is missing")
	}
	if b.Source.Path != "" {
		if err := s.allowPath(c, b.Source.Path); err != nil {
			return req, err
		}
		req.From = b.Source.Path
	}
	var err error
	req.Policy, err = policyFile(ctx, b.Policy)
	return req, err
}

// allowPath refuses a path of the host that the operator does not allow to callers
// with a token.
func (s *Server) allowPath(c *call, path string) error {
	if !strings.HasPrefix(path, "/") {
		return api.Usagef("give an absolute path", "the path %q is not absolute", path)
	}
	if c.caller.local || slices.ContainsFunc(s.config.AllowSource, func(dir string) bool { return beneath(path, dir) }) {
		return nil
	}
	return api.Refusef(api.CodeForbidden, "the operator allows directories with `forkcell serve --allow-source`", "the path %q is not allowed", path)
}

// beneath reports whether a path is a directory or below it. Links count as what
// they lead to; a path that does not exist is beneath nothing.
func beneath(path, dir string) bool {
	real, err := filepath.EvalSymlinks(path) //nolint:forbidigo // the engine opens what it resolves to without links
	if err != nil {
		return false
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { //nolint:forbidigo // as above
		return false
	}
	return real == dir || dir == "/" || strings.HasPrefix(real, dir+"/")
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
