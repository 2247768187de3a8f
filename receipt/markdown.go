package receipt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Markdown writes a receipt for people: the present decision, what ran, what
// changed, under which controls. decisions are those about this receipt, in any
// order; checks, if there are any, are shown as they are. Like [Present] it
// verifies nothing.
//
// Everything that a cell, a command or a file name may have chosen is shown in code
// spans that it cannot leave. The line that starts with "Decision:" stands once.
func Markdown(w io.Writer, r *Run, decisions []*Decision, checks []Check) error {
	var m page
	m.line("# Receipt " + code(r.ReceiptID))
	m.line("")
	standing := Present(r, decisions)
	m.line("Decision: " + code(string(standing.Result)))
	for _, d := range DecisionsOfOthers(r, decisions) {
		m.line("")
		m.line("Also in " + code(d.Cell) + ": " + code(string(d.Result)))
	}
	m.line("")
	m.runTable(r, standing)
	m.stateTable(r)
	m.governed(r)
	m.timings(r)
	m.logs(r)
	m.decisions(decisions, r)
	m.races(decisions, r)
	m.checks(checks)
	_, err := w.Write(m.Bytes())
	if err != nil {
		return fmt.Errorf("write receipt: %w", err)
	}
	return nil
}

// page collects lines. Its methods take text that is safe already; foreign text
// goes through code first.
type page struct{ bytes.Buffer }

func (m *page) line(s string) {
	m.WriteString(s)
	m.WriteByte('\n')
}

func (m *page) heading(title string, columns ...string) {
	m.line("")
	m.line("## " + title)
	m.line("")
	if len(columns) > 0 {
		m.row(columns...)
		m.line("|" + strings.Repeat("---|", len(columns)))
	}
}

func (m *page) row(cells ...string) { m.line("| " + strings.Join(cells, " | ") + " |") }

// field writes a row of two cells, unless the value is empty.
func (m *page) field(name, value string) {
	if value != "" {
		m.row(name, code(value))
	}
}

func (m *page) list(name string, items []string) {
	if len(items) > 0 {
		m.row(name, "`"+visibleAll(items)+"`")
	}
}

func (m *page) runTable(r *Run, s PresentDecision) {
	m.row("Run", code(r.RunID))
	m.line("|---|---|")
	m.field("Decided by", decidedBy(s))
	m.field("Reason", s.Reason)
	m.field("Cell", r.Cell)
	m.list("Command", r.command())
	if r.Executed != nil {
		m.row("Executed in it", "`"+r.Executed.inWords()+"`")
	}
	m.field("Directory", r.Workdir)
	m.list("Environment", r.EnvNames)
	m.list("Read-only", r.ReadOnly)
	m.field("Outcome", string(r.Outcome))
	m.field("Exit code", strconv.Itoa(r.ExitCode))
	if r.Signal != 0 {
		m.field("Signal", strconv.Itoa(r.Signal))
	}
	m.field("Error", r.Error)
	m.field("Started", stamp(r.StartedAt))
	m.field("Finished", stamp(r.FinishedAt))
	if b := r.Branch; b != nil {
		m.field("Branch of", b.Source+", run "+b.SourceRunID)
		m.field("Branched at", b.CheckpointID+", "+stamp(b.At))
	}
	if p := r.Resumed; p != nil {
		m.field("Resumed after", p.RunID+", paused "+p.describe())
	}
	if p := r.Paused; p != nil {
		m.field("Paused", p.describe())
	}
	if s := r.Session; s != nil {
		m.field("Agent", strings.TrimSpace(s.Agent+" "+s.AgentVersion))
		m.field("Mode", s.Mode+", "+s.Autonomy)
		m.field("Assurance", s.Assurance)
		if len(s.AssuranceFalls) > 0 {
			m.field("Assurance fell by", strings.Join(s.AssuranceFalls, " "))
		}
		m.list("Credentials", s.Credentials)
	}
	m.field("Asked by", r.Actor)
	m.field("Place in the log", strconv.FormatInt(r.Seq, 10))
	m.field("Signing key", r.KeyID)
}

func decidedBy(s PresentDecision) string {
	switch {
	case s.DecisionID == "":
		return ""
	case s.Automatic:
		return s.DecisionID + ", automatic"
	case s.Forced:
		return s.DecisionID + ", forced, " + s.Actor
	}
	return s.DecisionID + ", " + s.Actor
}

func (m *page) stateTable(r *Run) {
	m.heading("State", "", "before", "after")
	m.row("checkpoint", code(r.CheckpointBefore.ID), code(r.CheckpointAfter.ID))
	m.row("root", code(r.CheckpointBefore.Root), code(r.CheckpointAfter.Root))
	m.row("meta_root", code(r.CheckpointBefore.MetaRoot), code(r.CheckpointAfter.MetaRoot))
	m.line("")
	m.line("Changed files: " + code(strconv.FormatInt(r.ChangedFiles, 10)))
	if len(r.SplitLinks) > 0 {
		m.line("")
		m.line("Hard links split: `" + visibleAll(r.SplitLinks) + "`")
	}
}

