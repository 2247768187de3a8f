package cell

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/store"
)

// fact is one thing that the database says and that a statement says too.
type fact struct {
	id, cell, run string // what it is about
	what          string
}

// facts maps each to its value.
type facts map[fact]string

// difference is a fact that the log and the database do not agree on.
type difference struct {
	fact
	text string
}

// replayed reads the log into a database in memory and takes its facts.
func (e *Engine) replayed() (facts, error) {
	scratch, err := e.store.Scratch()
	if err != nil {
		return nil, err
	}
	defer scratch.CloseDatabase() //nolint:errcheck // it is only memory
	b, err := e.newRebuild(&RecoverResult{})
	if err != nil {
		return nil, err
	}
	b.tail = nil
	var all facts
	err = scratch.Update(func(tx *store.Tx) error {
		if err := b.replay(tx); err != nil {
			return err
		}
		all, err = snapshot(tx)
		return err
	})
	return all, err
}

// snapshot takes the facts of a database: those that statements determine.
func snapshot(tx *store.Tx) (facts, error) {
	f := facts{}
	cells, err := tx.Cells(true)
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		f.cell(c)
	}
	names, err := tx.NamedCheckpoints()
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		f[fact{n.CellID, n.CellID, "", "checkpoint called " + n.Name}] = n.Checkpoint
	}
	chks, err := tx.Checkpoints("")
	if err != nil {
		return nil, err
	}
	for _, c := range chks {
		f.checkpoint(c)
	}
	runs, err := tx.Runs("")
	for _, r := range runs {
		if r.State == "done" {
			f.run(r)
		}
	}
	return f, err
}

func (f facts) cell(c store.Cell) {
	for what, value := range map[string]string{
		"name": c.Name, "head": c.Head, "applied state": c.Applied, "source": c.Source, "backend": c.Backend,
		"place": c.MountAt, "live directory": c.Live, "origin": c.ForkedCheckpoint, "read-only paths": text(c.ReadOnly),
		"rules": text(c.Rules), "left-out paths": text(c.LeftOut), "kept paths": text(c.Kept),
		"policy": c.Policy, "decisions about inherited runs": text(c.Inherited),
	} {
		f[fact{c.ID, c.ID, "", what}] = value
	}
}

func (f facts) checkpoint(c store.Checkpoint) {
	for what, value := range map[string]string{"parent": c.Parent, "layer": c.Layer, "run": c.RunID, "cell": c.CellID} {
		f[fact{c.ID, c.CellID, c.RunID, what}] = value
	}
	for area, a := range c.Areas {
		f[fact{c.ID, c.CellID, c.RunID, "roots of " + area}] = a.Root + " " + a.MetaRoot
	}
}

func (f facts) run(r store.Run) {
	for what, value := range map[string]string{
		"receipt": r.ReceiptID, "outcome": r.Outcome, "exit code": fmt.Sprint(r.ExitCode), "signal": fmt.Sprint(r.Signal),
		"state before": r.Before, "state after": r.After, "decision": r.Decision, "command": text(r.Command),
		"stdout": r.Stdout, "stderr": r.Stderr, "changed files": fmt.Sprint(r.Changed), "actor": r.Actor,
	} {
		f[fact{r.ID, r.CellID, r.ID, what}] = value
	}
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// differences compares both ways, in a stable order. States that nobody signed
// and nothing refers to are what a crash may leave, and no difference.
func differences(signed, now facts) []difference {
	var out []difference
	inLog, inDatabase := signed.subjects(), now.subjects()
	for id, f := range inLog {
		if _, ok := inDatabase[id]; !ok {
			out = append(out, difference{f, fmt.Sprintf("the database has no %s %s", kindOfID(id), id)})
		}
	}
	for id, f := range inDatabase {
		if _, ok := inLog[id]; !ok && kindOfID(id) != "checkpoint" {
			out = append(out, difference{f, fmt.Sprintf("the database has a %s that no statement is about", kindOfID(id))})
		}
	}
	for f, want := range signed {
		if got, ok := now[f]; ok && got != want {
			out = append(out, difference{f, fmt.Sprintf("the database says %s %q, signed was %q", f.what, got, want)})
		} else if _, present := inDatabase[f.id]; !ok && present {
			out = append(out, difference{f, fmt.Sprintf("the database has no %s, signed was %q", f.what, want)})
		}
	}
	for f := range now {
		if _, ok := signed[f]; !ok && inLog[f.id] != (fact{}) {
			out = append(out, difference{f, fmt.Sprintf("the database has a %s that nobody signed", f.what)})
		}
	}
	slices.SortFunc(out, func(a, b difference) int { return strings.Compare(a.id+a.what, b.id+b.what) })
	return out
}

// subjects are the things that facts are about, each with one of its facts.
func (f facts) subjects() map[string]fact {
	out := map[string]fact{}
	for k := range f {
		out[k.id] = k
	}
	return out
}

func kindOfID(id string) string {
	switch prefix, _, _ := strings.Cut(id, "_"); prefix {
	case "chk":
		return "checkpoint"
	case "run", "cell":
		return prefix
	}
	return "record"
}
