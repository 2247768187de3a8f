package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// moveTools returns the tools that name, move and publish states.
func moveTools() []tool {
	return []tool{
		define(tool{
			op: op.CreateCheckpoint, name: "checkpoint", title: "Name the present state",
			about: "Name the present state of a cell, so that restore and fork can use it.",
		}, checkpoint),
		define(tool{
			op: op.Restore, name: "restore", title: "Go back to a state",
			about: "Move a cell back to a checkpoint, or to the state before a run; without either, to the state before the last run. The work that is left can still be read by diff.",
		}, restore),
		define(tool{
			op: op.Accept, name: "accept", title: "Accept a run",
			about: "Decide that the result of a run stands; with apply, also write it to the source directory. Name what you have seen: run, or as runs all that diff named. Work that is not named is never accepted.",
		}, accept),
		define(tool{
			op: op.Reject, name: "reject", title: "Reject a run",
			about: "Decide that the result of a run does not stand, and go back to the state before it.",
		}, reject),
		define(tool{
			op: op.Apply, name: "apply", title: "Write accepted work to a directory",
			about: "Write the accepted changes of a cell to its source directory, all or nothing. Conflicts are named, and nothing is written then.",
		}, apply),
	}
}

type checkpointArgs struct {
	InCell
	api.CheckpointBody
}

func checkpoint(ctx context.Context, c *call, in checkpointArgs) (*answer, error) {
	doc, raw, err := fetch[api.CheckpointResult](ctx, c, post(in.Cell, "checkpoints", in.CheckpointBody))
	if err != nil {
		return nil, err
	}
	return &answer{raw, fmt.Sprintf("checkpoint %s of cell %s", doc.CheckpointID, doc.Cell)}, nil
}

// post returns the request for a verb of a cell.
func post(cell, verb string, body any) request {
	return request{method: http.MethodPost, path: path("cells", cell) + "/" + verb, body: body}
}

type restoreArgs struct {
	InCell
	api.RestoreBody
}

func restore(ctx context.Context, c *call, in restoreArgs) (*answer, error) {
	doc, raw, err := fetch[api.MoveResult](ctx, c, post(in.Cell, "restore", in.RestoreBody))
	if err != nil {
		return nil, err
	}
	return &answer{raw, describeMove(doc)}, nil
}

func describeMove(m *api.MoveResult) string {
	text := fmt.Sprintf("cell %s is at %s; %s is left", m.Cell, m.CheckpointID, m.Left)
	if len(m.Also) > 0 {
		text += "; also decided: " + strings.Join(m.Also, ", ")
	}
	if len(m.Elsewhere) > 0 {
		text += "; outside the workspace: " + api.ElsewhereText(m.Elsewhere)
	}
	return text
}

type acceptArgs struct {
	InCell
	api.AcceptBody
}

func accept(ctx context.Context, c *call, in acceptArgs) (*answer, error) {
	if err := checkNamed(ctx, c, in.Cell, in.AcceptBody); err != nil {
		return nil, err
	}
	doc, raw, err := fetch[api.AcceptResult](ctx, c, post(in.Cell, "accept", in.AcceptBody))
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("run %s of cell %s is accepted", doc.RunID, doc.Cell)
	if len(doc.Elsewhere) > 0 {
		text += "; also accepted: " + api.ElsewhereText(doc.Elsewhere)
	}
	if len(doc.ElsewhereLeft) > 0 {
		text += "; left out: " + api.ElsewhereText(doc.ElsewhereLeft)
	}
	if doc.Applied != nil {
		text += "; " + describeApply(doc.Applied)
	}
	return &answer{raw, text}, nil
}

// checkNamed refuses to accept work that the caller does not name: more of it may have come since
// the caller looked. The error says what waits now.
func checkNamed(ctx context.Context, c *call, cell string, b api.AcceptBody) error {
	if b.Run != "" || len(b.Runs) > 0 {
		return nil
	}
	doc, _, err := fetch[changes](ctx, c, request{method: http.MethodGet, path: path("cells", cell, "diff")})
	if err != nil {
		return err
	}
	if len(doc.Runs) == 0 {
		return api.Refusef(api.CodeNotShown, "run takes the id of one that changed nothing", "no change of cell %s waits for a decision", cell)
	}
	runs, err := json.Marshal(doc.Runs)
	if err != nil {
		return err
	}
	return api.Refusef(api.CodeNotShown, "look at them with diff, then give the argument runs: "+string(runs),
		"the work to accept is not named; cell %s has undecided work with %s", cell, api.Counted(len(doc.Changes), "change"))
}

type rejectArgs struct {
	InCell
	api.RejectBody
}

func reject(ctx context.Context, c *call, in rejectArgs) (*answer, error) {
	doc, raw, err := fetch[api.MoveResult](ctx, c, post(in.Cell, "reject", in.RejectBody))
	if err != nil {
		return nil, err
	}
	return &answer{raw, describeMove(doc)}, nil
}

type applyArgs struct {
	InCell
	api.ApplyBody
}

func apply(ctx context.Context, c *call, in applyArgs) (*answer, error) {
	doc, raw, err := fetch[api.ApplyResult](ctx, c, post(in.Cell, "apply", in.ApplyBody))
	if err != nil {
		return nil, err
	}
	return &answer{raw, describeApply(doc)}, nil
}

func describeApply(a *api.ApplyResult) string {
	verb := "written"
	if a.DryRun {
		verb = "would be written"
	}
	return fmt.Sprintf("%s %s to %s", api.Counted(len(a.Written), "change"), verb, a.To)
}
