package api

import "strings"

// PathNote is a path with one word or sentence about it. A path that is not
// UTF-8 has its exact bytes in PathBase64.
type PathNote struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
	Note       string `json:"note"`
}

// AreaChange counts what changed in an area of a cell besides the workspace.
type AreaChange struct {
	// Area is home, cache, or the path of a directory in the cell.
	Area  string `json:"area"`
	Files int    `json:"files"`
}

// ElsewhereText describes changes outside the workspace; it is empty if there are none.
func ElsewhereText(list []AreaChange) string {
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.Area + ": " + Counted(a.Files, "file") + " changed"
	}
	return strings.Join(texts, ", ")
}

// CheckpointResult names a sealed state.
type CheckpointResult struct {
	Cell         string `json:"cell"`
	CheckpointID string `json:"checkpoint_id"`
	Root         string `json:"root"`
	MetaRoot     string `json:"meta_root"`
	Name         string `json:"name"`
	Live         bool   `json:"live"`     // captured from a live cell,
	PauseUS      int64  `json:"pause_us"` // which stood still for so long
	// Memory is the digest of the saved memory; "" if there is none.
	Memory string `json:"memory,omitempty"`
}

// RestoreRequest moves a cell back. Without a state and a run it goes to the state before
// the last run.
type RestoreRequest struct {
	Cell       string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Checkpoint string `json:"checkpoint,omitempty" doc:"The state to go back to."`
	Run        string `json:"run,omitempty" doc:"Go back to the state before this run."`
	// Runs are those that the caller has seen.
	Runs   []string `json:"runs,omitempty" maxItems:"10000" doc:"The runs that may be taken back. If some are named, a request that takes back another one is refused."`
	Reason string   `json:"reason,omitempty" doc:"Why, for the record."`
	Force  bool     `json:"force,omitempty" doc:"Stop a live cell first."`
}

// RemoveRequest removes cells, all or none.
type RemoveRequest struct {
	Cells []string `json:"cells"`
	Stop  bool     `json:"stop,omitempty"`  // stops live cells first
	Force bool     `json:"force,omitempty"` // also cells with work that nothing else has; gives up unfinished work
	Now   bool     `json:"now,omitempty"`   // the states are not kept: they cannot be brought back, and the next gc frees them
	// Applied is the state that a directory has which the home does not know. Accepted work
	// up to it is not lost.
	Applied string `json:"applied,omitempty"`
}

// MoveResult is the result of restore and reject: where the head went.
type MoveResult struct {
	Cell         string   `json:"cell"`
	CheckpointID string   `json:"checkpoint_id"`
	Root         string   `json:"root"`
	Left         string   `json:"left_checkpoint_id"`
	RunID        string   `json:"run_id"`
	DecisionID   string   `json:"decision_id"`
	Decision     string   `json:"decision"`
	Also         []string `json:"also_decided"`
	Notes        []string `json:"notes"`
	// Elsewhere counts what the move changes outside the workspace.
	Elsewhere []AreaChange `json:"elsewhere,omitempty"`
}

