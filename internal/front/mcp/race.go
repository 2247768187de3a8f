package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/api/sse"
)

// raceTools returns the tool that makes several attempts.
func raceTools() []tool {
	return []tool{define(tool{
		op: op.Race, name: "race", title: "Make several attempts, and keep the best",
		about: "Fork a cell once for each attempt, run a command in each, judge the results by another command, and name the winner. The cell of the winner is kept; with accept its workspace becomes that of the cell. FORKCELL_ATTEMPT has the number of an attempt.",
	}, runRace)}
}

type raceArgs struct {
	api.RaceBody
}

func (a *raceArgs) fallback(cell string) { a.Cell = cmp.Or(a.Cell, cell) }

func runRace(ctx context.Context, c *call, in raceArgs) (*answer, error) {
	resp, err := c.send(ctx, request{method: http.MethodPost, path: path("race"), body: in.RaceBody, accept: eventStreamType})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var doc api.RaceResult
	ended := 0
	stream := watchedStream{resp.Body, func() { c.progress.report(ctx, fmt.Sprintf("racing, %d attempts have ended", ended)) }}
	err = followResult(stream, &doc, func(m sse.Event) error {
		if m.Name == string(api.RaceAttempted) {
			ended++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(doc)
	return &answer{json.RawMessage(raw), describeRace(doc)}, err
}

func describeRace(r api.RaceResult) string {
	lines := []string{"no attempt has won"}
	if r.Winner != nil {
		lines[0] = fmt.Sprintf("attempt %d has won", *r.Winner)
	}
	if r.DecisionID != "" {
		lines[0] += ", and cell " + r.Cell + " has its workspace"
	}
	for _, a := range r.Attempts {
		line := fmt.Sprintf("%d: %s (exit %d), %s, run %s", a.Attempt, a.Outcome, a.ExitCode, api.Counted(a.ChangedFiles, "changed file"), a.RunID)
		if len(a.Elsewhere) > 0 {
			line += ", outside the workspace and not accepted: " + api.ElsewhereText(a.Elsewhere)
		}
		if a.JudgeExitCode != nil {
			line += fmt.Sprintf(", judge exit %d", *a.JudgeExitCode)
		}
		if a.Score != nil {
			line += fmt.Sprintf(", score %g", *a.Score)
		}
		lines = append(lines, line)
	}
	if len(r.Kept) > 0 {
		lines = append(lines, "kept: "+strings.Join(r.Kept, ", "))
	}
	return strings.Join(lines, "\n")
}
