package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// cellTools returns the tools that make, list and remove cells.
func cellTools() []tool {
	return []tool{
		define(tool{
			op: op.CreateCell, name: "cell_create", title: "Make a cell",
			about: "Make a cell: a copy of a directory in which commands can run. The source is an empty directory, a directory of the host that the operator allows, an upload, or another cell (fork_of).",
		}, createCell),
		define(tool{op: op.ListCells, name: "cell_list", title: "List cells", about: "List the cells with their state, the last run and its decision."}, listCells),
		define(tool{
			op: op.RemoveCell, name: "cell_remove", title: "Remove a cell",
			about: "Remove a cell. It is kept for 7 days, in which cell_undelete brings it back; then its space is freed. Receipts stay.",
		}, removeCell),
		define(tool{
			op: op.UndeleteCell.Verb, name: "cell_undelete", command: "rm --undo {cell}", title: "Bring back a removed cell",
			about: "Bring back a cell that was removed in the last 7 days, as it was.",
		}, undeleteCell),
		define(tool{
			op: op.ForkCell, name: "fork", title: "Fork a cell",
			about: "Make one or more cells with the state of another. Nothing is copied. Use forks to try different ways at the same time.",
		}, fork),
	}
}

func createCell(ctx context.Context, c *call, in api.CreateCell) (*answer, error) {
	if in.ForkOf != "" {
		return makeForks(ctx, c, request{method: http.MethodPost, path: path("cells"), body: in})
	}
	doc, raw, err := fetch[struct {
		Cell         string        `json:"cell"`
		CheckpointID string        `json:"checkpoint_id"`
		Files        int64         `json:"files"`
		LeftOut      []api.LeftOut `json:"left_out"`
	}](ctx, c, request{method: http.MethodPost, path: path("cells"), body: in})
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("made cell %s with %s", doc.Cell, api.Counted(int(doc.Files), "file"))
	if len(doc.LeftOut) > 0 {
		text += fmt.Sprintf("; %s left out by the secret rules", api.Counted(len(doc.LeftOut), "path"))
	}
	return &answer{raw, text}, nil
}

type listCellsArgs struct {
	State  string `json:"state,omitempty" enum:"idle,running,live,paused" doc:"Only cells in this state."`
	Limit  int    `json:"limit,omitempty" minimum:"1" maximum:"1000" doc:"At most so many cells; 100 by default."`
	Cursor string `json:"cursor,omitempty" doc:"The cursor of the page before."`
}

func listCells(ctx context.Context, c *call, in listCellsArgs) (*answer, error) {
	q := query{}
	q.set("state", in.State)
	q.number("limit", in.Limit)
	q.set("cursor", in.Cursor)
	list, raw, err := fetch[api.List[api.CellInfo]](ctx, c, request{method: http.MethodGet, path: path("cells"), query: url.Values(q)})
	if err != nil {
		return nil, err
	}
	lines := []string{api.Counted(len(list.Items), "cell")}
	for _, i := range list.Items {
		line := fmt.Sprintf("%s: %s, %s", i.Cell, i.State, api.Counted(int(i.Files), "file"))
		if i.LastRun != "" {
			line += fmt.Sprintf(", last run %s %s %s", i.LastRun, i.LastOutcome, i.LastDecision)
		}
		lines = append(lines, line)
	}
	return &answer{raw, strings.Join(lines, "\n")}, nil
}

type removeCellArgs struct {
	InCell
	Force bool `json:"force,omitempty" doc:"Also a cell with work that is undecided or not applied. Stop a live cell, and give up unfinished work."`
}

// removalDocument is the document of a removal, for which the API answers with none.
type removalDocument struct {
	Cell    string `json:"cell"`
	Removed bool   `json:"removed"`
}

func removeCell(ctx context.Context, c *call, in removeCellArgs) (*answer, error) {
	q := query{}
	q.flag("force", in.Force)
	resp, err := c.send(ctx, request{method: http.MethodDelete, path: path("cells", in.Cell), query: url.Values(q)})
	if err != nil {
		return nil, err
	}
	return &answer{removalDocument{in.Cell, true}, "removed cell " + in.Cell + "; cell_undelete brings it back within 7 days"}, resp.Body.Close()
}

func undeleteCell(ctx context.Context, c *call, in InCell) (*answer, error) {
	doc, raw, err := fetch[api.CellInfo](ctx, c, post(in.Cell, "undelete", nil))
	if err != nil {
		return nil, err
	}
	return &answer{raw, "cell " + doc.Cell + " is back"}, nil
}

type forkArgs struct {
	InCell
	api.ForkBody
}

func fork(ctx context.Context, c *call, in forkArgs) (*answer, error) {
	return makeForks(ctx, c, request{method: http.MethodPost, path: path("cells", in.Cell, "fork"), body: in.ForkBody})
}

func makeForks(ctx context.Context, c *call, r request) (*answer, error) {
	doc, raw, err := fetch[api.ForkedCells](ctx, c, r)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(doc.Cells))
	for i, f := range doc.Cells {
		names[i] = f.Cell
	}
	text := fmt.Sprintf("forked %s at %s: %s", doc.From, doc.CheckpointID, strings.Join(names, ", "))
	if len(doc.PendingRuns) > 0 {
		text += "; with undecided work: " + strings.Join(doc.PendingRuns, ", ")
	}
	return &answer{raw, text}, nil
}

// query is the query of a request. What is zero is left out.
type query url.Values

func (q query) set(name, value string) {
	if value != "" {
		url.Values(q).Set(name, value)
	}
}

func (q query) number(name string, value int) {
	if value != 0 {
		q.set(name, strconv.Itoa(value))
	}
}

func (q query) flag(name string, value bool) {
	if value {
		q.set(name, "true")
	}
}
