package rest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"
)

// describer reports the history, the processes and the disk space of cells.
type describer interface {
	Log(ctx context.Context, cell string) ([]api.LogEntry, error)
	Processes(ctx context.Context, cell string) ([]api.ProcessInfo, error)
	Disk(ctx context.Context, cell string) (*api.DiskResult, error)
}

// addDetails adds the routes that describe a cell further.
func (s *Server) addDetails() {
	get := func(path, id, tag, summary string, needs ...Scope) route {
		return route{method: http.MethodGet, path: path, id: id, tag: tag, summary: summary, needs: needs}
	}
	log := get("/v1/cells/{cell}/log", "getLog", tagCells, "The history of a cell", Read)
	log.command = "log {cell}"
	handle(s, log,
		func(ctx context.Context, c *call, in *pagedCell) (*api.List[api.LogEntry], error) {
			list, err := c.engine.Log(ctx, in.Cell)
			if err != nil {
				return nil, err
			}
			// What is not a statement yet comes last.
			return cut(in.Page, list, func(l api.LogEntry) string { return fmt.Sprintf("%020d%s", uint64(l.Seq)-1, aged(l.CreatedAt, l.ID)) })
		})
	handle(s, get("/v1/cells/{cell}/processes", "listProcesses", tagLive, "List the processes of a live cell", Read),
		func(ctx context.Context, c *call, in *pagedCell) (*api.List[api.ProcessInfo], error) {
			list, err := c.engine.Processes(ctx, in.Cell)
			if err != nil {
				return nil, err
			}
			return cut(in.Page, list, func(p api.ProcessInfo) string { return fmt.Sprintf("%010d", p.PID) })
		})
	handle(s, get("/v1/cells/{cell}/disk", "getDisk", tagCells, "The disk space of a cell", Read),
		func(ctx context.Context, c *call, in *InCell) (*api.DiskResult, error) {
			return c.engine.Disk(ctx, in.Cell)
		})
	handle(s, get("/v1/disk", "getHomeDisk", tagOperation, "The disk space of all cells and of the home", Admin, Unbounded),
		func(ctx context.Context, c *call, _ *struct{}) (*api.DiskResult, error) {
			if !c.caller.seesAll() {
				return nil, api.Refusef(api.CodeForbidden, "name a cell", "the token sees a part of the cells only")
			}
			return c.engine.Disk(ctx, "")
		})
}

type pagedCell struct {
	InCell
	Page
}
