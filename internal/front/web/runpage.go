package web

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/receipt"
)

func (s *Site) addRun() {
	s.get("/runs/{run}", (*request).runPage)
	s.get("/runs/{run}/file", (*request).runFile)
	s.get("/runs/{run}/image", (*request).runImage)
	s.get("/runs/{run}/output", (*request).outputPage)
	s.get("/runs/{run}/output/raw", (*request).rawOutput)
	s.get("/runs/{run}/policy", (*request).runPolicy)
	s.get("/runs/{run}/receipt", (*request).receiptPage)
	s.get("/runs/{run}/bundle", (*request).bundle)
	s.get("/runs/{run}/suggest", (*request).suggestPage)
	s.post("/runs/{run}/decide", (*request).decide)
}

// runBody is the page of one run.
type runBody struct {
	*api.RunInfo
	Receipt *receipt.Run // nil while it runs
	Cell    *api.StatusResult
	// BadPolicy says why the policy of the run cannot be read.
	BadPolicy string
	Changes   *changes
	// Missing says why the changes cannot be shown.
	Missing   string
	Reach     reach
	Decisions []api.DecisionInfo
	Output    []stream
	// Undoable reports whether the cell has an apply to undo.
	Undoable bool
	Decides  bool
	MayRun   bool
	Asked    []control
	// All reports whether the changes are those of the earlier undecided work, too.
	All bool
}

// Pending reports whether the run waits for a decision.
func (b runBody) Pending() bool { return b.Decision == "pending" }

// Later returns the undecided runs after this one, which a decision against it takes back, too.
func (b runBody) Later() []string {
	at := slices.Index(b.Cell.PendingRuns, b.RunID)
	if at < 0 {
		return nil
	}
	return b.Cell.PendingRuns[at+1:]
}

// AllParam is the parameter of links that keep All.
func (b runBody) AllParam() string {
	if b.All {
		return "yes"
	}
	return ""
}

// LongCommand reports whether the command does not fit into the head of the page.
func (b runBody) LongCommand() bool { return len(ranText(b)) > 240 }

// Took is the time of the command.
func (b runBody) Took() string { return elapsed(*b.RunInfo) }

// Ended reports whether the run has ended.
func (b runBody) Ended() bool { return b.FinishedAt != nil }

// Succeeded reports whether the command succeeded.
func (b runBody) Succeeded() bool { return b.Outcome == "succeeded" }

// control is a control of the run, as it was requested and achieved.
type control struct{ Name, Asked, Achieved string }

func (q *request) runPage() error {
	info, err := q.run()
	if err != nil {
		return err
	}
	o, err := q.options()
	if err != nil {
		return err
	}
	ctx := q.Context()
	body := runBody{RunInfo: info, Decides: q.may(op.Accept), MayRun: q.may(op.Restore)}
	if err := q.addCellOf(ctx, &body); err != nil {
		return err
	}
	if _, err := q.engine.RunPolicy(ctx, info.RunID); err != nil {
		body.BadPolicy = q.problem(err)
	}
	o.known = info.ChangedFiles
	if body.Cell != nil && body.Ended() {
		var r api.DiffRequest
		if r, body.All, err = q.changesOf(ctx, info); err == nil {
			if body.All {
				o.known = 0
			}
			body.Changes, err = compare(ctx, q.engine, r, o)
		}
		if err != nil {
			body.Missing = q.problem(err)
		}
	}
	if body.Changes != nil && !body.All {
		for _, f := range body.Changes.Files {
			f.showPictures(info.RunID)
		}
	}
	if body.Ended() {
		if err := q.addProof(ctx, &body); err != nil {
			return err
		}
	}
	if body.Reach, err = q.sumDestinations(ctx, info.RunID); err != nil {
		return err
	}
	body.Output = q.outputTails(ctx, info.RunID)
	title := "Run of " + info.Cell
	return q.show("run", frame{Title: title, Nav: "cells", Live: liveRun(info), Body: body})
}

// changesOf returns the request for the changes that a page about a run shows: those of
// the run, or, if the visitor wants all, those of all undecided work up to it.
func (q *request) changesOf(ctx context.Context, info *api.RunInfo) (r api.DiffRequest, all bool, err error) {
	r = api.DiffRequest{Cell: info.Cell, Run: info.RunID}
	if q.URL.Query().Get("all") == "" {
		return r, false, nil
	}
	one := r
	one.Stream = true
	res, err := q.engine.Diff(ctx, one)
	if err != nil || len(res.Earlier) == 0 {
		return r, false, err
	}
	return api.DiffRequest{Cell: info.Cell, From: res.Earlier[0].CheckpointBefore, To: info.After}, true, nil
}

