package rest

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// addCells adds the routes that make, show and remove cells.
func (s *Server) addCells() {
	handle(s, op.ListCells, s.listCells)
	s.addCreateCell()
	handleRaw(s, op.GetCell, s.getCell)
	handleRaw(s, op.RemoveCell, s.removeCell)
	show(s, op.UndeleteCell)
	handle(s, op.ForkCell, s.forkCell)
}

type listCellsInput struct {
	Page
	State string   `query:"state" enum:"idle,running,live,paused,removed" doc:"Only cells in this state. Removed ones are listed for this state only, while they can be brought back."`
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
	cells = slices.DeleteFunc(cells, func(i api.CellInfo) bool { return !c.caller.sees(i.Name) })
	return cut(in.Page, cells, func(i api.CellInfo) string { return timeKey(i.CreatedAt, i.CellID) })
}

type createCellInput struct {
	Body api.CreateCell
}

// addCreateCell adds the route that makes a cell of a source, or forks of a cell.
func (s *Server) addCreateCell() {
	registry := s.api.OpenAPI().Components.Schemas
	handleExchange(s, op.CreateCell, map[string]*huma.Response{"201": {
		Description: "The cell, or with fork_of the forks.",
		Headers:     map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "Where the cell is."}},
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			OneOf: []*huma.Schema{schemaOf[api.InitResult](registry), schemaOf[api.ForkedCells](registry)},
		}}},
	}}, func(ctx context.Context, x *exchange, in *createCellInput) {
		doc, location, err := s.createCell(ctx, x.call, in)
		if err != nil {
			x.fail(err)
			return
		}
		x.w.Header().Set("Location", location)
		writeDocument(x.w, http.StatusCreated, doc)
	})
}

func (s *Server) createCell(ctx context.Context, c *call, in *createCellInput) (doc any, location string, err error) {
	if err := s.roomOnDisk(ctx, c); err != nil {
		return nil, "", err
	}
	if in.Body.ForkOf != "" {
		return s.createFork(ctx, c, in.Body)
	}
	if in.Body.Checkpoint != "" || in.Body.N != 0 {
		return nil, "", api.Usagef("use them with fork_of", "checkpoint and n are for forks")
	}
	if err := c.mayName(in.Body.Name); err != nil {
		return nil, "", err
	}
	req, err := s.initRequest(ctx, in.Body)
	if err != nil {
		return nil, "", err
	}
	req.Sole = in.Body.Sole && c.caller.seesAll() // others do not learn of cells that they do not see
	res, err := c.engine.Init(ctx, req)
	if err != nil {
		return nil, "", err
	}
	return res, "/v1/cells/" + res.Cell, nil
}

// createFork makes forks of a cell, which take everything but their name from it.
func (s *Server) createFork(ctx context.Context, c *call, b api.CreateCell) (doc any, location string, err error) {
	if !c.caller.sees(b.ForkOf) {
		return nil, "", api.Missing("cell", b.ForkOf, "")
	}
	rest := b
	rest.Name, rest.ForkOf, rest.Checkpoint, rest.N = "", "", "", 0
	if !reflect.DeepEqual(rest, api.CreateCell{}) {
		return nil, "", api.Usagef("leave them out", "a fork has no source or settings of its own")
	}
	forks, err := s.forkCell(ctx, c, &forkCellInput{InCell: InCell{Cell: b.ForkOf}, Body: api.ForkBody{Name: b.Name, N: b.N, Checkpoint: b.Checkpoint}})
	if err != nil {
		return nil, "", err
	}
	return forks, "/v1/cells/" + forks.Cells[0].Cell, nil
}

func (s *Server) initRequest(ctx context.Context, b api.CreateCell) (api.InitRequest, error) {
	req := api.InitRequest{
		Name: b.Name, Backend: b.Backend, Runtime: b.Runtime, Exclude: b.Exclude, MountAt: b.MountAt,
	}
	err := useSource(b.Source, &req)
	if err != nil {
		return req, err
	}
	if req.Policy, err = s.policyFile(ctx, b.Policy); err != nil {
		return req, err
	}
	req.Settings, err = cellSettings(b.CellSettings)
	return req, err
}

// useSource sets the source of a new cell, of which exactly one must be given.
func useSource(src *api.Source, req *api.InitRequest) error {
	var from api.Source
	if src != nil {
		from = *src
	}
	given := 0
	for _, set := range []bool{from.Empty, from.Path != "", from.Upload != ""} {
		if set {
			given++
		}
	}
	if given != 1 {
		return api.Usagef(`send {"source":{"empty":true}}, or one with path or upload`, "a cell needs one source")
	}
	req.Empty, req.Upload, req.From = from.Empty, from.Upload, from.Path
	if from.Path != "" {
		return absolute(from.Path)
	}
	return nil
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
	Force   bool   `query:"force" doc:"Also a cell with work that is undecided or not applied. Stop a live cell, and give up unfinished work."`
	Now     bool   `query:"now" doc:"Do not keep its states: it cannot be brought back, and the next gc frees them."`
	Applied string `query:"applied" doc:"The state that a directory elsewhere has: accepted work up to it is not lost."`
}

func (s *Server) removeCell(ctx context.Context, c *call, in *removeCellInput) (*empty, error) {
	return &empty{}, c.engine.RemoveCells(ctx, api.RemoveRequest{Cells: []string{in.Cell}, Force: in.Force, Now: in.Now, Applied: in.Applied})
}

type forkCellInput struct {
	InCell
	IfMatch
	Body api.ForkBody
}

func (s *Server) forkCell(ctx context.Context, c *call, in *forkCellInput) (*api.ForkedCells, error) {
	end, err := s.roomToCapture(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := checkLiveFork(ctx, c, in); err != nil {
		return nil, err
	}
	if in.Body.Name != "" {
		if err := c.mayName(in.Body.Name); err != nil {
			return nil, err
		}
	}
	settings, err := cellSettings(in.Body.CellSettings)
	if err != nil {
		return nil, err
	}
	res, err := c.engine.Fork(ctx, api.ForkRequest{Cell: in.Cell, Name: in.Body.Name, Checkpoint: in.Body.Checkpoint, N: in.Body.N, Settings: settings})
	if err != nil {
		return nil, err
	}
	doc := &api.ForkedCells{From: res.From, CheckpointID: res.CheckpointID, Root: res.Root, EngineUS: res.EngineUS, PauseUS: res.PauseUS, PendingRuns: res.PendingRuns}
	for _, name := range res.Cells {
		doc.Cells = append(doc.Cells, api.ForkedCell{Cell: name})
	}
	return doc, nil
}

// checkLiveFork refuses a request for the present state of a live cell if the cell is
// not live, or if it names another state. A live cell is captured in any case.
func checkLiveFork(ctx context.Context, c *call, in *forkCellInput) error {
	switch {
	case !in.Body.Live:
		return nil
	case in.Body.Checkpoint != "":
		return api.Usagef("send one of them", "live and checkpoint exclude each other")
	}
	status, err := c.engine.Status(ctx, in.Cell)
	if err == nil && status.State != api.StateLive && status.State != api.StatePaused {
		err = &api.Error{Kind: api.Refused, Code: api.CodeNotStarted, Message: "the cell " + in.Cell + " is not live", Hint: "leave live out"}
	}
	return err
}
