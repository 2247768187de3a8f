package rest

import (
	"context"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// describer reports the history, the processes and the disk space of cells.
type describer interface {
	Log(ctx context.Context, cell string) ([]api.LogEntry, error)
	Processes(ctx context.Context, cell string) ([]api.ProcessInfo, error)
	Disk(ctx context.Context, cell string) (*api.DiskResult, error)
}

// addDetails adds the routes that describe a cell further.
func (s *Server) addDetails() {
	handle(s, op.GetLog,
		func(ctx context.Context, c *call, in *pagedCell) (*api.List[api.LogEntry], error) {
			list, err := c.engine.Log(ctx, in.Cell)
			if err != nil {
				return nil, err
			}
			// What is not a statement yet comes last.
			return cut(in.Page, list, func(l api.LogEntry) string {
				return fmt.Sprintf("%020d%s", uint64(l.Seq)-1, timeKey(l.CreatedAt, l.ID))
			})
		})
	handle(s, op.ListProcesses,
		func(ctx context.Context, c *call, in *pagedCell) (*api.List[api.ProcessInfo], error) {
			list, err := c.engine.Processes(ctx, in.Cell)
			if err != nil {
				return nil, err
			}
			return cut(in.Page, list, func(p api.ProcessInfo) string { return fmt.Sprintf("%010d", p.PID) })
		})
	show(s, op.GetDisk)
	showBy(s, op.GetHomeDisk,
		func(ctx context.Context, c *call, _ *op.None) (*api.DiskResult, error) {
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
