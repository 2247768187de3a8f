package op

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
)

const tagCells = "cells"

// Operations on cells.
var (
	ListCells = Verb{
		ID: "listCells", Method: "GET", Path: "/v1/cells", Tag: tagCells, Command: "ls",
		Summary: "List cells", Needs: []Scope{ScopeRead},
	}
	CreateCell = Verb{
		ID: "createCell", Method: "POST", Path: "/v1/cells", Tag: tagCells, Command: "init {name}",
		Summary: "Make a cell, or forks of one", Needs: []Scope{ScopeRun}, Effect: Adds, Status: created,
	}
	GetCell = Verb{
		ID: "getCell", Method: "GET", Path: "/v1/cells/{cell}", Tag: tagCells, Command: "status {cell}",
		Summary: "Show a cell", Needs: []Scope{ScopeRead},
	}
	UpdateCell = Verb{
		ID: "updateCell", Method: "PATCH", Path: "/v1/cells/{cell}", Tag: tagCells,
		Summary: "Change the name and the settings of a cell", Needs: []Scope{ScopeRun}, Effect: Destroys,
	}
	RemoveCell = Verb{
		ID: "removeCell", Method: "DELETE", Path: "/v1/cells/{cell}", Tag: tagCells, Command: "rm {cell}",
		Summary: "Remove a cell", Needs: []Scope{ScopeRun}, Effect: Destroys, Idempotent: true, Status: noContent,
	}
	Diff = Verb{
		ID: "diff", Method: "GET", Path: "/v1/cells/{cell}/diff", Tag: tagCells, Command: "diff {cell} {to}",
		Summary: "Compare states", Needs: []Scope{ScopeRead},
	}
	GetDisk = Op[api.OfCell, api.DiskResult]{
		Verb: Verb{
			ID: "getDisk", Method: "GET", Path: "/v1/cells/{cell}/disk", Tag: tagCells,
			Summary: "The disk space of a cell", Needs: []Scope{ScopeRead},
		},
		Do: func(e Engine, ctx context.Context, in api.OfCell) (*api.DiskResult, error) {
			return e.Disk(ctx, in.Cell)
		},
	}
	Export = Verb{
		ID: "export", Method: "GET", Path: "/v1/cells/{cell}/export", Tag: tagCells, Command: "export {cell} {checkpoint}",
		Summary: "Read a state as an archive", Needs: []Scope{ScopeRead}, Kind: KindDownload,
	}
	ForkCell = Verb{
		ID: "forkCell", Method: "POST", Path: "/v1/cells/{cell}/fork", Tag: tagCells, Command: "fork {cell}",
		Summary: "Fork a cell", Needs: []Scope{ScopeRun}, Effect: Adds, Status: created,
	}
	GetLog = Verb{
		ID: "getLog", Method: "GET", Path: "/v1/cells/{cell}/log", Tag: tagCells, Command: "log {cell}",
		Summary: "The history of a cell", Needs: []Scope{ScopeRead},
	}
	UndeleteCell = Op[api.OfCell, api.CellInfo]{
		Verb: Verb{
			ID: "undeleteCell", Method: "POST", Path: "/v1/cells/{cell}/undelete", Tag: tagCells,
			Summary: "Bring back a removed cell", Needs: []Scope{ScopeRun}, Effect: Adds,
		},
		Do: func(e Engine, ctx context.Context, in api.OfCell) (*api.CellInfo, error) {
			return e.Undelete(ctx, in.Cell)
		},
	}
	Upload = Verb{
		ID: "upload", Method: "POST", Path: "/v1/uploads", Tag: tagCells,
		Summary: "Upload an archive for a new cell; unused ones expire after an hour. It takes no Idempotency-Key", Needs: []Scope{ScopeRun}, Effect: Adds, Kind: KindUpload, Status: created,
	}
)
