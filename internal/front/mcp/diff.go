package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// maxChanges bounds the list of changes in a result.
const maxChanges = 500

// diffTools returns the tool that compares states.
func diffTools() []tool {
	return []tool{define(tool{
		op: op.Diff, name: "diff", title: "Compare states",
		about: "Show what a run changed, or the difference between two states or cells. Without run, from and to: all undecided work, which accept takes, else what the last run changed, or a live cell since its start. The field runs names what accept takes as runs.",
	}, diff)}
}

type diffArgs struct {
	InCell
	Run        string   `json:"run,omitempty" doc:"What this run changed."`
	From       string   `json:"from,omitempty" doc:"A state of the cell, or another cell."`
	To         string   `json:"to,omitempty" doc:"A state of the cell, or another cell. Without it, the present state."`
	Path       []string `json:"path,omitempty" doc:"Only these paths and what is below them."`
	SinceApply bool     `json:"since_apply,omitempty" doc:"What the source directory does not have yet."`
}

// changes is the document of a diff. Truncated says that the list has an end that is
// missing.
type changes struct {
	Cell      string            `json:"cell"`
	From      string            `json:"from"`
	To        string            `json:"to"`
	Changes   []json.RawMessage `json:"changes"`
	SetAside  []json.RawMessage `json:"set_aside,omitempty"`
	Notes     []string          `json:"notes"`
	Runs      []string          `json:"runs,omitempty"`
	Earlier   []api.EarlierWork `json:"earlier,omitempty"`
	Unapplied int               `json:"unapplied,omitempty"`
	Elsewhere []api.AreaChange  `json:"elsewhere,omitempty"`
	Truncated bool              `json:"truncated"`
}

// describe says what an acceptance of the changes takes, and what it does not show.
func (c *changes) describe() string {
	text := api.Counted(len(c.Changes), "change")
	if len(c.Changes) > maxChanges {
		text += fmt.Sprintf(", of which the document has %d", maxChanges)
	}
	if len(c.Runs) > 0 {
		text += "\nundecided: " + strings.Join(c.Runs, ", ")
	}
	for _, w := range c.Earlier {
		text += fmt.Sprintf("\nearlier and undecided, not shown here: %s, %s", w.ID, api.Counted(w.ChangedFiles, "change"))
	}
	if c.Unapplied > 0 {
		text += fmt.Sprintf("\naccepted and not in the directory yet, which apply writes, too: %s", api.Counted(c.Unapplied, "change"))
	}
	if len(c.Elsewhere) > 0 {
		text += "\noutside the workspace: " + api.ElsewhereText(c.Elsewhere)
	}
	return text
}

func diff(ctx context.Context, c *call, in diffArgs) (*answer, error) {
	q := query{"path": in.Path}
	q.set("run", in.Run)
	q.set("from", in.From)
	q.set("to", in.To)
	q.flag("since_apply", in.SinceApply)
	r := request{method: http.MethodGet, path: path("cells", in.Cell, "diff"), query: url.Values(q)}
	doc, _, err := fetch[changes](ctx, c, r)
	if err != nil {
		return nil, err
	}
	text := doc.describe()
	if len(doc.Changes) > maxChanges {
		doc.Changes, doc.Truncated = doc.Changes[:maxChanges], true
	}
	// The two states of the list, also if the cell has moved on since.
	q = query{"path": in.Path, "from": {doc.From}, "to": {doc.To}, "format": {"patch"}}
	r.query = url.Values(q)
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var s stream
	if err := s.readFrom(resp.Body); err != nil {
		return nil, err
	}
	patch, _ := s.text()
	return &answer{doc, text + "\n" + patch}, nil
}