// governed lists the controls of the run, and what it tried.
func (m *page) governed(r *Run) {
	m.heading("Controls", "", "")
	policy := r.PolicyHash
	if policy == "" {
		policy = "none"
	}
	m.field("Policy", policy)
	for i, p := range r.Policies {
		if i > 0 {
			m.row("Policy from event "+code(strconv.FormatInt(p.FromEvent, 10)), code(p.PolicyHash))
		}
	}
	for _, what := range r.Degraded {
		m.field("Degraded", what)
	}
	if len(r.Degraded) == 0 {
		m.row("Degraded", "none recorded")
	}
	m.field("Events", strconv.FormatInt(r.Events.Count, 10))
	for _, action := range sortedKeys(r.Events.ByAction) {
		m.row("Events "+code(action), code(strconv.FormatInt(r.Events.ByAction[action], 10)))
	}
	m.field("Hash of the events", r.Events.ChainHead)
	m.field("Runtime", r.Runtime)
	m.field("Backend", r.Backend)
	m.field("Backend chosen because", r.BackendReason)
	m.document("Asked", r.Controls.Asked)
	m.document("Achieved", r.Controls.Achieved)
}

// document shows an object of the runtime key by key. What the keys mean is the
// runtime's business; anything but an object is shown as it is.
func (m *page) document(title string, doc json.RawMessage) {
	if len(doc) == 0 {
		return
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(doc, &fields) != nil || !utf8.Valid(doc) {
		m.row(title, codeJSON(doc))
		return
	}
	for _, name := range sortedKeys(fields) {
		m.row(title+" "+code(name), codeValue(fields[name]))
	}
}

func (m *page) timings(r *Run) {
	if len(r.Timings) == 0 {
		return
	}
	m.heading("Time", "part", "microseconds")
	for _, name := range sortedKeys(r.Timings) {
		m.row(code(name), code(strconv.FormatInt(r.Timings[name], 10)))
	}
}

func (m *page) logs(r *Run) {
	if len(r.Logs) == 0 {
		return
	}
	m.heading("Logs", "stream", "bytes", "SHA-256", "")
	for _, l := range r.Logs {
		note := ""
		if l.Truncated {
			note = "truncated"
			if l.Length > 0 {
				note += " from " + strconv.FormatInt(l.Length, 10) + " bytes"
			}
		}
		m.row(code(l.Stream), code(strconv.FormatInt(l.Bytes, 10)), code(l.SHA256), note)
	}
}

func (m *page) decisions(decisions []*Decision, r *Run) {
	if len(decisions) == 0 {
		return
	}
	m.heading("Decisions", "seq", "decision", "cell", "result", "actor", "reason", "time")
	for _, d := range sortedBySeq(decisions) {
		if d.ReceiptID != r.ReceiptID {
			continue
		}
		m.row(code(strconv.FormatInt(d.Seq, 10)), code(d.DecisionID), code(d.Cell), code(string(d.Result)),
			code(d.Actor), code(d.Reason), code(stamp(d.CreatedAt)))
	}
}

// races lists the attempts of each race that the run has won.
func (m *page) races(decisions []*Decision, r *Run) {
	for _, d := range sortedBySeq(decisions) {
		if d.ReceiptID != r.ReceiptID || d.Race == nil {
			continue
		}
		m.heading("Race of "+code(d.DecisionID), "attempt", "cell", "outcome", "exit code", "judge", "score", "microseconds", "receipt")
		for _, a := range d.Race.Attempts {
			m.attempt(a, a.Number == d.Race.Winner)
		}
		m.line("")
		if d.Race.Best == BestChosen {
			m.line("Chosen after the race by: " + code(d.Actor))
		} else {
			m.line("Chosen by: " + code(string(d.Race.Best)))
		}
		if len(d.Race.Judge) > 0 {
			m.line("")
			m.line("Judge: `" + visibleAll(d.Race.Judge) + "`")
		}
	}
}

func (m *page) attempt(a Attempt, won bool) {
	number, judge, score, id := strconv.Itoa(a.Number), "", "", ""
	if won {
		number += " (winner)"
	}
	if j := a.Judgement; j != nil {
		judge = code("exit " + strconv.Itoa(j.ExitCode))
		if j.Score != nil {
			score = code(strconv.FormatFloat(*j.Score, 'g', -1, 64))
		}
	}
	if a.Receipt != nil {
		id = code(a.Receipt.ReceiptID)
	}
	m.row(number, code(a.Cell), code(string(a.Outcome)), code(strconv.Itoa(a.ExitCode)), judge, score, code(strconv.FormatInt(a.DurationUS, 10)), id)
}

func (m *page) checks(checks []Check) {
	if len(checks) == 0 {
		return
	}
	m.heading("Checks", "what", "state", "SHA-256", "note")
	for _, c := range checks {
		note := ""
		if c.Note != "" {
			note = code(c.Note)
		}
		m.row(code(c.Name), string(c.State), code(c.SHA256), note)
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
