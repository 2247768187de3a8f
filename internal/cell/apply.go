package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/apply"
	"github.com/forkcell/forkcell/internal/failpoint"
	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/tree"
	"github.com/forkcell/forkcell/internal/workspace"
)

// Apply writes the accepted changes to the source directory, or to another.
func (e *Engine) Apply(ctx context.Context, req ApplyRequest) (*ApplyResult, error) {
	s, err := e.hold(ctx, req.Cell, "apply", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	return s.apply(ctx, req)
}

// application is one apply on its way.
type application struct {
	*session
	req     ApplyRequest
	to      string // the directory
	source  bool   // it is the cell's own source
	base    store.Checkpoint
	theirs  store.Checkpoint
	pick    *leftout.Selector
	target  *fsx.Dir
	merge   merge
	result  *ApplyResult
	intent  applyIntent
	changes []tree.Change
}

// applyIntent is what has to be recorded when the files are written.
type applyIntent struct {
	Target  string      `json:"target"`
	Record  store.Apply `json:"record"`
	Applied string      `json:"applied"`         // the cell's applied state afterwards; "" = unchanged
	State   string      `json:"state,omitempty"` // that state in full, where no run made it
	Undoes  string      `json:"undoes,omitempty"`
}

func (s *session) apply(ctx context.Context, req ApplyRequest) (*ApplyResult, error) {
	a := &application{session: s, req: req}
	if err := a.prepare(); err != nil {
		return nil, err
	}
	if a.target == nil {
		return a.result, nil
	}
	defer a.target.Close()
	if err := a.plan(); err != nil {
		return nil, err
	}
	if err := a.hazards(); err != nil {
		return nil, err
	}
	if req.DryRun || len(a.merge.ops) == 0 {
		if req.DryRun {
			return a.result, nil
		}
		return a.result, a.nothingToWrite()
	}
	return a.result, a.write(ctx)
}

// prepare finds the two states and the directory.
func (a *application) prepare() error {
	a.to, a.source = a.req.To, a.req.To == ""
	if a.source {
		a.to = a.cell.Source
		if a.cell.SourceKind != "dir" {
			return refused("no_source", "`--to DIR` names a directory", "cell %s was made from an archive", a.cell.Name)
		}
	}
	if err := a.apart("--to", a.to); err != nil {
		return err
	}
	var err error
	if a.pick, err = leftout.NewSelector(a.req.Only, a.req.Except); err != nil {
		return usage("patterns are gitignore-style", "bad pattern: %v", err)
	}
	if err := a.states(); err != nil {
		return err
	}
	a.result = &ApplyResult{
		Cell: a.cell.Name, To: a.to, DryRun: a.req.DryRun, Checkpoint: a.theirs.ID,
		Written: []ChangeJSON{}, Already: []string{}, Chosen: []PathNote{}, Kept: []PathNote{},
	}
	if a.cell.Live != "" && a.source && a.cell.Live == a.cell.Source {
		a.result.Already = append(a.result.Already, ".")
		return nil
	}
	a.target, err = fsx.OpenRoot(a.to)
	if err != nil {
		return usage("give an existing directory with --to", "%s: %v", quote.Path(a.to), err)
	}
	return nil
}

func (a *application) apart(flag, path string) error { return a.e.apart(flag, path) }

// states finds the accepted state, which is what an apply may write, and the one
// to compare it with.
func (a *application) states() error {
	var waiting *store.Run
	err := a.e.store.View(func(tx *store.Tx) (err error) {
		if a.theirs, waiting, err = settled(tx, a.head); err != nil {
			return err
		}
		a.base, err = a.baseFor(tx)
		return err
	})
	if err != nil {
		return err
	}
	if waiting != nil && a.theirs.ID == a.base.ID {
		return refused("pending", "`forkcell accept "+a.cell.Name+"` first, or `accept --apply`",
			"run %s is %s: only accepted changes are applied", waiting.ID, waiting.Decision)
	}
	return nil
}

// baseFor is the state that the directory and the accepted state both come from:
// for a directory other than the source, what was imported.
func (a *application) baseFor(tx *store.Tx) (store.Checkpoint, error) {
	if !a.source {
		return a.e.findCheckpoint(tx, a.cell, "base")
	}
	return a.shared(tx, a.theirs)
}

// shared is the state of the source that a state of the cell builds on: what was
// applied last, but without the changes of the source that a refresh brought in
// and that this state, being older, does not know. Those are the source's own.
func (s *session) shared(tx *store.Tx, state store.Checkpoint) (store.Checkpoint, error) {
	line, err := tx.Lineage(state.ID)
	if err != nil {
		return store.Checkpoint{}, err
	}
	known := map[string]bool{}
	for _, c := range line {
		known[c.ID], known[c.Source] = true, true
	}
	base, err := tx.Checkpoint(s.cell.Applied)
	for err == nil && base.Kind == kindSource && !known[base.ID] {
		base, err = tx.Checkpoint(base.Parent)
	}
	return base, err
}

// kindSource is a state of the source that a refresh sealed.
const kindSource = "source"

// settled is the newest state of a lineage up to which every run was accepted,
// and the first run after it that was not.
func settled(tx *store.Tx, from store.Checkpoint) (store.Checkpoint, *store.Run, error) {
	line, err := tx.Lineage(from.ID)
	if err != nil || len(line) == 0 {
		return from, nil, errors.Join(err, fmt.Errorf("checkpoint %s has no beginning", from.ID))
	}
	stands := line[len(line)-1]
	for _, c := range slices.Backward(line) {
		if c.RunID != "" {
			r, err := tx.Run(c.RunID)
			if err != nil {
				return stands, nil, err
			}
			if r.Decision != accepted && r.Decision != superseded {
				return stands, &r, nil
			}
		}
		stands = c
	}
	return stands, nil, nil
}

// plan compares three sides: what was applied last, what the cell made of it,
// what the directory holds now.
func (a *application) plan() error {
	mode, err := conflictMode(a.req.OnConflict)
	if err != nil {
		return err
	}
	base, theirs, err := a.e.trees(a.base, a.theirs, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	if a.changes, err = tree.Diff(base, theirs, tree.DiffOptions{Renames: true}); err != nil {
		return err
	}
	probe := func(path string) (*tree.Entry, error) { return apply.Probe(a.target, path) }
	a.merge, err = threeWay(a.to, base, theirs, probe, apply.ThreeWayOptions{
		OnConflict: mode, Only: a.pick.Match, LeftOut: a.leftOut, Owners: os.Geteuid() == 0, Names: a.names,
	})
	if err != nil {
		return err
	}
	a.describe()
	return nil
}

// names lists a directory of the target; one that is not there is empty.
func (a *application) names(path string) ([]string, error) {
	d, err := a.target.OpenDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Names()
}

// merge is what a three-way comparison without conflicts gave.
type merge struct {
	ops     []apply.Op
	already []string
	chosen  []apply.Choice
}

func threeWay(where string, base, theirs *tree.Tree, ours func(string) (*tree.Entry, error), opt apply.ThreeWayOptions) (merge, error) {
	ops, already, conflicts, chosen, err := apply.ThreeWay(base, theirs, ours, opt)
	if err != nil {
		return merge{}, failed("compare", err, "compare with %s", quote.Path(where))
	}
	if len(conflicts) > 0 {
		return merge{}, conflictError(where, conflicts)
	}
	return merge{ops, already, chosen}, nil
}

func conflictMode(word string) (apply.OnConflict, error) {
	switch word {
	case "", "fail":
		return apply.Fail, nil
	case "ours":
		return apply.Ours, nil
	case "theirs":
		return apply.Theirs, nil
	}
	return apply.Fail, usage("one of fail, ours, theirs", "unknown --on-conflict %s", quote.Arg(word))
}

func conflictError(where string, conflicts []apply.Conflict) error {
	e := &Error{
		Kind: Refused, Code: "conflict",
		Message: fmt.Sprintf("%d conflicts in %s; nothing was written", len(conflicts), quote.Path(where)),
		Hint:    "settle them there, or give --on-conflict ours|theirs, or leave them out with --except",
	}
	for _, c := range conflicts {
		e.Details = append(e.Details, quote.Path(c.Path)+": "+c.Reason)
	}
	return e
}

// leftOut tells what the secret rules keep in the source: it is never touched.
// A path counts if it was left out at import, or if a rule names it and
// something is there now.
func (a *application) leftOut(path string, isDir bool) bool {
	for _, l := range a.cell.LeftOut {
		if within(path, string(l.Path)) {
			return true
		}
	}
	for _, k := range a.cell.Kept {
		if k == path {
			return false
		}
	}
	if _, out := a.at.Rules.Match(path, isDir); !out {
		return false
	}
	_, err := a.target.Lstat(path)
	return err == nil
}

// describe fills in what will be written.
func (a *application) describe() {
	planned := map[string]bool{}
	for _, op := range a.merge.ops {
		planned[op.Path] = true
	}
	for _, ch := range a.changes {
		if planned[ch.Path] {
			a.result.Written = append(a.result.Written, changeJSON(ch))
		}
	}
	a.result.Already = append(a.result.Already, a.merge.already...)
	for _, c := range a.merge.chosen {
		a.result.Chosen = append(a.result.Chosen, note(c.Path, string(c.Took)+": "+c.Reason))
	}
}

// hazards holds back what would make the host run things later, or gain rights.
func (a *application) hazards() error {
	allow, err := leftout.NewSelector(a.req.AllowControl, nil)
	if err != nil {
		return usage("patterns are gitignore-style", "bad --allow-control: %v", err)
	}
	var held []string
	control, privilege := false, false
	for _, op := range a.merge.ops {
		isDir := op.New != nil && op.New.Kind == tree.KindDir
		what, is := leftout.IsControl(op.Path)
		if isDir {
			what, is = leftout.IsControlDir(op.Path)
		}
		allowed := len(a.req.AllowControl) > 0 && allow.Match(op.Path, isDir)
		if is && !allowed {
			held = append(held, quote.Path(op.Path)+": "+what)
			control = true
		}
		if why := gainsRights(op); why != "" && !a.req.AllowSetuid {
			held = append(held, quote.Path(op.Path)+": "+why)
			privilege = true
		}
	}
	if len(held) == 0 {
		return nil
	}
	var ways []string
	if control {
		ways = append(ways, "--allow-control PATTERN")
	}
	if privilege {
		ways = append(ways, "--allow-setuid")
	}
	return &Error{
		Kind: Refused, Code: "held_back",
		Message: fmt.Sprintf("%d changes are held back; nothing was written", len(held)),
		Hint:    "look at them, then give " + strings.Join(ways, " or ") + ", or leave them out with --except", Details: held,
	}
}

func gainsRights(op apply.Op) string {
	if op.New == nil {
		return ""
	}
	const setID = 0o6000
	oldMode := uint32(0)
	known := map[string]string{}
	if op.Old != nil {
		oldMode = op.Old.Mode
		for _, x := range op.Old.Xattrs {
			known[x.Name] = string(x.Value)
		}
	}
	if op.New.Kind != tree.KindSymlink && op.New.Mode&setID&^oldMode != 0 {
		return fmt.Sprintf("gets the mode %04o (setuid or setgid)", op.New.Mode)
	}
	for _, x := range op.New.Xattrs {
		if strings.HasPrefix(x.Name, "security.") && known[x.Name] != string(x.Value) {
			return "gets the attribute " + quote.Line(x.Name)
		}
	}
	return ""
}

// write carries the plan out: intent, files, database.
func (a *application) write(ctx context.Context) error {
	applied, err := a.appliedState(ctx)
	if err != nil {
		return err
	}
	id := store.NewID("apply")
	a.result.ApplyID = id
	a.intent = applyIntent{Target: a.to, Record: store.Apply{
		ID: id, CellID: a.cell.ID, To: a.to, From: a.base.ID, Checkpoint: a.theirs.ID, Partial: applied.ID != a.theirs.ID,
	}}
	if a.source {
		a.intent.Applied = applied.ID
	}
	if applied.ID != a.theirs.ID {
		if a.intent.State, err = stateDetail(applied); err != nil {
			return err
		}
	}
	theirs, err := a.e.tree(a.theirs, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	links, err := theirs.Links()
	if err != nil {
		return err
	}
	report, err := a.execute(ctx, id, a.intent, apply.Plan{
		ID: id, Target: a.to, Ops: a.merge.ops, Links: links.Groups, Owners: os.Geteuid() == 0,
	}, contents{a.e, a.cell, a.theirs, theirs}, apply.Options{Keep: a.leftOut})
	for _, k := range report.Kept {
		a.result.Kept = append(a.result.Kept, note(k, "holds files that were left out"))
	}
	return err
}

// nothingToWrite still moves the mark: the source has what the cell has.
func (a *application) nothingToWrite() error {
	if !a.source || a.theirs.ID == a.base.ID || len(a.req.Only)+len(a.req.Except) > 0 {
		return nil
	}
	a.cell.Applied = a.theirs.ID
	return a.e.store.Update(func(tx *store.Tx) error {
		if err := tx.PutCell(a.cell); err != nil {
			return err
		}
		return a.e.logChange(tx, a.cell, a.head, opApply, map[string]string{"to": printable(a.to), "applied": a.theirs.ID})
	})
}

// appliedState is the state that the source corresponds to afterwards. With a
// selection it is a state of its own: the last applied one plus what was chosen.
func (a *application) appliedState(ctx context.Context) (store.Checkpoint, error) {
	if !a.source || len(a.req.Only)+len(a.req.Except) == 0 {
		return a.theirs, nil
	}
	base, theirs, err := a.e.trees(a.base, a.theirs, workspace.AreaWorkspace)
	if err != nil {
		return a.theirs, err
	}
	all, err := tree.Diff(base, theirs, tree.DiffOptions{MTimes: true})
	if err != nil {
		return a.theirs, err
	}
	var edits []workspace.Edit
	for _, ch := range all {
		if a.pick.Match(ch.Path, isDirChange(ch)) {
			edits = append(edits, a.e.edit(a.cell, a.theirs, ch))
		}
	}
	return a.derive(ctx, a.base, "applied", edits)
}

// derive makes and records a state from another and edits, without moving the
// head.
func (s *session) derive(ctx context.Context, from store.Checkpoint, kind string, edits []workspace.Edit) (store.Checkpoint, error) {
	sealed, err := s.e.ws.Compose(ctx, s.at, from.Layer, store.NewID("op"), edits)
	if err != nil || sealed.Unchanged {
		return from, err
	}
	made := s.e.newCheckpoint(s.cell, from.ID, kind, "", sealed)
	return made, s.e.store.Update(func(tx *store.Tx) error { return tx.PutCheckpoint(made) })
}

// execute writes files under an intent and then records what was done.
func (s *session) execute(ctx context.Context, id string, in applyIntent, p apply.Plan, src apply.Source, opt apply.Options) (apply.Report, error) {
	err := s.e.store.Update(func(tx *store.Tx) error { return tx.PutIntent(id, s.cell.ID, intentApply, in) })
	if err != nil {
		return apply.Report{}, err
	}
	journal, err := s.journal(id, true)
	if err != nil {
		return apply.Report{}, errors.Join(err, s.dropIntent(id))
	}
	defer journal.Close()
	report, err := apply.Execute(ctx, p, src, journal, opt)
	failpoint.Hit("apply.executed")
	if err != nil && !report.Committed {
		if bad, ok := errors.AsType[*apply.ConflictError](err); ok {
			return report, errors.Join(conflictError(in.Target, bad.Conflicts), s.dropIntent(id))
		}
		return report, errors.Join(failed("apply", err, "write to %s; it is as it was", quote.Path(in.Target)), s.dropIntent(id))
	}
	return report, errors.Join(err, s.commitApply(id, in))
}

func (s *session) dropIntent(id string) error {
	return s.e.store.Update(func(tx *store.Tx) error { return tx.DropIntent(id) })
}

// commitApply records files that are written.
func (s *session) commitApply(id string, in applyIntent) error {
	op := opApply
	return s.e.store.Update(func(tx *store.Tx) error {
		rec := in.Record
		rec.ID, rec.CellID = id, s.cell.ID
		if in.Undoes != "" {
			op = opUndo
			rec.ID, rec.Undone = in.Undoes, true
		}
		if err := tx.PutApply(rec); err != nil {
			return err
		}
		if in.Applied != "" {
			s.cell.Applied = in.Applied
		}
		if err := tx.PutCell(s.cell); err != nil {
			return err
		}
		doc, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		if err := tx.DropIntent(id); err != nil {
			return err
		}
		return s.e.logChange(tx, s.cell, s.head, op, map[string]string{
			"apply": string(doc), "apply_id": rec.ID, "to": printable(in.Target), "applied": in.Applied, "state": in.State,
		})
	})
}

func (s *session) journal(id string, create bool) (*fsx.Dir, error) {
	if create {
		if err := s.e.store.Dir().MkdirAll("applies/"+id, 0o700); err != nil {
			return nil, err
		}
	}
	return s.e.store.Dir().OpenDir("applies/" + id)
}

// settleApply ends an apply whose process died: taken back, or recorded.
func (s *session) settleApply(ctx context.Context, in store.Intent) error {
	var doc applyIntent
	if err := json.Unmarshal(in.Doc, &doc); err != nil {
		return err
	}
	journal, err := s.journal(in.ID, false)
	if errors.Is(err, os.ErrNotExist) {
		return s.dropIntent(in.ID)
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	if _, err := os.Stat(doc.Target); errors.Is(err, os.ErrNotExist) {
		return s.dropIntent(in.ID) // the directory itself is gone
	}
	back, err := apply.Recover(ctx, doc.Target, journal)
	if err != nil {
		return fmt.Errorf("recover the apply to %s: %w", quote.Path(doc.Target), err)
	}
	if back {
		return s.dropIntent(in.ID)
	}
	return s.commitApply(in.ID, doc)
}

// Undo takes the last apply back where nothing newer would be lost.
func (e *Engine) Undo(ctx context.Context, cell string) (*ApplyResult, error) {
	s, err := e.hold(ctx, cell, "undo", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	var last store.Apply
	err = e.store.View(func(tx *store.Tx) (err error) {
		last, err = tx.LastApply(s.cell.ID)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, refused("nothing", "", "cell %s has no apply to take back", cell)
	}
	if err != nil {
		return nil, err
	}
	journal, err := s.journal(last.ID, false)
	if err != nil {
		return nil, fmt.Errorf("journal of %s: %w", last.ID, err)
	}
	defer journal.Close()
	plan, src, err := apply.Inverse(journal)
	if err != nil {
		return nil, failed("undo", err, "read the journal of %s", last.ID)
	}
	plan.ID = store.NewID("apply")
	in := applyIntent{Target: last.To, Record: last, Undoes: last.ID}
	if last.To == s.cell.Source {
		in.Applied = last.From
	}
	res := &ApplyResult{
		Cell: s.cell.Name, ApplyID: last.ID, To: last.To, Checkpoint: last.From,
		Written: []ChangeJSON{}, Already: []string{}, Chosen: []PathNote{}, Kept: []PathNote{},
	}
	for _, op := range plan.Ops {
		res.Written = append(res.Written, opJSON(op))
	}
	_, err = s.execute(ctx, plan.ID, in, plan, src, apply.Options{})
	return res, err
}

// opJSON describes an op where there is no tree to compare.
func opJSON(op apply.Op) ChangeJSON {
	ch := tree.Change{Path: op.Path, Old: op.Old, New: op.New, Kind: tree.Modified}
	switch {
	case op.Old == nil:
		ch.Kind = tree.Added
	case op.New == nil:
		ch.Kind = tree.Deleted
	case op.Old.Kind != op.New.Kind:
		ch.Kind = tree.TypeChanged
	}
	return changeJSON(ch)
}

// contents opens files of a state for an apply. It asks the state's own tree
// where the bytes are: the entries of a plan do not say.
type contents struct {
	e    *Engine
	cell store.Cell
	at   store.Checkpoint
	tree *tree.Tree
}

func (c contents) Open(path string, _ tree.Entry) (io.ReadCloser, error) {
	entry, ok, err := c.tree.Lookup(path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%s has no %s", c.at.ID, quote.Path(path))
	}
	return c.e.opener(c.cell, c.at, workspace.AreaWorkspace, path, entry)()
}