// AcceptRequest decides that a run's result stands.
type AcceptRequest struct {
	Cell     string   `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Run      string   `json:"run,omitempty" doc:"The run. It is refused if its state has undecided work that is named neither in runs nor in leave_out. Without run and runs, all undecided work is accepted."`
	Runs     []string `json:"runs,omitempty" maxItems:"10000" doc:"The runs and captured states that were shown, as the comparison of states names them. Nothing else is accepted."`
	LeaveOut []string `json:"leave_out,omitempty" maxItems:"10000" doc:"Earlier undecided runs and captured states that are not accepted. What they changed is left out path by path; a path that accepted work changed as well stays whole. What was changed outside the workspace is left out then; the comparison counts it (elsewhere)."`
	Only     []string `json:"only,omitempty" doc:"Accept only paths that match, and nothing outside the workspace."`
	Except   []string `json:"except,omitempty" doc:"Accept all but paths that match, and nothing outside the workspace."`
	Reason   string   `json:"reason,omitempty" doc:"Why, for the record."`
	Force    bool     `json:"force,omitempty" doc:"Accept a run that failed."`
	Apply    bool     `json:"apply,omitempty" doc:"Also write the changes to the source directory."`
	// ExceptPaths are paths that are left out, each without what is below it.
	ExceptPaths []string     `json:"-"`
	Applier     ApplyRequest `json:"-"` // used with Apply; its Cell is ignored
}

// Selects reports whether only a part of the run is accepted.
func (r AcceptRequest) Selects() bool { return len(r.Only)+len(r.Except)+len(r.ExceptPaths) > 0 }

// AcceptResult is what was decided.
type AcceptResult struct {
	Cell         string   `json:"cell"`
	RunID        string   `json:"run_id"`
	DecisionID   string   `json:"decision_id"`
	Decision     string   `json:"decision"`
	CheckpointID string   `json:"checkpoint_id"`
	Root         string   `json:"root"`
	Also         []string `json:"also_decided"`
	// Before is the decision that this one takes the place of: rejected or restored,
	// of a run whose work was brought back since.
	Before string `json:"decision_before,omitempty"`
	// Skipped are newer undecided runs that failed and changed nothing.
	Skipped []string `json:"skipped,omitempty"`
	// Elsewhere counts what the accepted work changed outside the workspace. ElsewhereLeft
	// counts what the work changed there and the cell does not have: a part of the work is
	// a part of its workspace.
	Elsewhere     []AreaChange `json:"elsewhere,omitempty"`
	ElsewhereLeft []AreaChange `json:"elsewhere_left,omitempty"`
	// Left is the state with all of the work, if a part of it was accepted.
	Left string `json:"left_checkpoint_id,omitempty"`
	// Whole are paths that both accepted work and work that was left out changed, and which
	// were accepted as they are.
	Whole   []PathNote   `json:"whole,omitempty"`
	Applied *ApplyResult `json:"applied,omitempty"`
}

// ApplyRequest writes accepted changes to a directory.
type ApplyRequest struct {
	Cell         string   `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	To           string   `json:"to,omitempty" operator:"target" doc:"The directory; without it, the source of the cell. Another one is for the operator, and tokens with allow_control."`
	DryRun       bool     `json:"dry_run,omitempty" doc:"Only say what would be written."`
	Only         []string `json:"only,omitempty" doc:"Apply only paths that match."`
	Except       []string `json:"except,omitempty" doc:"Apply all but paths that match."`
	OnConflict   string   `json:"on_conflict,omitempty" enum:"fail,ours,theirs" doc:"What happens to a path that both sides changed."`
	AllowControl []string `json:"allow_control,omitempty" operator:"control" doc:"Patterns of control files that may be written. For the operator, and tokens with allow_control, whose patterns must match, too."`
	AllowSetuid  bool     `json:"allow_setuid,omitempty" operator:"setuid" doc:"Keep set-id bits. For the operator, and tokens with the pattern ** in allow_control."`
	// Conflicts, unless nil, has the paths that OnConflict decides about. Any other
	// conflict is refused.
	Conflicts []string `json:"-"`
}

// Obstacle is a path that stops an apply or an undo.
type Obstacle struct {
	Path, Reason string
	// Allow is the path to allow, if it is another one.
	Allow string
	// Rights reports that AllowSetuid allows the change, and not AllowControl.
	Rights bool
}

// ObstacleError has the paths that stop an apply or an undo. It is the cause of errors
// with the codes conflict and held_back.
type ObstacleError struct{ Obstacles []Obstacle }

func (e *ObstacleError) Error() string { return Counted(len(e.Obstacles), "obstacle") }

// ApplyResult says what was, or would be, written.
type ApplyResult struct {
	Cell       string       `json:"cell"`
	ApplyID    string       `json:"apply_id"`
	To         string       `json:"to"`
	DryRun     bool         `json:"dry_run"`
	Checkpoint string       `json:"checkpoint_id"`
	Written    []ChangeJSON `json:"written"`
	Already    []string     `json:"already"`
	Chosen     []PathNote   `json:"chosen"`
	Kept       []PathNote   `json:"kept"`
	// Dropped are owners and access lists of the cell that the directory did not
	// get.
	Dropped []PathNote `json:"dropped"`
	// SetAside are changes of control files by runs that masked them, which were not
	// written.
	SetAside []PathNote `json:"set_aside,omitempty"`
	// Untracked are control files that git no longer tracks, because the session that
	// made its commits did not see them.
	Untracked []PathNote `json:"untracked,omitempty"`
	// LeftBehind are files in the directories of git repositories that are of no use
	// outside of the cell, and were not written.
	LeftBehind []PathNote `json:"left_behind,omitempty"`
}

// ChangeJSON is one change as --json shows it.
type ChangeJSON struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
	Change     string `json:"change"`
	Type       string `json:"type"`
	OldPath    string `json:"old_path,omitempty"`
	OldDigest  string `json:"old_digest,omitempty"`
	NewDigest  string `json:"new_digest,omitempty"`
}

