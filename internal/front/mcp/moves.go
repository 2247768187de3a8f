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
		pass(op.CreateCheckpoint, tool{
			name: "checkpoint", title: "Name the present state",
			about: "Name the present state of a cell, so that restore and fork can use it.",
		}, describeCheckpoint),
		pass(op.Restore, tool{
			name: "restore", title: "Go back to a state",
			about: "Move a cell back to a checkpoint, or to the state before a run; without either, to the state before the last run. The work that is left can still be read by diff.",
		}, describeMove),
		define(tool{
			op: op.Accept.Verb, name: "accept", title: "Accept a run",
			about: "Decide that the result of a run stands; with apply, also write it to the source directory. Name what you have seen: run, or as runs all that diff named. Work that is not named is never accepted.",
		}, accept),
		pass(op.Reject, tool{
			name: "reject", title: "Reject a run",
			about: "Decide that the result of a run does not stand, and go back to the state before it.",
		}, describeMove),
		pass(op.Apply, tool{
			name: "apply", title: "Write accepted work to a directory",
			about: "Write the accepted changes of a cell to its source directory, all or nothing. Conflicts are named, and nothing is written then.",
		}, describeApply),
	}
}

// post returns the request for a verb of a cell.
func post(cell, verb string, body any) request {
	return request{method: http.MethodPost, path: path("cells", cell) + "/" + verb, body: body}
}

func describeCheckpoint(r *api.CheckpointResult) string {
	return fmt.Sprintf("checkpoint %s of cell %s", r.CheckpointID, r.Cell)
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

func accept(ctx context.Context, c *call, in api.AcceptRequest) (*answer, error) {
	if err := checkNamed(ctx, c, in.Cell, in); err != nil {
		return nil, err
	}
	doc, raw, err := carryOut(ctx, c, op.Accept, in)
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
func checkNamed(ctx context.Context, c *call, cell string, b api.AcceptRequest) error {
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

func describeApply(a *api.ApplyResult) string {
	verb := "written"
	if a.DryRun {
		verb = "would be written"
	}
	return fmt.Sprintf("%s %s to %s", api.Counted(len(a.Written), "change"), verb, a.To)
}