// addCellOf adds the cell of a run, if it still exists.
func (q *request) addCellOf(ctx context.Context, body *runBody) (err error) {
	switch body.Cell, err = q.engine.Status(ctx, body.RunInfo.Cell); {
	case err == nil:
		body.Undoable, err = q.engine.HasApply(ctx, body.RunInfo.Cell)
		return err
	case isGone(err):
		body.Missing = "The cell was removed. The receipt remains."
	default:
		body.Missing = q.problem(err)
	}
	return nil
}

// addProof reads what the receipt says.
func (q *request) addProof(ctx context.Context, body *runBody) error {
	doc, err := q.engine.Receipt(ctx, body.ReceiptID, "", false)
	if err != nil {
		return err
	}
	signed, err := signedRun(doc)
	if err != nil {
		return err
	}
	body.Receipt, body.Asked = signed, controlsOf(signed)
	body.Decisions, err = q.engine.Decisions(ctx, "", body.RunID)
	body.Decisions = slices.DeleteFunc(body.Decisions, func(d api.DecisionInfo) bool { return !q.visit.Sees(d.Cell) })
	return err
}

// signedRun returns the statement of a receipt.
func signedRun(doc *api.ReceiptDoc) (*receipt.Run, error) {
	var signed struct {
		Receipt struct {
			Predicate receipt.Run `json:"predicate"`
		} `json:"receipt"`
	}
	err := json.Unmarshal(doc.JSON, &signed)
	return &signed.Receipt.Predicate, err
}

// controlsOf lists the controls of a run in the order of the request.
func controlsOf(r *receipt.Run) []control {
	asked, achieved := flatten(r.Controls.Asked), flatten(r.Controls.Achieved)
	var list []control
	for _, name := range asked.names {
		list = append(list, control{name, asked.values[name], achieved.values[name]})
	}
	for _, name := range achieved.names {
		if _, known := asked.values[name]; !known {
			list = append(list, control{name, "", achieved.values[name]})
		}
	}
	list = slices.DeleteFunc(list, func(c control) bool { return c.Asked == "" && c.Achieved == "" })
	for i := range list {
		list[i].Name = strings.ReplaceAll(list[i].Name, "_", " ")
	}
	return list
}

// flat is a JSON object with its keys in order, and its values as text.
type flat struct {
	names  []string
	values map[string]string
}

// flatten returns the keys of a JSON object and their values as text.
func flatten(raw json.RawMessage) flat {
	f := flat{values: map[string]string{}}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return f
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return f
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return f
		}
		key, _ := name.(string)
		f.names, f.values[key] = append(f.names, key), plainValue(value)
	}
	return f
}

// plainValue returns a JSON value as text for people.
func plainValue(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var list []string
	if json.Unmarshal(value, &list) == nil {
		return strings.Join(list, ", ")
	}
	return string(value)
}

// reach lists the destinations that a run reached, and those that it was denied.
type reach struct {
	Allowed, Denied []destination
	// More reports that only the newest events were read.
	More bool
}

// destination is a host, and how often a run wanted it.
type destination struct {
	Host  string
	Count uint64
}

// eventsRead bounds the events that a page reads.
const eventsRead = 2000

// sumDestinations sums the network events of a run up by destination.
func (q *request) sumDestinations(ctx context.Context, run string) (r reach, err error) {
	allowed, denied := counter{}, counter{}
	n := 0
	err = q.engine.Events(ctx, api.EventQuery{Run: run, Limit: eventsRead}, func(rec event.Record) error {
		n++
		what := newEventLine(rec)
		if what.Target == "" || !what.network {
			return nil
		}
		if rec.Action == event.ActionDenied {
			denied.add(what.Target, rec.Count)
		} else {
			allowed.add(what.Target, rec.Count)
		}
		return nil
	})
	r.Allowed, r.Denied, r.More = allowed.list, denied.list, n >= eventsRead
	return r, err
}

// counter counts names in the order in which they come.
type counter struct{ list []destination }

func (c *counter) add(host string, n uint64) {
	for i := range c.list {
		if c.list[i].Host == host {
			c.list[i].Count += n
			return
		}
	}
	if len(c.list) < 50 {
		c.list = append(c.list, destination{host, n})
	}
}