// DiffRequest compares two states. Without any it means all undecided work, else the last
// run, or the start and the present state of a live cell.
type DiffRequest struct {
	Cell       string   `json:"cell"`
	State      string   `json:"state,omitempty"` // a state of the cell, or ""
	From, To   string   // states of the cell, else other cells or states of them
	Run        string   `json:"run,omitempty"`
	SinceApply bool     `json:"since_apply,omitempty"` // what the source directory does not have yet
	Paths      []string `json:"paths,omitempty"`       // only these and what is below them
	All        bool     `json:"all,omitempty"`         // also the cell's home
	// Unpaired lists a rename as deleted and added: to pair them takes a look at all
	// changes before the first is delivered.
	Unpaired bool `json:"unpaired,omitempty"`
	// Stream leaves Changes and Raw empty: DiffResult.Each compares and delivers
	// one change after the other.
	Stream bool `json:"stream,omitempty"`
}

// DiffResult lists what differs between two states.
type DiffResult struct {
	Cell    string       `json:"cell"`
	From    string       `json:"from"`
	To      string       `json:"to"`
	Changes []ChangeJSON `json:"changes"`
	// SetAside are changes of control files by runs that masked them. They are no
	// part of Changes.
	SetAside []ChangeJSON `json:"set_aside,omitempty"`
	Notes    []string     `json:"notes"` // where the result differs from the request
	// Runs are the undecided runs and captured states whose changes are listed, the oldest
	// first: what an acceptance of these changes names.
	Runs []string `json:"runs,omitempty"`
	// Earlier are undecided, too, and the states have their changes already: the list does not
	// show them.
	Earlier []EarlierWork `json:"earlier,omitempty"`
	// Unapplied is how many other changes the accepted state has that are not in the
	// directory. An apply writes them as well.
	Unapplied int `json:"unapplied,omitempty"`
	// Elsewhere counts what differs outside the workspace, unless Changes has that.
	Elsewhere []AreaChange `json:"elsewhere,omitempty"`
}

// EarlierWork is an undecided run, or a state that was captured of a live cell.
type EarlierWork struct {
	ID               string    `json:"id"`
	Command          []string  `json:"command,omitempty"`  // of a run
	Executed         *Executed `json:"executed,omitempty"` // in a live cell
	CheckpointBefore string    `json:"checkpoint_before"`
	CheckpointAfter  string    `json:"checkpoint_after"`
	ChangedFiles     int       `json:"changed_files"` // by a run
}

// ExportRequest writes a state, or its changes, to a file or directory.
type ExportRequest struct {
	Cell       string `json:"cell"`
	Checkpoint string `json:"checkpoint,omitempty"`
	Output     string `json:"output,omitempty"`  // FILE.tar, FILE.tar.zst or a directory that does not exist or is empty
	Changes    bool   `json:"changes,omitempty"` // only what differs from the last applied state
	Since      string `json:"since,omitempty"`   // the state that changes are compared with, instead of the last applied one
	// Foreign reports that the cell has the state of a daemon's cell, in a temporary home,
	// and does not know its last applied state. Changed are the paths that differ from that;
	// nil says that they are not known.
	Foreign bool     `json:"-"`
	Changed []string `json:"-"`
	// AllowControl are patterns of control files that the cell changed and that
	// are written to a directory all the same; AllowSetuid keeps set-id bits and
	// security.* attributes there. Archives have everything.
	AllowControl []string `json:"allow_control,omitempty"`
	AllowSetuid  bool     `json:"allow_setuid,omitempty"`
	// WithMemory also writes the memory of the checkpoint, to a directory beside the
	// output.
	WithMemory bool `json:"with_memory,omitempty"`
}

// ExportResult says what was written.
type ExportResult struct {
	Cell         string   `json:"cell"`
	CheckpointID string   `json:"checkpoint_id"`
	Root         string   `json:"root"`
	Output       string   `json:"output"`
	Files        int64    `json:"files"`
	Bytes        int64    `json:"bytes"`
	Deleted      []string `json:"deleted"`
	Notes        []string `json:"notes"`
	// LeftBehind are files as those of ApplyResult. An archive has them.
	LeftBehind []PathNote `json:"left_behind,omitempty"`
}

// UndoRequest takes the last apply back.
type UndoRequest struct {
	Cell       string   `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Except     []string `json:"except,omitempty" doc:"Leave paths that match as they are."`
	OnConflict string   `json:"on_conflict,omitempty" enum:"fail,ours,theirs" doc:"What happens to a path that was changed since."`
	DryRun     bool     `json:"dry_run,omitempty" doc:"Only say what would be taken back."`
	// Conflicts, unless nil, has the paths that OnConflict decides about. Any other
	// conflict is refused.
	Conflicts []string `json:"-"`
}

// ReceiveRequest names a state of a daemon's cell that comes to the mirror of that
// cell as an archive.
type ReceiveRequest struct {
	// Root is that which the state must have; "" is any.
	Root string `json:"root"`
	// Sources are the roots of the states of the source directory that the state
	// contains.
	Sources []string `json:"sources,omitempty"`
}
